"""How fast are the quantizers, beside a copy in memory and beside qtorch?

The tensor is the largest activation of a ResNet-20 step, 128x28x28x16 elements. Bytes moved are what
a quantizer must read and write once: its input, the random words it is given, its codes. (A format
whose exponent comes from the maximum has to read twice; it counts once all the same.) memcpy is
np.copyto of as many float32, reading and writing, on one thread or one half each on two, whichever is
faster in this run. qtorch's fixed point stands beside FixedPoint, its block float with one exponent
beside Shift; it draws its own random numbers, so the row that draws intnet's words is the one compared.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bench import peers
from bench.summary import Row, at_least, column, ratio
from bench.timing import medians
from intnet.exact.quantize import quantize
from intnet.numbers import rng
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Format, Shift
from intnet.numbers.qtensor import QTensor

QUESTION = "quantizers of 1.6 million elements"
SIZE = 128 * 28 * 28 * 16
FIXED = FixedPoint(8, 4)
DRAWN = "FixedPoint <8,4> stochastic, words drawn"


def words() -> np.ndarray:
    """One random word an element."""
    return rng.words(1, 0, 0, SIZE)


def quantizers(floats: np.ndarray, codes: QTensor) -> dict[str, tuple[Callable[[], QTensor], int | None]]:
    """Name -> (call, bytes an element that it reads, None where it also draws)."""
    given = words()

    def of_codes(format: Format) -> Callable[[], QTensor]:
        return lambda: quantize(codes, format)

    return {
        "FixedPoint <8,4> ties_even": (lambda: quantize(floats, FIXED), 4),
        "FixedPoint <8,4> stochastic": (
            lambda: quantize(floats, FIXED, rounding="stochastic", words=given), 8
        ),
        DRAWN: (lambda: quantize(floats, FIXED, rounding="stochastic", words=words()), None),
        "Direct(8)": (of_codes(Direct(8)), 4),
        "Shift(8)": (of_codes(Shift(8)), 4),
        "Flag(8)": (of_codes(Flag(8)), 4),
        "Constant(15, 128) stochastic": (
            lambda: quantize(codes, Constant(15, 128), rounding="stochastic", words=given), 8
        ),
    }  # fmt: skip


def copies(floats: np.ndarray) -> dict[str, Callable[[], Any]]:
    """np.copyto on one thread and on two."""
    to, half, second = np.zeros_like(floats), SIZE // 2, ThreadPoolExecutor(1)

    def on_two() -> None:
        other = second.submit(np.copyto, to[half:], floats[half:])
        np.copyto(to[:half], floats[:half])
        other.result()

    return {"np.copyto": lambda: np.copyto(to, floats), "np.copyto, two threads": on_two}


def qtorch_calls(floats: np.ndarray, values: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Name of intnet's quantizer -> qtorch's call on the same values; nothing where it is missing."""
    qtorch = peers.qtorch() if peers.torch is not None else None
    if qtorch is None:
        return {}
    x, y = peers.torch.from_numpy(floats), peers.torch.from_numpy(values)
    return {
        "FixedPoint <8,4> ties_even": lambda: qtorch.fixed_point_quantize(x, 8, 4, rounding="nearest"),
        DRAWN: lambda: qtorch.fixed_point_quantize(x, 8, 4, rounding="stochastic"),
        "Shift(8)": lambda: qtorch.block_quantize(y, 8, rounding="nearest"),
    }


def rows() -> list[Row]:
    generator = np.random.default_rng(0)
    floats = (generator.standard_normal(SIZE) * 2).astype(np.float32)
    codes = QTensor((generator.standard_normal(SIZE) * (1 << 20)).astype(np.int32), -22)
    ours, copy = quantizers(floats, codes), copies(floats)
    theirs = qtorch_calls(floats, codes.to_float32())
    calls = copy | {name: call for name, (call, _) in ours.items()}
    seconds = medians(calls | {f"qtorch {name}": call for name, call in theirs.items()})
    rate = 2 * floats.nbytes / min(seconds[name] for name in copy)
    table: list[Row] = []
    for name in calls:
        moved: int | None = 8 * SIZE
        times = None
        if name in ours:
            call, read = ours[name]
            moved = None if read is None else read * SIZE + call().codes.nbytes
            times = ratio(seconds.get(f"qtorch {name}"), seconds[name])
        speed = None if moved is None else moved / seconds[name]
        table.append(
            {
                "what": name,
                "Melements/s": SIZE / seconds[name] / 1e6,
                "GB/s": None if speed is None else speed / 1e9,
                "of memcpy": None if speed is None else speed / rate,
                "x qtorch": times,
            }
        )
    return table


def targets(rows: list[Row]) -> list[Row]:
    shares = column([row for row in rows if "copyto" not in row["what"]], "of memcpy")
    times = column(rows, "x qtorch")
    return [
        at_least(0.5, "quantizers, share of memcpy's bytes a second, smallest", min(shares)),
        at_least(100, "quantizers, times qtorch, smallest", min(times, default=None)),
    ]
