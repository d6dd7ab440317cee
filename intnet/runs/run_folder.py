"""Runs on disk: a folder that holds everything a training run needs to go on, and to be reported.

    with create("RUN", build("wageubn", {}, "resnet8", "digits", batch_size=64, seed=1), steps=60) as work:
        report = work.train()                         # or, after a kill: with resume("RUN") as work: ...

    config.json     `run`, all that decides a bit, and `plan`, how far, how often saved (`config.py`)
    metrics.jsonl   one line a step (where widths move, two) and one an epoch (with a map, two) (`metrics.py`)
    data.npz        the data, of a run on arrays at hand (`datasets/arrays.py`)
    checkpoint.npz  the newest saved state (`runs/checkpoint.py`)
    report.json .md the result (`report.py`), when the planned steps are done
    sent.json       of a run on many ranks: what they sent (`rank_messages.py`)
    model.npz       with it, the fixed-point model of a method that trains one (`runs/fixed_model.py`)

A kill at any moment loses at most the steps since the last checkpoint: `resume` cuts metrics.jsonl
back to it and goes on bit for bit. A lock keeps two processes from working on one run.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import intnet
from intnet import datasets, methods, models, plugins
from intnet.datasets import Augment, Dataset
from intnet.errors import CheckpointError, ConfigError, IntnetError
from intnet.machine import ranks
from intnet.methods.trace import PathTable
from intnet.runs import (
    checkpoint,
    config,
    files,
    fixed_model,
    kept_data,
    rank_messages,
    records,
    report,
    state_dicts,
)
from intnet.runs.archive import PathLike
from intnet.runs.config import CHECKPOINT_EVERY, Plan
from intnet.runs.identity import IDENTITY, check_same_data, identity
from intnet.runs.kept import CHECKPOINT, CONFIG, resume_command
from intnet.runs.metrics import cut_metrics, epoch_line, history, read_metrics, step_lines
from intnet.runs.process import memory, taken
from intnet.training.history import StepReport
from intnet.training.inference import Scores
from intnet.training.state import check_state
from intnet.training.tape import Tape, measure
from intnet.training.train import Run

METRICS = "metrics.jsonl"

SAVED = {"run": IDENTITY, "step": int, "saturated": {str: int}}  # of a checkpoint's meta


# -- what a run is -----------------------------------------------------------------------------


def build(
    method: str,
    options: dict[str, Any],
    model: str,
    data: str | Dataset,
    batch_size: int = 64,
    seed: int = 1,
    limit: int | None = None,
    data_dir: PathLike | None = None,
    augment: str | None = None,
    image_size: int | None = None,
    weights: PathLike | None = None,
    partial: bool = False,
) -> Run:
    """A run at step 0 from names; `limit` takes the first training images only.

    augment: as `Augment.parse` reads it; image_size: of a folder of images (`datasets.load`)
    weights: a file of first values, `partial`: even where not all of it fits (`state_dicts.load`)
    """
    made = methods.make(method, **options)
    altered = Augment.parse(augment)
    loaded = data if isinstance(data, Dataset) else load_data(data, data_dir, image_size, limit)
    network = models.make(model, loaded.image_shape, loaded.classes)
    run = Run(network, made, loaded, batch_size, seed, altered)
    if weights is not None:
        run.weights = state_dicts.load(weights, run.model, run.method, partial)
    return run


def load_data(
    name: str, data_dir: PathLike | None, image_size: int | None = None, limit: int | None = None
) -> Dataset:
    """`datasets.load`; `limit` takes the first training images only."""
    loaded = datasets.load(name, data_dir, image_size)
    return loaded if limit is None else loaded.first(limit)


def build_again(
    own: dict[str, Any], options: dict[str, Any], data_dir: PathLike | None, kept: Dataset | None = None
) -> Run:
    """The run at step 0 that an identity tells of; its caller compares the identities.

    kept: its data, where no name finds them. A file of first weights is not needed again: a checkpoint has
    what became of them.
    """
    names = {key: own[key] for key in ("method", "model", "data", "batch_size", "seed", "limit")}
    names |= {key: own[key] for key in ("augment", "image_size") if key in own}
    names |= {} if kept is None else {"data": kept}
    run = build(**names, options=options, data_dir=data_dir)
    run.weights, run.plugins = own.get("weights"), own.get("plugins", {})
    return run


# -- making, resuming, reading -----------------------------------------------------------------


def check_unused(folder: PathLike) -> None:
    """ConfigError when `folder` holds something that a new run would mix with."""
    folder = Path(folder)
    names = files.content(folder, "run")
    if (folder / files.LOCK).exists():
        files.lock(folder).close()
    ours = {METRICS, CHECKPOINT, kept_data.DATA}
    if METRICS in names and {*names} <= ours and not (folder / METRICS).stat().st_size:
        names = []  # of a run that was killed before it had a config: the new one writes over it
    if CONFIG in names:
        raise ConfigError(
            f"{folder} holds a run already: go on with `{resume_command(folder)}`, or name another --out"
        )
    if names:
        raise ConfigError(f"{folder} is not empty (it holds {files.shown(names)}): name another --out")


def create(
    folder: PathLike,
    run: Run,
    steps: int,
    checkpoint_every: int = CHECKPOINT_EVERY,
    data_dir: PathLike | None = None,
    lines: Iterable[dict[str, Any]] = (),
) -> "RunFolder":
    """A new, locked run folder; ConfigError when it is not empty or in use.

    lines: of metrics.jsonl, of a run that was trained before
    """
    own = identity(run)
    plan = Plan(
        steps,
        checkpoint_every,
        None if data_dir is None else os.path.abspath(data_dir),
        plugins.files(own.get("plugins", {})),
    )
    check_unused(folder)
    content = kept_data.content(Path(folder), run.data)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = files.lock(folder)
    try:
        if (folder / CONFIG).exists():  # now that it is locked: another process may have been quicker
            raise ConfigError(f"{folder} was taken by another intnet at the same time: name another --out")
        files.remove_partial(folder)
        work = RunFolder(folder, run, own, plan, lock)
        kept_data.write(folder, content)
        for line in lines:
            work.log(line)
        work.checkpoint()
        config.write(folder, work.identity, plan)
    except BaseException:
        lock.close()
        raise
    return work


def resume(
    folder: PathLike, steps: int | None = None, epochs: int | None = None, data_dir: PathLike | None = None
) -> "RunFolder":
    """A locked run folder at its last checkpoint; `steps` or `epochs` in all, else as planned."""
    folder = Path(folder)
    config.read(folder)  # before the lock, which would otherwise be made in any folder
    lock = files.lock(folder)
    try:
        files.remove_partial(folder)
        own, plan = config.read(folder)
        if data_dir is not None:
            plan = dataclasses.replace(plan, data_dir=os.path.abspath(data_dir))
        plan = dataclasses.replace(plan, imports=_need(folder, own, plan))
        run = _restore(folder, own, plan.data_dir)
        planned = epochs * run.steps_per_epoch if epochs is not None else steps
        if planned is not None:
            plan = dataclasses.replace(plan, steps=planned)
        if plan.steps < run.step:
            raise ConfigError(
                f"{folder} has done {run.step} steps already: steps and epochs count from the run's start"
            )
        if plan.steps == run.step:  # the report is all that is to be shown
            report.read(folder, own, run.step)
        cut_metrics(folder / METRICS, run.step)  # before a new plan: it may refuse the file
        run.history = history(folder / METRICS, own, run.step)
        config.write(folder, own, plan)
    except BaseException:
        lock.close()
        raise
    return RunFolder(folder, run, own, plan, lock)


def load(
    folder: PathLike,
    data: str | Dataset | None = None,
    data_dir: PathLike | None = None,
    image_size: int | None = None,
) -> Run:
    """The run at its last checkpoint, with its history; `data`: test on another data set of the same shape.

    image_size: of `data`, where that is a folder of images
    """
    folder = Path(folder)
    own, plan = config.read(folder)
    if data_dir is None and data in (None, own["data"]):
        data_dir = plan.data_dir
    _need(folder, own, plan)
    run = _restore(folder, own, data_dir, data, image_size)
    run.history = history(folder / METRICS, own, run.step)
    return run


def _need(folder: Path, own: dict[str, Any], plan: Plan) -> list[str]:
    """See that what the run is made of is here; the files that define it."""
    wanted = own.get("plugins", {})
    plugins.need(wanted, plan.imports, str(folder))
    return plugins.files(wanted)


def _restore(
    folder: Path,
    own: dict[str, Any],
    data_dir: PathLike | None,
    data: str | Dataset | None = None,
    image_size: int | None = None,
) -> Run:
    """The run at the last checkpoint, whose hash vouches for the identity."""
    path = folder / CHECKPOINT
    state, meta = checkpoint.load(path)
    try:
        records.check(meta, SAVED, "meta")
    except ValueError as error:
        raise CheckpointError(f"{path}: not of a run of this intnet ({error}): {checkpoint.ADVICE}") from None
    if meta["run"] != own:
        raise CheckpointError(f"{path}: not of the run that {CONFIG} describes: {_difference(meta, own)}")
    if image_size is None and data in (None, own["data"]):
        run = build_again(own, own["options"], data_dir, kept_data.read(folder, own["data"]))
        check_same_data(own, run, str(folder))
    else:
        other = (
            data if isinstance(data, Dataset) else datasets.load(data or own["data"], data_dir, image_size)
        )
        run = _for_test(folder, own, other)
    try:
        run.restore(state, meta["step"])
    except IntnetError as error:
        raise CheckpointError(f"{path}: {error}") from error
    run.method.set(saturated=dict(meta["saturated"]))
    return run


def _for_test(folder: Path, own: dict[str, Any], data: Dataset) -> Run:
    """A run of the same model on other data, which only its test images are read of."""
    if list(data.image_shape) != own["image_shape"] or data.classes > own["classes"]:
        raise ConfigError(
            f"{folder} was trained on images (H, W, C) = {tuple(own['image_shape'])} of {own['classes']} "
            f"classes; {data.name!r} has {data.image_shape} and {data.classes}"
        )
    model = models.make(own["model"], data.image_shape, own["classes"])
    run = Run(model, methods.make(own["method"], **own["options"]), data, batch_size=1, seed=own["seed"])
    run.tested_only = True
    return run


def _difference(meta: dict[str, Any], own: dict[str, Any]) -> str:
    other = meta["run"]
    keys = [key for key in sorted({*own, *other}) if own.get(key) != other.get(key)]
    return "; ".join(f"{key} is {other.get(key)!r} there and {own.get(key)!r} here" for key in keys)


# -- working on one ----------------------------------------------------------------------------


def never() -> bool:
    """The default of `stop`."""
    return False


class RunFolder:
    """A run and its locked folder; use it in a `with` statement."""

    writes = True

    def __init__(self, folder: Path, run: Run, own: dict[str, Any], plan: Plan, lock: IO[str]) -> None:
        self.folder, self.run, self.identity, self.plan = folder, run, own, plan
        self.world = ranks.current()
        self.sent = None if self.world is None else rank_messages.Sent(self.world)
        self.at_a_time = 1  # runs that are trained at a time on this machine, this one included
        self._lock = lock
        self._before: int | None = None  # bytes of the process ahead of the first step
        self._metrics = open(folder / METRICS, "a", buffering=1, encoding="utf-8", newline="\n")  # noqa: SIM115 (close() does)

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder free."""
        try:
            with files.naming(self.folder / METRICS):
                self._metrics.close()
        finally:
            self._lock.close()

    def train(
        self,
        on_step: Callable[[StepReport], None] | None = None,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
        on_test: Callable[[int], None] | None = None,
        stop: Callable[[], bool] = never,
    ) -> dict[str, Any] | None:
        """Train as far as planned and return the report; None when `stop` said so after a step.

        on_step sees each step, on_epoch each epoch's line of metrics.jsonl, on_test the images of each
        tested batch.
        """
        run, table = self.run, PathTable()
        before = memory()
        self._before = before and before[0]
        held: list[Tape] = []

        def after_step(step: StepReport) -> None:
            for line in step_lines(step):
                self.log(line)
            if on_step is not None:
                on_step(step)

        while run.step < self.plan.steps:
            last = run.step == self.plan.steps - 1
            on_tape = (lambda loss: held.append(measure(loss))) if last and self.world is None else None
            with self.sent.step() if self.sent else nullcontext():
                run.train(run.step + 1, after_step, [table] if last else [], on_tape)
            line = self._end_epoch(on_epoch, on_test) if run.step % run.steps_per_epoch == 0 else None
            if last:  # before the checkpoint: a run whose last step is saved has its report
                self._report(table, line["test_accuracy"] if line else self._accuracy(on_test), *held)
            stopped = self._any(stop())
            if last or line or stopped or run.step % self.plan.checkpoint_every == 0:
                self.checkpoint()
            if stopped and not last:
                return None
        return self._again(on_test)

    def _again(self, on_test: Callable[[int], None] | None) -> dict[str, Any]:
        """The report that is there, or one without what the last step showed."""
        run = self.run
        result = report.read(self.folder, self.identity, run.step)
        path = self.folder / fixed_model.FILE
        if result is not None and run.method.fixed_model and not path.exists():
            fixed_model.save(path, run)
        missing = self._any(result is None)
        return self._report(PathTable(), self._accuracy(on_test)) if missing or result is None else result

    def checkpoint(self) -> None:
        """Save the state; everything logged so far is on the disk before it."""
        with files.naming(self.folder / METRICS):
            self._metrics.flush()
            os.fsync(self._metrics.fileno())
        meta = {
            "run": self.identity,
            "step": self.run.step,
            "saturated": self.run.counts(),
            "intnet": intnet.__version__,
        }
        state = self.run.state()
        check_state(state)  # as whoever opens it does
        if self.world is not None:
            rank_messages.check_same(self.world, state, self.run.step)
        checkpoint.save(self.folder / CHECKPOINT, state, meta)
        if self.sent:
            self.sent.write(self.folder, self.run)

    def log(self, line: dict[str, Any]) -> None:
        """Write a line of metrics.jsonl."""
        with files.naming(self.folder / METRICS):
            self._metrics.write(json.dumps(line) + "\n")

    def _any(self, holds: bool) -> bool:
        """Whether it holds on this rank or another."""
        return holds if self.world is None else rank_messages.anywhere(self.world, holds)

    def _test(self, on_test: Callable[[int], None] | None) -> Scores | None:
        """None where there is no test part."""
        return self.run.evaluate(on_batch=on_test) if len(self.run.data.test_labels) else None

    def _accuracy(self, on_test: Callable[[int], None] | None) -> float | None:
        found = self._test(on_test)
        return None if found is None else found.accuracy

    def _end_epoch(
        self, on_epoch: Callable[[dict[str, Any]], None] | None, on_test: Callable[[int], None] | None
    ) -> dict[str, Any]:
        found = self._test(on_test)
        if found is not None:
            self.run.history.tested(found)
        line = epoch_line(self.run.history.epochs[-1])
        self.log(line)
        if on_epoch is not None:
            on_epoch(line)
        return line

    def _report(self, table: PathTable, accuracy: float | None, held: Tape | None = None) -> dict[str, Any]:
        self._metrics.flush()
        metrics, table = read_metrics(self.folder / METRICS), rank_messages.path_table(table)
        result = report.make(self.run, self.identity, table, accuracy, metrics, held)
        if self.run.method.fixed_model:
            sizes = fixed_model.save(self.folder / fixed_model.FILE, self.run)
            result |= {"fixed_model": dataclasses.asdict(sizes), "model_bytes": sizes.packed}
        if held is not None:
            result["process"] = taken(self._before, self.at_a_time)
        files.replace(self.folder / report.MARKDOWN, report.markdown(result).encode())
        files.replace(self.folder / report.JSON, config.pretty(result))
        return result
