"""`intnet eval`: the test accuracy of a run, or of a fixed-point model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from intnet.cli import options
from intnet.errors import ConfigError, DataError

if TYPE_CHECKING:
    from intnet.datasets import Dataset
    from intnet.training.inference import Scores
    from intnet.training.train import Run

SUMMARY = "test a run at its last checkpoint, or a fixed-point model"
EXAMPLE = """\
  intnet eval runs/first
  intnet eval runs/first --data mnist --data-dir ~/data
  intnet eval runs/first --reestimate 50
  intnet eval runs/adapt/model.npz

Inference uses the method's own arithmetic, integers where it has them. model.npz is what training by AdaPT
leaves, or what `intnet export RUN --to npz` writes: packed words, and nothing else that a device would need
to run the network.

Batch norm reads running statistics, which lag where parameters move fast. --reestimate N reads the means
over N training batches instead, those that the next N steps would train on; nothing in the folder changes.
A run of statistics=batch reads those of each test batch: 256 images in order, the last batch fewer."""


TOP = 5  # classes, as in table I of WAGEUBN, where there are more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder or file, and other data."""
    parser.add_argument("source", metavar="RUN", help="the run's folder, or the model.npz in it")
    options.add(parser, "--data", help="test on another data set of the same image shape")
    options.add(parser, "--data-dir", "--image-size")
    parser.add_argument(
        "--reestimate", type=options.positive, metavar="N", help="batch norm by N training batches"
    )


def run(args: argparse.Namespace) -> int:
    """Load and test."""
    source = Path(args.source)
    if source.suffix == ".npz" and not source.is_file():
        raise DataError(
            f"{source}: there is no such file; `intnet train --method adapt` leaves a model.npz, of another "
            "run write it: intnet export RUN --to npz"
        )
    title, result = _model(args) if source.is_file() else _run(args)
    if args.json:
        print(json.dumps(result))
        return 0
    print(title)
    right, images = round(result["test_accuracy"] * result["test_images"]), result["test_images"]
    print(f"test accuracy {result['test_accuracy']:.2%} ({right:,} of {images:,} images)")
    if "test_top5" in result:
        print(f"top-5 {result['test_top5']:.2%}")
    if "bytes" in result:
        print(f"packed words: {result['bytes']:,} bytes")
    if result["batch_norm"] is not None:
        print(f"batch norm: {_told(result)}")
    print(f"state sha256: {result['state_sha256']}")
    return 0


def _run(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """A title, and the result as JSON, of a run."""
    from intnet.runs import report, run_folder

    tested = run_folder.load(args.source, args.data, args.data_dir, args.image_size)
    found = tested.evaluate(reestimate=args.reestimate or 0)
    config = {"method": tested.method.name, "model": tested.model.kind, "data": tested.data.name}
    return f"{report.title(config)}, step {tested.step:,}", {
        "run": args.source,
        "data": tested.data.name,
        "step": tested.step,
        **_scores(found, tested.data),
        **_statistics(tested, args.reestimate),
        "state_sha256": tested.digest(),
    }


def _scores(found: Scores, data: Dataset) -> dict[str, Any]:
    """Of the test images; top-5 where there are more classes."""
    top = {"test_top5": found.top5} if data.classes > TOP else {}
    return {"test_accuracy": found.accuracy, **top, "test_images": len(data.test_labels)}


def _statistics(tested: Run, reestimate: int | None) -> dict[str, Any]:
    """Whose statistics batch norm read (None: there is none), and of batches of how many images.

    reestimated_from: training batches
    """
    from intnet.training.inference import EVALUATION_BATCH
    from intnet.training.reestimate import norms_of

    if not norms_of(tested.model):
        return {"batch_norm": None}
    if reestimate:
        images = tested.batch_size
        return {"batch_norm": "reestimated", "reestimated_from": reestimate, "batch_images": images}
    if not tested.method.running_statistics:
        return {"batch_norm": "batch", "batch_images": EVALUATION_BATCH}
    return {"batch_norm": "running"}


def _told(result: dict[str, Any]) -> str:
    """`_statistics` in words."""
    images = result.get("batch_images")
    if result["batch_norm"] == "reestimated":
        count = result["reestimated_from"]
        return f"re-estimated from {count:,} training batch{'es' * (count > 1)} of {images:,} images"
    if result["batch_norm"] == "batch":
        return f"the statistics of each test batch, {images} images in order, the last batch fewer"
    return "running statistics"


class Loaded(NamedTuple):
    """A model from a file, whichever wrote it; batch_norm: what it reads, None where it has none."""

    kind: str
    evaluate: Callable[[Dataset], Scores]
    image_shape: tuple[int, ...]
    classes: int
    trained: dict[str, Any]
    batch_norm: str | None
    bytes: int


def _fixed(path: str) -> Loaded:
    """What a run of adapt leaves."""
    from intnet.runs import fixed_model
    from intnet.training.reestimate import norms_of

    model = fixed_model.load(path)
    net, norm = model.model, "running" if norms_of(model.model) else None
    trained = model.description["trained"]
    return Loaded(net.kind, model.evaluate, net.image_shape, net.classes, trained, norm, model.bytes)


def _program(path: str) -> Loaded:
    """What `export --to npz` writes."""
    from intnet.export import batch, model_file

    program, size = model_file.load(path)
    about = program.about
    test = partial(batch.evaluate, program)
    return Loaded(
        about["model"], test, program.images.shape, about["classes"], about, about["batch_norm"], size
    )


def _model(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The same of a model file, tested on the data it was trained on unless told otherwise."""
    from intnet import datasets
    from intnet.export import model_file
    from intnet.runs import archive

    if args.reestimate:
        raise ConfigError(f"--reestimate: {args.source} holds batch norm as constants; name the run's folder")
    is_program = archive.told(args.source).get("format") == model_file.KIND.format
    model = (_program if is_program else _fixed)(args.source)
    trained = model.trained
    name = args.data or trained["data"]
    if not args.data and not datasets.findable(name):
        raise ConfigError(
            f"{args.source} was trained on {name!r}, arrays at hand, which no name finds: --data "
            "arrays:RUN/data.npz, of the run's folder"
        )
    data = datasets.load(name, args.data_dir, args.image_size)
    if data.image_shape != model.image_shape or data.classes > model.classes:
        raise ConfigError(
            f"{args.source} takes images (H, W, C) = {model.image_shape} of {model.classes} "
            f"classes; {data.name!r} has {data.image_shape} and {data.classes}"
        )
    found = model.evaluate(data)
    what = "integer model" if is_program else "fixed-point model"
    title = f"{what}, {model.kind} on {data.name}, trained for {trained['steps']:,} steps"
    return title, {
        "model": args.source,
        "data": data.name,
        "step": trained["steps"],
        **_scores(found, data),
        "batch_norm": model.batch_norm,
        "bytes": model.bytes,
        "state_sha256": trained["state_sha256"],
    }
