"""The plan of a sweep: from grids of settings to points, from points and seeds to runs, and sweep.json.

    grid    KEY -> its values; a point is one choice of values, every combination is taken
    point   a method and its settings: a row of the table
    run     a point and a seed: a folder SWEEP/runs/NAME, the same as `intnet train` makes

    plan = make(Asked([Part("float32", [("momentum", ["0.9", "0.5"])])], "mlp", "digits", seeds=[1, 2]))
    with opened("SWEEP", plan):         # locks it; what is there already must belong to the plan
        tasks = [task("SWEEP", plan, run) for run in plan.runs()]       # work.py does them

A plan may grow: more points, more seeds, more steps. Anything else in a folder is refused, with what differs.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any
from urllib.parse import quote

import intnet
from intnet import methods, models, plugins
from intnet.datasets import Augment
from intnet.errors import ConfigError, unknown
from intnet.numbers import rng
from intnet.runs import definition, files, records
from intnet.runs import run_folder as runs
from intnet.runs.config import CHECKPOINT_EVERY
from intnet.runs.identity import IDENTITY, OF_SOME, data_sha256, identity
from intnet.training.train import Run

PLAN, RUNS = "sweep.json", "runs"
FORMAT, VERSION = "intnet sweep", 1
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:e[-+]?\d+)?")
LONGEST = 150  # characters of a run's name; file systems take 255 bytes

Grid = list[tuple[str, list[str]]]

COMMON = ("model", "image_shape", "classes", "data", "limit", "data_sha256", "batch_size")
POINT = {
    "method": str,
    "settings": {str: str},
    "varied": [str],
    "options": {str: (str, float, bool, NoneType)},
    "baseline": bool,
}
SHAPE = {
    "format": str,
    "version": int,
    "definition": int,
    "intnet": str,
    "common": {key: IDENTITY[key] for key in COMMON},  # and some of OF_SOME
    "steps": int,
    "steps_per_epoch": int,
    "checkpoint_every": int,
    "seeds": [int],
    "points": [POINT],
}


@dataclass(frozen=True)
class Part:
    """Points of one method: a grid, on top of those settings of all points that the method knows.

    baseline: they stand beside what is looked at, and show no column of their own
    """

    method: str
    grid: Grid = field(default_factory=list)
    baseline: bool = False


@dataclass(frozen=True)
class Asked:
    """What a sweep is asked for; texts as a user writes them.

    settings: of all points; each must be one that a part other than a baseline knows
    steps: of every run; None: so many epochs
    """

    parts: Sequence[Part]
    model: str
    data: str
    settings: dict[str, str] = field(default_factory=dict)
    seeds: Sequence[int] = (1,)
    batch_size: int = 64
    limit: int | None = None
    data_dir: str | None = None
    epochs: int = 1
    steps: int | None = None
    checkpoint_every: int = CHECKPOINT_EVERY
    augment: str | None = None
    image_size: int | None = None


@dataclass(frozen=True)
class Point:
    """A method and its settings.

    varied: which settings tell it from other points; options: all options, as its runs have them
    """

    method: str
    settings: dict[str, str]
    varied: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    baseline: bool = False

    @property
    def name(self) -> str:
        """Of its runs' folders, without the seed; another one for every method and settings."""
        parts = [f"{_safe(key)}={_safe(value)}" for key, value in _ordered(self.settings).items()]
        name = "+".join([self.method, *parts])
        if len(name) <= LONGEST:
            return name
        return f"{name[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    def value(self, key: str) -> str:
        """What it has for a key: as set, else the method's default; '-' where the method has no such key."""
        if key in self.settings:
            return self.settings[key]
        value = self.options.get(key, "-")
        return "off" if value is None else str(value)


def _as_float(found: re.Match[str]) -> str:
    """A number as one spelling of it: '0.0500' is '0.05'."""
    return repr(float(found[0]))


def _ordered(settings: dict[str, Any]) -> dict[str, Any]:
    """By key; patterns of one key after it as they were given: of those that match the last one holds."""

    def place(name: str) -> tuple[str, bool]:
        key, at, _ = name.partition("@")
        return key, bool(at)

    return {name: settings[name] for name in sorted(settings, key=place)}


def _safe(text: str) -> str:
    """A text for file names and shells, another one for every text: '2/4' is '2~4'."""
    return quote(text, safe=",@/").replace("~", "%7E").replace("/", "~")


@dataclass(frozen=True)
class Plan:
    """All that decides the bits of a sweep's runs; common: the part of their identities that is alike.

    imports: files of users' own, which define what `common["plugins"]` names, of all points together
    """

    common: dict[str, Any]
    steps: int
    steps_per_epoch: int
    checkpoint_every: int
    seeds: list[int]
    points: list[Point]
    imports: list[str] = field(default_factory=list)

    def runs(self) -> Iterator[tuple[Point, int]]:
        """(point, seed) of every run: all points at the first seed come first."""
        return ((point, seed) for seed in self.seeds for point in self.points)

    def identity(self, point: Point, seed: int) -> dict[str, Any]:
        """`runs.identity` of a run."""
        own = {"method": point.method, "options": point.options, **self.common, "seed": seed}
        found = own.pop("plugins", {})
        others = {f"method {other.method}" for other in self.points} - {f"method {point.method}"}
        kept = {key: sha256 for key, sha256 in found.items() if key not in others}
        return own | ({"plugins": kept} if kept else {})

    def varied(self) -> list[str]:
        """Keys that tell points apart, in the order in which they were given."""
        return list(dict.fromkeys(key for point in self.points if not point.baseline for key in point.varied))

    def label(self, point: Point) -> str:
        """What tells a point from the others: 'bits=4 codec=affine'; of one alone, or a baseline, its method.

        Where points of several methods are looked at: 'wageubn e2=16', without settings where its method
        has one point.
        """
        looked_at = [other for other in self.points if not other.baseline]
        several = len({other.method for other in looked_at}) > 1
        own = [other for other in looked_at if other.method == point.method]
        keys = point.varied
        if several and not point.baseline:
            keys = [] if len(own) == 1 else [key for key in keys if not _alike(own, key)]
        text = " ".join(f"{key}={point.settings[key]}" for key in keys)
        return text if text and not (several or point.baseline) else " ".join([point.method, text]).strip()


def _alike(points: Sequence[Point], key: str) -> bool:
    return len({point.settings.get(key) for point in points}) == 1


def run_name(point: Point, seed: int) -> str:
    """'saved+bits=2+codec=affine+seed=1'."""
    return f"{point.name}+seed={seed}"


def run_folder(sweep: Path, point: Point, seed: int) -> Path:
    """Where a run is kept."""
    return sweep / RUNS / run_name(point, seed)


# -- texts -------------------------------------------------------------------------------------


def values(text: str, what: str) -> list[str]:
    """'4,2' or, where a value holds commas, '0.05,0.01@4;0.1'; ConfigError naming `what`."""
    found = text.removesuffix(";").split(";") if ";" in text else text.split(",")
    found = [value.strip() for value in found]
    if not all(found):
        raise ConfigError(f"{what}: a value is empty: write V1,V2 or, where values hold commas, 'V1;V2'")
    twice = next((value for value in found if found.count(value) > 1), None)
    if twice is not None:
        raise ConfigError(f"{what}: {twice} is given twice")
    return found


def grid(texts: Sequence[str], what: str) -> Grid:
    """The grid of texts KEY=V1,V2; ConfigError naming `what`, an option of the command."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, rest = text.partition("=")
        if not (key and equals):
            raise ConfigError(f"{what} {text}: write KEY=V1,V2, as in bits=8,4,2")
        if key in found:
            raise ConfigError(f"{what} {key} is given twice: write all of its values after one")
        found[key] = values(rest, f"{what} {text}")
    return list(found.items())


# -- making ------------------------------------------------------------------------------------


def make(asked: Asked) -> Plan:
    """The plan; every point's run is built once, so that what cannot be trained is refused here."""
    if len(set(asked.seeds)) != len(asked.seeds) or not asked.seeds:
        raise ConfigError(f"seeds {', '.join(map(str, asked.seeds))}: give each one once")
    for seed in asked.seeds:
        rng.check_counter(seed, 0, 0)
    points = _points(asked)
    for point in points:  # before the data: a wrong key is told at once
        _check(point)
    augment = Augment.parse(asked.augment)
    data = runs.load_data(asked.data, asked.data_dir, asked.image_size, asked.limit)
    sha256 = data_sha256(data)
    known: dict[str, Point] = {}
    own: dict[str, str] = {}
    for i, point in enumerate(points):
        model = models.make(asked.model, data.image_shape, data.classes)
        method = methods.make(point.method, **point.settings)
        run = Run(model, method, data, asked.batch_size, asked.seeds[0], augment)
        told = identity(run, sha256)
        own |= told.get("plugins", {})
        points[i] = dataclasses.replace(point, options=told["options"])
        options = _NUMBER.sub(_as_float, json.dumps([point.method, _ordered(told["options"])]))
        other = known.setdefault(options, points[i])
        if other is not points[i]:
            raise ConfigError(f"two points are the same: {_whole(other)}, and {_whole(point)}: leave one out")
    steps = asked.steps or asked.epochs * run.steps_per_epoch
    common = {key: told[key] for key in (*COMMON, *OF_SOME) if key in told}
    if own:
        common["plugins"] = dict(sorted(own.items()))
    lengths = (steps, run.steps_per_epoch, asked.checkpoint_every)
    return Plan(common, *lengths, list(asked.seeds), points, plugins.files(own))


def _check(point: Point) -> None:
    """ConfigError where the method does not take the settings."""
    try:
        methods.make(point.method, **point.settings)
    except ConfigError as error:
        if not any("@" in point.settings[key] for key in point.varied):
            raise
        hint = "semicolons part values that hold commas, as in 'lr=0.05,0.01@4;0.1'"
        raise ConfigError(f"{error} ({hint})") from None


def _points(asked: Asked) -> list[Point]:
    """All points, without their options; the baseline first."""
    known = {part.method: _known(part.method, asked.settings) for part in asked.parts}
    _check_known(asked, known)
    points = []
    for part in sorted(asked.parts, key=lambda part: not part.baseline):
        keys = [key for key, _ in part.grid]
        shared = {key: asked.settings[key] for key in known[part.method]}
        for chosen in itertools.product(*(found for _, found in part.grid)):
            own = shared | dict(zip(keys, chosen, strict=True))
            points.append(Point(part.method, own, keys, baseline=part.baseline))
    return points


def _known(method: str, settings: dict[str, str]) -> list[str]:
    """Those of the settings' names that a method takes."""
    made = methods.make(method)
    keys = {field.name for field in dataclasses.fields(made.options)}
    return [name for name in settings if name in keys or name.partition("@")[0] in made.BY_LAYER]


def _check_known(asked: Asked, known: dict[str, list[str]]) -> None:
    """ConfigError for a setting that only a baseline, or no method at all, takes."""
    names = list(dict.fromkeys(part.method for part in asked.parts if not part.baseline))
    for name in asked.settings:
        if not any(name in known[method] for method in names):
            if len(names) == 1:  # which says best what is wrong
                methods.make(names[0], **{name: asked.settings[name]})
            classes = [methods.METHODS[method].Options for method in names]
            keys = {field.name for own in classes for field in dataclasses.fields(own)}
            raise unknown(f"key of {', '.join(names)}:", name, sorted(keys))


# -- sweep.json --------------------------------------------------------------------------------


@contextmanager
def opened(folder: Path, plan: Plan) -> Iterator[None]:
    """Hold the sweep's folder, made if there is none, with `plan` in it; ConfigError where it is not ours."""
    names = files.content(folder, "sweep")
    if names and PLAN not in names:
        raise ConfigError(f"{folder} is no sweep (it holds {files.shown(names)}): name another --out")
    folder.mkdir(parents=True, exist_ok=True)
    with files.lock(folder):
        files.remove_partial(folder)
        if (folder / PLAN).exists():
            _check_grown(folder, read(folder), plan)
        files.replace(folder / PLAN, text(plan).encode())
        (folder / RUNS).mkdir(exist_ok=True)  # after the plan, without which a folder with runs is refused
        yield


def text(plan: Plan) -> str:
    """sweep.json."""
    told = dataclasses.asdict(plan)
    if not plan.imports:
        del told["imports"]
    return json.dumps(definition.head(FORMAT, VERSION) | told, indent=2) + "\n"


def read(folder: Path) -> Plan:
    """The plan of a sweep; ConfigError where there is none or it is damaged."""
    path = folder / PLAN
    try:
        found = records.parse(path.read_bytes())
        records.check(found, {"format": str, "version": int})
        if why := definition.refused(found, "sweep", FORMAT, VERSION):
            raise ConfigError(f"{path}: {why}")
        records.check(found, SHAPE)
        some = {key: OF_SOME[key] for key in OF_SOME if key in found["common"]}
        records.check(found["common"], some, "common")
        points = [Point(**point) for point in found["points"]]
        if any(key not in point.settings for point in points for key in point.varied):
            raise ValueError("a point varies what it does not set")
        records.check(found.setdefault("imports", []), [str], "imports")
        names = (field.name for field in dataclasses.fields(Plan))
        return Plan(**{name: found[name] for name in names} | {"points": points})
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{folder} is no sweep: it has no {PLAN}") from None
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: damaged ({error}): delete it, and give the same command again") from None


def _check_grown(folder: Path, old: Plan, new: Plan) -> None:
    """ConfigError naming what differs, unless `new` is `old` with points, seeds or steps added."""
    changed = dict(old.common.get("plugins", {}).items() - new.common.get("plugins", {}).items())
    wrong = [f"{key} is of another file there than here, or of one that changed" for key in sorted(changed)]
    wrong += [
        f"{key} is {old.common.get(key, 'none')} there and {new.common.get(key, 'none')} here"
        for key in (*COMMON, *OF_SOME)
        if key != "plugins" and old.common.get(key) != new.common.get(key)
    ]
    if old.steps > new.steps:
        wrong.append(f"its runs have {old.steps:,} steps, here they have {new.steps:,}")
    now = [(point.name, point.options) for point in new.points]  # names tell the order of patterns too
    gone = [point for point in old.points if (point.name, point.options) not in now]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        wrong.append(f"it has a point that is not asked for here: {_whole(gone[0])}{more}")
    seeds = [str(seed) for seed in old.seeds if seed not in new.seeds]
    if seeds:
        wrong.append(f"it has seeds that are not asked for here: {', '.join(seeds)}")
    if wrong:
        advice = "a sweep grows by points, seeds and steps, and loses none: name another --out"
        raise ConfigError(f"{folder} holds another sweep: {'; '.join(wrong)} ({advice})")


def _whole(point: Point) -> str:
    """A point with all of its settings."""
    return " ".join([point.method, *(f"{key}={value}" for key, value in point.settings.items())])


def task(
    folder: Path, plan: Plan, point: Point, seed: int, session: str, data_dir: str | None, jobs: int = 1
) -> dict[str, Any]:
    """What `work.train` needs to know of a run, as JSON values; session: as `work.begin` gave it.

    jobs: runs that are trained at a time, which a report tells beside what it timed
    """
    sweep = Path(os.path.abspath(folder))
    return {
        "sweep": str(sweep),
        "session": session,
        "intnet": intnet.__version__,
        "name": run_name(point, seed),
        "folder": str(run_folder(sweep, point, seed)),
        "run": plan.identity(point, seed),
        "settings": point.settings,
        "steps": plan.steps,
        "jobs": jobs,
        "checkpoint_every": plan.checkpoint_every,
        "imports": plan.imports,
        "data_dir": None if data_dir is None else os.path.abspath(data_dir),
    }
