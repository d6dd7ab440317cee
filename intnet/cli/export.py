"""`intnet export`: a run's weights as a state dict, or its inference in integers for C, ONNX and hardware."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intnet.cli import options
from intnet.errors import ConfigError, DataError

if TYPE_CHECKING:
    from intnet.training.train import Run

SUMMARY = "write a run's weights for PyTorch, or its integer inference as C, ONNX, memories, one file"
EXAMPLE = """\
  intnet export runs/first --out resnet8.safetensors
  intnet export runs/first --out resnet8.npz
  intnet export runs/integers --to c --out model.c
  intnet export runs/integers --to onnx --out model.onnx
  intnet export runs/adapted --to qonnx --out model.onnx
  intnet export runs/integers --to mem --out memories
  intnet export runs/integers --to npz --out model.npz

Without --to: names, shapes and the order of flattened images are PyTorch's; numbers are the stored weights
and running statistics as float32. `intnet train --weights FILE` starts from such a file.

--to: the network in integers, whose logits are those of intnet bit for bit. It takes a run of adapt, of
wageubn with --set edges=fixed16 (saturate=0 beside it keeps hidden layers in 8 bits), of muppet, whose
scales are then each image's own and whose batch norm is float32, or of dynasty, whose blocks are then each
image's own and which is float32 between its products. c: one C99 file without a library; onnx: integer
operators; qonnx: Quant and MultiThreshold, of adapt (both need the package onnx); mem: .mem, .mif and .coe
of every constant, with an address map for C and SystemVerilog; npz: packed words, which `intnet eval`
takes."""

SUFFIXES = {"c": ".c", "onnx": ".onnx", "qonnx": ".onnx", "npz": ".npz", "mem": ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, what to write, and where."""
    parser.add_argument("folder", metavar="RUN", help="the run's folder")
    parser.add_argument("--to", choices=list(SUFFIXES), help="its inference in integers, as one of these")
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="a new file: .npz or .safetensors; with --to .c, .onnx, .npz, of mem a new folder",
    )
    options.add(parser, "--data-dir")


def run(args: argparse.Namespace) -> int:
    """Load the run and write the file."""
    from intnet.runs import run_folder, tensor_files

    out = Path(args.out)
    if args.to is None:
        for kind, suffix in SUFFIXES.items():
            if suffix == out.suffix in (".c", ".onnx"):
                raise ConfigError(f"--out {args.out}: inference in integers is asked for by --to {kind}")
        tensor_files.check_writable(args.out)
    elif out.suffix != SUFFIXES[args.to] and SUFFIXES[args.to]:
        raise ConfigError(f"--to {args.to} --out {args.out}: name a file that ends in {SUFFIXES[args.to]}")
    if out.exists():
        raise DataError(f"{args.out} is there already: name another --out")
    if not out.parent.is_dir():
        raise DataError(f"{args.out}: there is no folder {out.parent}: make it first")
    trained = run_folder.load(args.folder, data_dir=args.data_dir)
    text, result = _state_dict(args, trained) if args.to is None else _program(args, out, trained)
    known = {"run": args.folder, "file": args.out, "step": trained.step}
    print(json.dumps(known | result) if args.json else text)
    return 0


def _state_dict(args: argparse.Namespace, trained: "Run") -> tuple[str, dict[str, Any]]:
    """What is said, in words and as JSON."""
    from intnet.runs import state_dicts

    tensors, rounded = state_dicts.save(args.out, trained.model, trained.method)
    text = (
        f"{args.out}: {tensors:,} tensors of {trained.model.kind} at step {trained.step:,}; "
        f"{rounded:,} of their numbers are rounded to float32"
    )
    return text, {"tensors": tensors, "rounded": rounded}


def _program(args: argparse.Namespace, out: Path, trained: "Run") -> tuple[str, dict[str, Any]]:
    """The same of inference in integers."""
    from intnet.export import writing
    from intnet.export.values import FLOAT32

    program = writing.of_run(trained)
    told = writing.write(program, args.to, out)
    own, real = program.logits.scale is not None, program.logits.form == FLOAT32
    exponent = None if own or real else program.logits.exponent
    logits = f"codes * {'2^e, e by the image' if own else f'2^({exponent})'}"
    widest = max(value.peak.bit_length() + 1 for value in program.values)
    lines = [
        f"{args.out}: {program.about['title']}",
        f"{len(program.ops)} operations, {widest} bits at most; logits are {'float32' if real else logits}",
        ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in told.items()),
    ]
    about = {
        "operations": len(program.ops),
        "bits": widest,
        "image_shape": program.images.shape,
        "image_exponent": program.images.exponent,
        "logits_exponent": exponent,
    }
    return "\n".join(lines), {"to": args.to, **told} | about | {"state_sha256": program.about["state_sha256"]}
