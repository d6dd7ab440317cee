"""Short trainings of the checks: a run from sizes, and arms (methods side by side) that can be gone on with.

    run = start(sizes, method, load(sizes, None))     one run, a step at a time
    found = train(task, arms)      every arm at every seed; what is done already is read from `task.out`

Accuracies are of the first 2,000 test images unless told (`--tests`), to stay short: at 85 % their standard
error is 0.8 points. Of two arms trained by the same seeds, `apart` has the distance and its standard error.
"""

import dataclasses
import itertools
import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import intnet
from intnet import datasets, models
from intnet.datasets import Dataset, FileImages
from intnet.errors import ConfigError, IntnetError
from intnet.methods.method import Method
from intnet.papers.checks.check import Sizes, Task
from intnet.runs import files, records
from intnet.runs.identity import data_sha256, identity
from intnet.training.history import StepReport
from intnet.training.reestimate import batch_statistics
from intnet.training.train import Run

BATCH = 64
LR_CODES = (26, 6, 2)  # WAGEUBN's learning rate, code * 2^-9: as the paper begins; in the last two epochs
LR_UNIT = 2.0**-9
NUMBER = (float, type(None))
OUTCOME = {"accuracy": NUMBER, "top5": NUMBER, "loss": NUMBER, "sha256": str, "why": str}
OWN = {"own_accuracy": NUMBER}  # of an arm that asks for it


@dataclass(frozen=True)
class Arm:
    """A method under a name of its own; make: a fresh one for every run.

    own_statistics: test also by the test batch's own statistics, in batches as large as training's
    """

    name: str
    make: Callable[[], Method]
    batch_size: int = BATCH
    own_statistics: bool = False


@dataclass(frozen=True)
class Outcome:
    """How an arm ended at a seed.

    accuracy, top5: share of test images that are right, and whose class is among the five greatest logits,
    None where training broke off; loss: mean of the last epoch's steps, None likewise; sha256: of the
    trained state; why: what broke it off, '' for nothing; own_accuracy: by the test batch's own statistics,
    None where that was not asked for or training broke off
    """

    accuracy: float | None
    top5: float | None
    loss: float | None
    sha256: str
    why: str = ""
    own_accuracy: float | None = None


_OWN_FILE = re.compile(r".*\+seed=\d+\.json")  # what `train` keeps of an outcome


def load(sizes: Sizes, data_dir: str | None) -> Dataset:
    """The data with so many training images and at most so many test images."""
    whole = datasets.load(sizes.data, data_dir)
    if sizes.limit > len(whole.train_labels):
        there = len(whole.train_labels)
        raise ConfigError(f"{sizes.data} has {there:,} training images: give --limit, {there:,} at most")
    data = whole.first(sizes.limit)
    images = data.test_images
    count = min(sizes.tests, len(images))
    few = images.first(count) if isinstance(images, FileImages) else images[:count]
    return dataclasses.replace(data, test_images=few, test_labels=data.test_labels[:count])


def start(
    sizes: Sizes, method: Method, data: Dataset, batch_size: int = BATCH, seed: int | None = None
) -> Run:
    """A run at step 0, of the first seed unless told."""
    model = models.make(sizes.model, data.image_shape, data.classes)
    return Run(model, method, data, batch_size, sizes.seeds[0] if seed is None else seed)


def lr_codes(epochs: int, unit: float | None = None) -> str:
    """The schedule of learning rates as codes, or in units: a fall at the end calms what accuracy does.

    One epoch has the first of `LR_CODES`, two the first two; more have the others in their last two.
    """
    rates = [str(code if unit is None else code * unit) for code in LR_CODES[:epochs]]
    falls = [f"{rate}@{epochs - len(rates) + k}" for k, rate in enumerate(rates) if k]
    return ",".join([rates[0], *falls])


def about(sizes: Sizes, batch_size: int | None = BATCH) -> str:
    """'resnet20 on fashion-mnist: 4,000 images, 2 epochs, batches of 64, seed 1'."""
    epochs = f"{sizes.epochs} epoch{'s' * (sizes.epochs > 1)}"
    batches = "" if batch_size is None else f", batches of {batch_size}"
    seeds = f"seed{'s' * (len(sizes.seeds) > 1)} {', '.join(map(str, sizes.seeds))}"
    return f"{sizes.model} on {sizes.data}: {sizes.limit:,} images, {epochs}{batches}, {seeds}"


def about_arms(sizes: Sizes, batch_size: int | None = BATCH) -> str:
    """`about`, and what else all arms have in common."""
    codes = lr_codes(sizes.epochs)
    return f"{about(sizes, batch_size)}; lr codes {codes}; at most {sizes.tests:,} test images"


def train(task: Task, arms: Sequence[Arm]) -> dict[str, list[Outcome]]:
    """Arm -> its outcome at every seed. With a folder, each outcome is kept there and not computed again."""
    sizes = task.training
    widest = max(arm.batch_size for arm in arms)
    if sizes.limit < widest:
        raise ConfigError(f"--limit {sizes.limit}: the largest batches of this check have {widest} images")
    data = load(sizes, task.data_dir)
    steps = {arm.name: sizes.epochs * -(-len(data.train_labels) // arm.batch_size) for arm in arms}
    total, done = len(sizes.seeds) * sum(steps.values()), 0
    sha256 = data_sha256(data)
    found: dict[str, list[Outcome]] = {arm.name: [] for arm in arms}
    with ExitStack() as held:
        if task.out is not None:
            odd = [name for name in files.content(task.out, "check") if not _OWN_FILE.fullmatch(name)]
            if odd:
                raise ConfigError(
                    f"{task.out} holds {files.shown(odd)}, which no check wrote: name another --out"
                )
            task.out.mkdir(parents=True, exist_ok=True)
            held.enter_context(files.lock(task.out))
        for seed, arm in itertools.product(sizes.seeds, arms):
            run = start(sizes, arm.make(), data, arm.batch_size, seed)
            own = identity(run, sha256) | {"epochs": sizes.epochs, "intnet": intnet.__version__}
            file = None if task.out is None else task.out / f"{arm.name}+seed={seed}.json"

            def tell(step: StepReport, name: str = arm.name, before: int = done) -> None:
                task.progress(name, before + step.step, total)

            entries = OUTCOME | (OWN if arm.own_statistics else {})
            outcome = _read(file, own, entries)
            if outcome is None:
                outcome = _train(run, steps[arm.name], tell, arm.own_statistics)
                _write(file, own, {key: getattr(outcome, key) for key in entries})
            found[arm.name].append(outcome)
            done += steps[arm.name]
    return found


def _train(run: Run, steps: int, tell: Callable[[StepReport], None], own_statistics: bool) -> Outcome:
    """To the end, or to where a number leaves its range, as where training diverges."""
    losses: list[float] = []

    def after(step: StepReport) -> None:
        losses.append(step.loss)
        tell(step)

    try:
        run.train(steps, after)
        tested, own_accuracy = run.evaluate(), None
        if own_statistics:
            with batch_statistics(run.method):
                own_accuracy = run.evaluate(batch_size=run.batch_size).accuracy
    except IntnetError as error:
        return Outcome(None, None, None, "", f"step {run.step + 1}: {' '.join(str(error).split())}")
    last = losses[-run.steps_per_epoch :]
    loss = sum(last) / len(last)
    return Outcome(tested.accuracy, tested.top5, loss, run.digest(), own_accuracy=own_accuracy)


def _read(file: Path | None, own: dict[str, Any], entries: dict[str, Any]) -> Outcome | None:
    """What a run came to before; ConfigError where the file is of another run or damaged."""
    if file is None or not file.exists():
        return None
    try:
        kept = records.parse(file.read_bytes())
        records.check(kept, {"run": dict, "outcome": entries})
    except ValueError as error:
        raise ConfigError(f"{file}: damaged ({error}): delete it, and give the same command again") from None
    if kept["run"] != own:
        told = {"data_sha256": "the data: --data, --limit or --tests"}
        keys = ", ".join(told.get(key, key) for key in own if kept["run"].get(key) != own[key])
        raise ConfigError(f"{file} is of another run ({keys} differ): name another --out")
    return Outcome(**{key: kept["outcome"][key] for key in entries})


def _write(file: Path | None, own: dict[str, Any], outcome: dict[str, Any]) -> None:
    if file is not None:
        text = json.dumps({"run": own, "outcome": outcome}, indent=2)
        files.replace(file, f"{text}\n".encode())


def mean(numbers: Sequence[float]) -> float:
    """The mean, added up from the first on."""
    return sum(numbers) / len(numbers)


def means(outcomes: Sequence[Outcome]) -> tuple[float | None, float | None, float | None, float | None]:
    """(mean accuracy, least, greatest, mean loss) over the seeds; None where one of them broke off."""
    accuracies = [one.accuracy for one in outcomes if one.accuracy is not None]
    losses = [one.loss for one in outcomes if one.loss is not None]
    if len(accuracies) < len(outcomes):
        return None, None, None, None
    return mean(accuracies), min(accuracies), max(accuracies), mean(losses)


def apart(outcomes: Sequence[Outcome], base: Sequence[Outcome]) -> tuple[float | None, float | None]:
    """(points of accuracy above `base` in the mean, the standard error of that mean over the seeds).

    Distances are taken seed by seed: what a seed's images, words and weights do to both is not counted. None
    where a run broke off; no standard error of one seed.
    """
    pairs = [(one.accuracy, other.accuracy) for one, other in zip(outcomes, base, strict=True)]
    points = [100 * (one - other) for one, other in pairs if one is not None and other is not None]
    if len(points) < len(pairs):
        return None, None
    error = statistics.stdev(points) / math.sqrt(len(points)) if len(points) > 1 else None
    return mean(points), error


def broken_off(found: dict[str, list[Outcome]], seeds: Sequence[int]) -> list[str]:
    """A remark for each run that broke off."""
    return [
        f"{name}, seed {seed}: broke off in {outcome.why}"
        for name, outcomes in found.items()
        for seed, outcome in zip(seeds, outcomes, strict=True)
        if outcome.why
    ]
