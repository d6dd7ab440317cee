"""Train what a plan asks for, and sweeps and comparisons as functions: `sweep(..)`, `compare(..)`.

They do what `intnet sweep` and `intnet compare` do, in the same folders, with the same bits: what one has
begun the other goes on with. A run is trained in a process of its own (`processes.py`), also from a notebook.
"""

import shlex
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from intnet.datasets.dataset import is_int
from intnet.errors import ConfigError, unknown
from intnet.runs.run_folder import never
from intnet.sweeps import cluster as clusters
from intnet.sweeps import plan as plans
from intnet.sweeps import processes, work
from intnet.sweeps.compared import Compared
from intnet.sweeps.plan import Asked, Grid, Part, Plan
from intnet.sweeps.progress import Show
from intnet.sweeps.table import Sweep
from intnet.sweeps.work import Outcome
from intnet.training.stop import Stop

if TYPE_CHECKING:
    from distributed import Client

Values = Mapping[str, Sequence[Any]]  # of keys, as in {"bits": [8, 4], "codec": ["affine", "levels"]}
Settings = Mapping[str, Any]
T = TypeVar("T", bound=Sweep)

COUNTS = ("epochs", "steps", "batch_size", "limit", "image_size", "checkpoint_every")


class More(TypedDict, total=False):
    """What both take beside, as the command has it; settings: of all points whose method knows the key."""

    settings: Settings
    seeds: Sequence[int]
    epochs: int
    steps: int | None
    batch_size: int
    limit: int | None
    augment: str | None
    image_size: int | None
    data_dir: str | None
    checkpoint_every: int


def sweep(
    method: str,
    model: str,
    data: str,
    out: str | Path,
    vary: Values | None = None,
    also: Sequence[Values] = (),
    baseline: tuple[str, Settings] | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    launch: str = "",
    quiet: bool = False,
    **more: Unpack[More],
) -> Sweep:
    """A grid of settings and seeds, trained in the folder `out`; what was begun there goes on.

    vary:     values of keys, every combination a point; also: further grids beside it, or in its place: with
              vary={} the settings alone are a point too, as of a command without --vary
    baseline: another method with its own settings, as ("float32", {"lr": 0.05})
    jobs:     runs at a time; cluster: the address of a Dask scheduler that trains them instead
    launch:   what starts the ranks of each run, as "mpirun -n 4"
    more:     see `More`
    """
    clash = next((key for key in vary or {} if key in more.get("settings", {})), None)
    if clash is not None:
        raise ConfigError(f"{clash} is in settings and in vary: give it once")
    parts = [
        Part(method, _grid(grid)) for grid in ([] if vary is None and also else [vary or {}]) + list(also)
    ]
    if baseline is not None:
        name, own = baseline
        parts.append(Part(name, _grid({key: [value] for key, value in own.items()}), baseline=True))
    asked = _asked(parts, model, data, more)
    return carried_out(Sweep, asked, Path(out), jobs, cluster, shlex.split(launch), quiet)


def compare(
    methods: Sequence[str] | Mapping[str, Settings | Sequence[Settings]],
    model: str,
    data: str,
    out: str | Path,
    jobs: int = 1,
    cluster: str | None = None,
    launch: str = "",
    quiet: bool = False,
    **more: Unpack[More],
) -> Compared:
    """The same network, data and seeds under several methods, trained in the folder `out`.

    methods: names, or of each name its settings, or a list of such for several rows:
             {"float32": {"lr": 0.05}, "saved": [{"bits": 2}, {"bits": 4}]}
    jobs, cluster, launch, more: as of `sweep`
    """
    if isinstance(methods, str):
        raise ConfigError(f"compare takes several methods: a list of names, not {methods!r}")
    rows = methods if isinstance(methods, Mapping) else {name: {} for name in methods}
    if not rows:
        raise ConfigError("compare: no methods: a list of names, as ['float32', 'wageubn']")
    parts = [
        Part(name, _grid({key: [value] for key, value in _mapping(name, one).items()}))
        for name, own in rows.items()
        for one in (own if isinstance(own, list | tuple) else [own])
    ]
    asked = _asked(parts, model, data, more)
    return carried_out(Compared, asked, Path(out), jobs, cluster, shlex.split(launch), quiet)


def _mapping(what: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{what}: give a dict of keys, as {{'lr': 0.05}}, not {given!r}")
    return given


def _grid(values: Values) -> Grid:
    for key, chosen in _mapping("a grid", values).items():
        if isinstance(chosen, str) or not hasattr(chosen, "__len__") or not len(chosen):
            raise ConfigError(f"{key}: give a list of values, as in {{{key!r}: [8, 4]}}, not {chosen!r}")
    return [(key, [_text(value) for value in chosen]) for key, chosen in values.items()]


def _text(value: object) -> str:
    """As a command has it."""
    return "off" if value is None else str(value)


def _asked(parts: Sequence[Part], model: str, data: str, more: More) -> Asked:
    for what, name in (("model", model), ("data", data), *(("method", part.method) for part in parts)):
        if not isinstance(name, str):
            raise ConfigError(
                f"{what}: a sweep takes a name, of which other processes make it, no {type(name).__name__}: "
                "register your own ('From a file of your own' in the docs); arrays: data='arrays:FILE.npz'"
            )
    told: dict[str, Any] = dict(more)
    odd = next((name for name in told if name not in More.__annotations__), None)
    if odd is not None:
        raise unknown("argument of a sweep", odd, list(More.__annotations__))
    for name in COUNTS:
        if told.get(name) is not None:
            told[name] = _count(name, told[name])
    if told.get("augment") is not None:
        told["augment"] = str(told["augment"]) or None
    seeds = told.get("seeds", [1])
    if (
        isinstance(seeds, str)
        or not hasattr(seeds, "__len__")
        or not all(map(is_int, seeds))
        or not len(seeds)
    ):
        raise ConfigError(f"seeds={seeds!r}: give a list of whole numbers, as [1, 2, 3]")
    settings = _mapping("settings", told.get("settings", {}))
    texts = {key: _text(value) for key, value in settings.items()}
    return Asked(parts, model, data, **told | {"seeds": [int(seed) for seed in seeds], "settings": texts})


def _count(name: str, value: Any) -> int:
    if not is_int(value) or value < 1:
        raise ConfigError(f"{name}={value!r}: a whole number of at least 1")
    return int(value)


def carried_out(
    kind: type[T],
    asked: Asked,
    out: Path,
    jobs: int,
    cluster: str | None,
    launch: Sequence[str],
    quiet: bool,
    stop: Stop | None = None,
) -> T:
    """Plan, train what is not done, and what it came to; stop: what may end it before, of a command."""
    jobs = _count("jobs", jobs)
    with ExitStack() as held:
        plan = plans.make(asked)
        client = held.enter_context(clusters.connected(cluster)) if cluster else None
        held.enter_context(plans.opened(out, plan))
        show, failed = Show(out, plan, quiet), {}
        try:
            with stop or nullcontext(), show.bars:
                failed = _train(out, plan, show, jobs, asked.data_dir, client, stop or never, launch)
        except KeyboardInterrupt:
            if stop is None:
                raise
            stop.signal = stop.signal or signal.SIGINT
        finally:  # also where it is interrupted: workers then stop after their step, and save it
            work.end(out)
        found = kind(out, plan, failed)
        found.write()
    if stop is not None and stop():
        show.stopped()
    return found


def _train(
    folder: Path,
    plan: Plan,
    show: Show,
    jobs: int,
    data_dir: str | None,
    client: "Client | None",
    stop: Callable[[], bool],
    launch: Sequence[str],
) -> dict[str, str]:
    """Train what is not done in a folder that is held; why runs failed, by name.

    launch: the command that starts a run's ranks
    """
    session, failed = work.begin(folder), {}
    tasks = [plans.task(folder, plan, *run, session, data_dir, jobs) for run in show.pending.values()]
    outcomes: Generator[Outcome | None]
    each = f", each run by {shlex.join(launch)}" if launch else ""
    if client is not None:
        workers = f"workers: {len(client.nthreads())}"
        show.start(f"on the cluster at {client.scheduler_info()['address']}, {workers}{each}")
        outcomes = clusters.run(tasks, client, launch)
    else:
        many, share = f"{jobs} process{'es' * (jobs > 1)}", processes.threads(jobs)
        show.start(f"{jobs} at a time{each}" if launch else f"in {many} of {share} thread{'s' * (share > 1)}")
        outcomes = processes.run(tasks, jobs, launch)
    with closing(outcomes):
        for outcome in outcomes:
            if stop():
                work.end(folder)
            show.look()
            if outcome is not None:
                show.ended(outcome)
                if outcome.state == work.FAILED:
                    failed[outcome.name] = outcome.why
    return failed
