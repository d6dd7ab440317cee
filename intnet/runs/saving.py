"""Runs of Python on disk: `intnet.save(run, folder)`, which `intnet.load` and every command read.

The folder is that of `intnet train` (`run_folder.py`) at the run's step: `intnet resume` goes on with it.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from intnet import datasets, methods, models
from intnet.datasets import FileImages, arrays
from intnet.errors import ConfigError, IntnetError
from intnet.runs import run_folder
from intnet.runs.archive import PathLike
from intnet.runs.identity import data_sha256
from intnet.runs.metrics import epoch_line, step_lines
from intnet.training.state import check_state
from intnet.training.train import Run

PLAIN = (int, float, str, tuple, Fraction, type(None))  # settings of a layer
MOVING = ("reads", "calls", "taken", "output_shape")  # of a layer that has run


def save(run: Run, folder: PathLike) -> None:
    """Write a run to a new folder, with its history and, of arrays at hand, its data.

    ConfigError where the folder is in use, or where the run could not be opened again.
    """
    run.check_own_data()
    _check_names(run)
    check_state(run.state())
    _check_data(run)
    lines = [epoch_line(epoch) for epoch in run.history.epochs]
    lines += [line for step in run.history.steps for line in step_lines(step)]
    run_folder.create(folder, run, steps=max(run.step, 1), lines=lines).close()


def _check_data(run: Run) -> None:
    """Data that their name does not find are kept as arrays; ConfigError where these are not the same."""
    data = run.data
    if not data.in_memory and datasets.findable(data.name):
        try:
            found, n = datasets.load(data.name), len(data.train_labels)
        except IntnetError:  # in a data_dir, which `load` is told again
            return
        same = n <= len(found.train_labels) and data_sha256(found.first(n)) == data_sha256(data)
        if same or isinstance(data.train_images, FileImages):
            return
        data = run.data = replace(data, in_memory=True)
    if data.in_memory and data_sha256(arrays.again(data)) != data_sha256(data):
        raise ConfigError(
            "the run could not be opened again: its data are not as datasets.from_arrays makes them of the "
            "same numbers (another type of codes?): make them by it, and train on these"
        )


def _told(model: models.Model) -> dict[str, Any]:
    """All that each layer was made with, by its name: class, shapes of its parameters, settings."""
    made = {}
    for name, layer in model.walk():
        settings = {
            key: value
            for key, value in vars(layer).items()
            if isinstance(value, PLAIN) and key not in MOVING and not key.startswith("_")
        }
        made[name] = type(layer), [(p.name, p.shape) for p in layer.parameters], settings
    return made


def _check_names(run: Run) -> None:
    """ConfigError unless the names of model and method make these two again."""
    model, method = run.model, run.method
    try:
        again = models.make(model.kind, model.image_shape, model.classes)
    except IntnetError as error:
        raise ConfigError(f"the run could not be opened again: {error}") from None
    mine, other = _told(model), _told(again)
    odd = next((name for name in [*mine, *other] if mine.get(name) != other.get(name)), None)
    if odd is not None:
        raise ConfigError(
            f"the run could not be opened again: models.make({model.kind!r}, {model.image_shape}, "
            f"{model.classes}) makes another model than this one ({odd or 'the model'} differs)"
        )
    try:
        known = type(methods.make(method.name, **method.settings())) is type(method)
    except IntnetError:
        known = False
    if not known:
        raise ConfigError(
            f"the run could not be opened again: methods.make({method.name!r}) does not make a "
            f"{type(method).__name__}: register it first"
        )
