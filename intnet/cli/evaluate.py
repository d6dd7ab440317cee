"""`intnet eval`: the test accuracy of a run."""

import argparse
import json

SUMMARY = "test a run at its last checkpoint"
EXAMPLE = """\
  intnet eval runs/first
  intnet eval runs/first --data mnist --data-dir ~/data

Inference uses the method's own arithmetic, integers where it has them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder, and other data."""
    parser.add_argument("folder", metavar="RUN", help="the run's folder")
    parser.add_argument("--data", metavar="D", help="test on another data set of the same image shape")
    parser.add_argument("--data-dir", metavar="DIR", help="look for data files there only")


def run(args: argparse.Namespace) -> int:
    """Load and test."""
    from intnet import report, runs

    tested = runs.load(args.folder, args.data, args.data_dir)
    accuracy = tested.evaluate()
    images = len(tested.data.test_labels)
    if args.json:
        result = {
            "run": args.folder,
            "data": tested.data.name,
            "step": tested.step,
            "test_accuracy": accuracy,
            "test_images": images,
            "state_sha256": tested.digest(),
        }
        print(json.dumps(result))
    else:
        config = {"method": tested.method.name, "model": tested.model.kind, "data": tested.data.name}
        print(f"{report.title(config)}, step {tested.step:,}")
        print(f"test accuracy {accuracy:.2%} ({round(accuracy * images):,} of {images:,} images)")
        print(f"state sha256: {tested.digest()}")
    return 0
