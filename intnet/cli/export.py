"""`intnet export`: the model of a run as a state dict that PyTorch loads."""

import argparse
import json

from intnet.cli import options
from intnet.errors import DataError

SUMMARY = "write the model of a run as a state dict for PyTorch, .npz or .safetensors"
EXAMPLE = """\
  intnet export runs/first --out resnet8.safetensors
  intnet export runs/first --out resnet8.npz

Names, shapes and the order of flattened images are PyTorch's; numbers are the stored weights and running
statistics as float32. `intnet train --weights FILE` starts from such a file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, and the file."""
    parser.add_argument("folder", metavar="RUN", help="the run's folder")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="FILE.npz or FILE.safetensors, a new file"
    )
    options.add(parser, "--data-dir")


def run(args: argparse.Namespace) -> int:
    """Load the run and write the file."""
    from pathlib import Path

    from intnet.runs import run_folder, state_dicts, tensor_files

    tensor_files.check_writable(args.out)
    if Path(args.out).exists():
        raise DataError(f"{args.out} is there already: name another --out")
    if not Path(args.out).parent.is_dir():
        raise DataError(f"{args.out}: there is no folder {Path(args.out).parent}: make it first")
    trained = run_folder.load(args.folder, data_dir=args.data_dir)
    tensors, rounded = state_dicts.save(args.out, trained.model)
    result = {
        "run": args.folder,
        "file": args.out,
        "step": trained.step,
        "tensors": tensors,
        "rounded": rounded,
    }
    if args.json:
        print(json.dumps(result))
    else:
        print(
            f"{args.out}: {tensors:,} tensors of {trained.model.kind} at step {trained.step:,}; "
            f"{rounded:,} of their numbers are rounded to float32"
        )
    return 0
