"""Faults put into a copy of the package, and where `intnet verify` must name each of them.

`python -m tests.support.verify_faults [NAME ..]` puts in all of them, or those named, and prints what was
found; with `--compiled` in the compiled kernels of a wheel that it installs, a minute each, those among them
that only a compiled kernel has. It exits with 1 where one is not named first at its path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NET = ("--model", "mlp", "--data", "digits", "--step", "1", "--elements", "60")


SECOND = ("--batch-size", "12", "--step", "2")  # a step after which there is momentum
INFERENCE = ("--batch-size", "12", "--inference", "2")  # 103 test images


class Fault(NamedTuple):
    """`old` of a source, which has it once, becomes `new`; then a method's step differs first at `path`."""

    file: str
    old: str
    new: str
    method: str
    path: str
    more: tuple[str, ...] = ("--batch-size", "12")


FAULTS = {
    "ties away from even in the quick lane": Fault(
        "exact/stages.py",
        "        num[j] = np.rint(q)\n",
        "        num[j] = np.floor(q + 0.5)\n",
        "wageubn",
        "mu",
    ),
    "one Philox round less": Fault(
        "numbers/rng.py", "for _ in range(10):", "for _ in range(9):", "wageubn", "images"
    ),
    "flag codes limited to half their range": Fault(
        "numbers/formats.py",
        "return ((1 << self.fine) - 1) << self.fine",
        "return ((1 << self.fine - 1) - 1) << self.fine",
        "wageubn",
        "e3",
    ),
    "sign of mu": Fault("ops/norm.py", "offset = -_lifted(mu,", "offset = _lifted(mu,", "wageubn", "x2"),
    "SQ saturates at half its range": Fault(
        "exact/quantize.py",
        "    codes, status = x.round_to(exponent, rounding.within(-format.hi, format.hi))\n"
        "    return QTensor(codes, exponent, format, format.hi, status)\n\n\ndef _flag",
        "    codes, status = x.round_to(exponent, rounding.within(-format.hi // 2, format.hi // 2))\n"
        "    return QTensor(codes, exponent, format, format.hi, status)\n\n\ndef _flag",
        "wageubn",
        "e0",
    ),
    "rate of the running mean": Fault(
        "layers/norm.py", "    SHIFT = 3\n", "    SHIFT = 2\n", "wageubn", "running"
    ),
    "momentum 2/4": Fault(
        "methods/wageubn.py", "return combine(mom,", "return combine(mom - 1,", "wageubn", "gamma'", SECOND
    ),
    "epochs backwards": Fault(
        "datasets/batches.py",
        'np.argsort(keys, kind="stable")',
        'np.argsort(keys, kind="stable")[::-1]',
        "float32",
        "images",
    ),
    "groups of a batch in a chain": Fault(
        "numbers/batch_sums.py",
        "    met = 0\n    while group > 0 and (last or group & 1):",
        "    met = min(group, 1)\n    while group < 0:",
        "float32",
        "mu",
        ("--batch-size", "64"),
    ),
    "eps of batch norm": Fault(
        "ops/norm.py", "FLOAT_EPS = np.float32(1e-5)", "FLOAT_EPS = np.float32(1e-6)", "float32", "x3"
    ),
    "a gradient's sum without fma": Fault(
        "ops/kernels/float32_rows.py",
        "dot[c] = fma32(error[c], (row[c] - mean[c]) * r[c], dot[c])",
        "dot[c] = dot[c] + error[c] * ((row[c] - mean[c]) * r[c])",
        "float32",
        "ggamma",
    ),
    "a gradient's length off by one": Fault(
        "methods/adapt.py",
        "norm = sqrt(squares) if squares else 1.0",
        "norm = sqrt(squares + 1) if squares else 1.0",
        "adapt",
        "gWn",
    ),
    "a scale of MuPPET one step coarse": Fault(
        "exact/quantize.py",
        "exponent = -scale(x, format, rounding.where, ",
        "exponent = 1 - scale(x, format, rounding.where, ",
        "muppet", "Wq",
    ),
    "zero points of buckets cut off": Fault(
        "exact/blocks/bucket_loops.py",
        "return s, np.rint(-low / s) + _ZERO",
        "return s, np.trunc(-low / s) + _ZERO",
        "saved", "x1s",
    ),
    "gradients of the error in 8 bits": Fault(
        "methods/banner.py",
        "return Bifurcated(steps(self._packed(layer, path, value, STOCHASTIC)), wide)",
        "return Bifurcated(*[steps(self._packed(layer, path, value, STOCHASTIC))] * 2)",
        "banner", "e3w",
    ),
    "integers of another zero point": Fault(
        "exact/blocks/affine.py",
        "centred(q.reshape(-1), int(zero),",
        "centred(q.reshape(-1), int(zero) - 1,",
        "banner", "x0",
    ),
    "a product by one scale": Fault(
        "ops/blocks.py",
        "return scaled(sums.codes, scale) if",
        "return scaled(sums.codes, a.scale) * b.scale if",
        "banner", "x1",
    ),
    "a range from 0": Fault(
        "ops/range_norm.py", "(greatest + least)", "greatest", "banner", "var"
    ),
    "the range's gradient to the last of the greatest": Fault(
        "ops/kernels/float32_rows.py",
        "above, below = row[c] > high[c],",
        "above, below = row[c] >= high[c],",
        "banner", "e3w",
    ),
    "mantissas one bit short": Fault(
        "exact/blocks/block_loops.py",
        "limit[k] = _POWERS32[_BIAS32 + width - 1] - _ONE",
        "limit[k] = _POWERS32[_BIAS32 + width - 1] - _ONE - _ONE",
        "dynasty",
        "Wb",
    ),
    "the error of a float32 block by SQ": Fault(
        "methods/wageubn.py",
        'return self.passes(layer, path, to_float32(value, f"{layer.name}/{path}"))',
        'return to_float32(self.store(layer, path, value, Shift(8)))',
        "wageubn",
        "e0",
        ("--batch-size", "12", "--set", "first=block"),
    ),
    "statistics of a float32 block by another rate": Fault(
        "layers/norm.py",
        "rate = np.float32(2.0**-self.SHIFT)",
        "rate = np.float32(2.0**-2)",
        "wageubn",
        "running",
        ("--batch-size", "12", "--set", "first=block"),
    ),
    "an update of many that nobody observes": Fault(
        "methods/wageubn.py",
        "            parameter.slots[\"Accq\"], parameter.value = parts\n",
        "            parameter.slots[\"Accq\"] = parts[0]\n",
        "wageubn",
        "digest",
    ),
    "an epoch that never ends": Fault(
        "training/train.py",
        "ended = method.step % self.steps_per_epoch == 0",
        "ended = False",
        "dynasty",
        "state",
        ("--batch-size", "12", "--limit", "12"),
    ),
    "the running variance in place of the mean": Fault(
        "layers/norm.py",
        'return self.buffers["running_mean"], self',
        'return self.buffers["running_var"], self',
        "wageubn",
        "statistics",
        INFERENCE,
    ),
    "AdaPT's scale of a batch norm without its eps": Fault(
        "methods/adapt.py",
        "slope = gamma * reciprocal_root(variance)",
        "slope = gamma / np.sqrt(variance)",
        "adapt",
        "scale, offset",
        INFERENCE,
    ),
    "the least of the logits": Fault(
        "training/inference.py",
        "logits_of(model, method, images, exponent).argmax(axis=1)",
        "logits_of(model, method, images, exponent).argmin(axis=1)",
        "wageubn",
        "class",
        INFERENCE,
    ),
}  # fmt: skip
COMPILED = {
    "an emitted fma in two instructions": Fault(
        "machine/words.py",
        "return _fma(builder, a, b, total)",
        "return builder.fadd(total, builder.fmul(a, b))",
        "float32",
        "x1",
    ),
    "the low halves of int16 pairs twice": Fault(
        "machine/words.py",
        "[2 * i + first for i in range(LANES)]",
        "[2 * i for i in range(LANES)]",
        "wageubn",
        "x1",
    ),
}


def copy(folder: Path) -> Path:
    """The package's files in `folder`."""
    package = folder / "intnet"
    shutil.copytree(ROOT / "intnet", package, ignore=shutil.ignore_patterns("__pycache__", "data"))
    shutil.copytree(ROOT / "data", package / "data", dirs_exist_ok=True)
    return package


def installed(folder: Path) -> Path:
    """The package in `folder`, by a wheel of its own."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*command, str(folder), str(ROOT)], check=True)
    return folder / "intnet"


def verified(folder: Path, method: str, *more: str, compiled: bool = False) -> tuple[int, dict[str, Any]]:
    """(exit status, the JSON object) of `intnet verify` by the copy in `folder`."""
    command = [sys.executable, "-m", "intnet", "verify", "--method", method, *NET, *more, "--json"]
    changed = {
        "PYTHONPATH": str(folder),
        "NUMBA_DISABLE_JIT": str(int(not compiled)),
        "PYTHONWARNINGS": "ignore",
    }
    environment = {**os.environ, **changed}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def differing(told: dict[str, Any]) -> list[str]:
    """The paths that differ: the first one of the step first, what belongs to no layer after."""
    rows = [row for row in told["paths"] if row["state"] == "differs"]
    rows.sort(key=lambda row: row["order"])
    return [row["path"] for row in rows]


def found(package: Path, fault: Fault, compiled: bool = False) -> list[str]:
    """The paths at which a fault is named; it is put in and taken out again."""
    source = package / fault.file
    text = source.read_text()
    assert text.count(fault.old) == 1, f"{fault.file} has {text.count(fault.old)} times: {fault.old}"
    source.write_text(text.replace(fault.old, fault.new))
    try:
        status, told = verified(package.parent, fault.method, *fault.more, compiled=compiled)
    finally:
        source.write_text(text)
    paths = differing(told)
    assert status == (1 if paths else 0)
    return paths


def main() -> int:
    """All faults, a line each; whether one is not named first."""
    compiled, missed = "--compiled" in sys.argv, 0
    faults = FAULTS | COMPILED if compiled else FAULTS
    with tempfile.TemporaryDirectory() as folder:
        package = (installed if compiled else copy)(Path(folder))
        for name in [name for name in sys.argv[1:] if name != "--compiled"] or faults:
            fault = faults[name]
            paths = found(package, fault, compiled)
            state = "first" if fault.path in paths[:1] else "NOT FIRST" if fault.path in paths else "MISSED"
            print(f"{name}: {fault.method}/{fault.path} {state} of {', '.join(paths[:8])}", flush=True)
            missed += state != "first"
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
