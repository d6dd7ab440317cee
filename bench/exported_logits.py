"""Of how many test images has what `intnet export` writes the very logits of a run?

    python -m bench.exported_logits RUN

All test images through the C file (gcc; the first 500 also by clang with sanitizers) and the ONNX model in
ONNX Runtime, against the run's own inference, in batches of one image where its scales follow a batch.
"""

import argparse
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime

from intnet.export import batch, c_source, onnx_graph, onnx_model, writing
from intnet.export.program import Program
from intnet.export.values import BLOCKS, FLOAT32
from intnet.methods.method import to_float32
from intnet.numbers.qtensor import QTensor
from intnet.runs import run_folder
from intnet.training.inference import all_logits

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DINTNET_MAIN")
COMPILERS = {
    "gcc -O2": (("gcc", "-O2"), None),
    "clang, sanitized": (
        ("clang", "-O1", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"),
        500,
    ),
}
AT_A_TIME = 50


def by_c(program: Program, images: np.ndarray, compiler: tuple[str, ...], folder: str) -> np.ndarray:
    """float32 logits, of what the compiled file prints."""
    source, binary = Path(folder, "model.c"), Path(folder, "model")
    source.write_text(c_source.source(program)[0], "ascii")
    subprocess.run([*compiler, *STRICT, source, "-o", binary], check=True)
    little = np.ascontiguousarray(images).astype(images.dtype.newbyteorder("<")).tobytes()
    done = subprocess.run([binary], input=little, capture_output=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    if program.logits.form == FLOAT32:
        return np.array(lines, np.float32)
    codes = np.array([[int(code) for code in line] for line in lines], np.int64)
    if program.logits.scale is None:
        return to_float32(QTensor(codes, program.logits.exponent))
    return to_float32(QTensor(np.ascontiguousarray(codes[:, :-1]), codes[:, -1:]))


def by_onnx(program: Program, images: np.ndarray) -> np.ndarray:
    """float32 logits of ONNX Runtime."""
    made = onnx_model.model(program).SerializeToString()
    session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    parts = [images[k : k + AT_A_TIME] for k in range(0, len(images), AT_A_TIME)]
    given = [session.run(None, {onnx_graph.IMAGES: part}) for part in parts]
    if program.logits.form == FLOAT32:
        return np.concatenate([logits for (logits,) in given])
    if program.logits.scale is None:
        return to_float32(QTensor(np.concatenate([codes for (codes,) in given]), program.logits.exponent))
    return np.concatenate([to_float32(QTensor(codes, e[:, None])) for codes, e in given])


def main() -> None:
    """A line a way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", metavar="RUN")
    run = run_folder.load(parser.parse_args().folder)
    program, images = writing.of_run(run), np.asarray(run.data.test_images)
    by_image = any(value.scale is not None or value.form == BLOCKS for value in program.values)
    at_a_time = 1 if by_image else 256
    wanted = all_logits(run.model, run.method, images, run.data.exponent, at_a_time)
    found = {
        "intnet eval model.npz": batch.logits32(program, images),
        "ONNX Runtime": by_onnx(program, images),
    }
    with TemporaryDirectory() as folder:
        for name, (compiler, first) in COMPILERS.items():
            found[name] = by_c(program, images[:first], compiler, folder)
    for name, logits in found.items():
        equal = int(np.all(logits == wanted[: len(logits)], axis=1).sum())
        print(f"{name}: all logits of {equal:,} of {len(logits):,} images")


if __name__ == "__main__":
    main()
