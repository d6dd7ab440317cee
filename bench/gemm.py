"""How fast is the exact integer GEMM, beside float32 and beside other ways to an exact integer product?

    int8            intnet, int8 codes within +-127, int32 out
    int16 x int8    the codes of a forward pass: activations within +-2047 and weights within +-127
    int16           the codes of a weight gradient: errors within +-16,256 and activations within +-2047
    float32         intnet's fixed sequence of fused multiply-adds
    sgemm           float32 product without a defined order: the faster of torch.mm and NumPy
    trick           the int8 product by sgemm: in blocks of 1,040 terms float32 sums are exact (127^2 * 1040
                    < 2^24); each block's sum is cast to int32 and added. The casts of the operands count.
                    The faster of torch and NumPy.
    int_mm          torch._int_mm, where it works: int8 instructions of the CPU
    numpy int32     NumPy's integer product, of a part of the rows

What claims the same sums as int8 is checked to give them, bit for bit, before it is timed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.peers import torch
from bench.summary import Row, at_least, column, geomean, ratio
from bench.timing import medians
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels import float_products as float32
from intnet.ops.kernels.int_products import Plan, gemm, plan

QUESTION = "matrix products, GMAC/s; ratios of int8 (and of float32) to its peers"
SHAPES = [
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
    (100352, 144, 16), (100352, 576, 64), (25088, 1152, 128),
]  # fmt: skip
BLOCK = 1040  # terms of which a float32 sum of int8 products is exact
SLOW = 1 << 28  # products of NumPy's int32 call: a part of the rows tells its rate


Shape = tuple[int, int, int]


def operands(shape: Shape, a_bound: int, b_bound: int) -> tuple[np.ndarray, np.ndarray, Plan]:
    """Random codes a[M, K] and b[N, K] within +-bounds, int8 where they fit or int16, and their plan."""
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-bound, bound + 1, size).astype(np.int8 if bound < 128 else np.int16)
        for size, bound in (((m, k), a_bound), ((n, k), b_bound))
    )
    return a, b, plan(QTensor(a, 0, bound=a_bound), QTensor(b, 0, bound=b_bound), k)


def product(shape: Shape, a_bound: int, b_bound: int) -> Callable[[], np.ndarray]:
    """A call of intnet's exact product of `operands`."""
    a, b, how = operands(shape, a_bound, b_bound)
    return lambda: gemm(a, b, how)


def numpy_trick(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """int8 a[M, K] . b[K, N] by sgemm, int32."""
    x, y = a.astype(np.float32), b.astype(np.float32)
    total = (x[:, :BLOCK] @ y[:BLOCK]).astype(np.int32)
    for k in range(BLOCK, x.shape[1], BLOCK):
        total += (x[:, k : k + BLOCK] @ y[k : k + BLOCK]).astype(np.int32)
    return total


def torch_trick(a: Any, b: Any) -> Any:
    """The same in PyTorch."""
    x, y = a.float(), b.float()
    total = (x[:, :BLOCK] @ y[:BLOCK]).int()
    for k in range(BLOCK, x.shape[1], BLOCK):
        total += (x[:, k : k + BLOCK] @ y[k : k + BLOCK]).int()
    return total


def calls(shape: Shape) -> tuple[dict[str, Callable[[], Any]], int]:
    """What is timed for one shape, by name, and the rows that NumPy's int32 call has."""
    m, k, n = shape
    a, b, how = operands(shape, 127, 127)
    bt = np.ascontiguousarray(b.T)
    fa, fb = a.astype(np.float32), bt.astype(np.float32)
    few = min(m, max(1, SLOW // (k * n)))
    ia, ib = a[:few].astype(np.int32), b.astype(np.int32)
    out = {
        "int8": lambda: gemm(a, b, how),
        "int16 x int8": product(shape, 2047, 127),
        "int16": product(shape, 16256, 2047),
        "float32": lambda: float32.matmul(fa, fb),
        "numpy sgemm": lambda: fa @ fb,
        "numpy trick": lambda: numpy_trick(a, bt),
        "numpy int32": lambda: ia @ ib.T,
    }
    exact = ["numpy trick"]
    if torch is not None:
        ta, tb, tfa, tfb = (torch.from_numpy(array) for array in (a, bt, fa, fb))
        out |= {"torch sgemm": lambda: torch.mm(tfa, tfb), "torch trick": lambda: torch_trick(ta, tb)}
        exact.append("torch trick")
        try:
            torch._int_mm(ta, tb)
        except (AttributeError, RuntimeError):
            pass  # not in this version, or not for this shape or CPU
        else:
            out["int_mm"] = lambda: torch._int_mm(ta, tb)
            exact.append("int_mm")
    for name in exact:  # what claims the same sums must give them
        assert np.array_equal(np.asarray(out[name]()), out["int8"]()), name
    return out, few


def rows() -> list[Row]:
    table = []
    for m, k, n in SHAPES:
        what, few = calls((m, k, n))
        seconds = medians(what)
        seconds["numpy int32"] *= m / few
        rate = {name: m * k * n / value / 1e9 for name, value in seconds.items()}
        sgemm = max(rate["numpy sgemm"], rate.get("torch sgemm", 0.0))
        trick = max(rate["numpy trick"], rate.get("torch trick", 0.0))
        row: Row = {"MxKxN": f"{m}x{k}x{n}"}
        row |= {name: rate[name] for name in ("int8", "int16 x int8", "int16", "float32")}
        row |= {"sgemm": sgemm, "trick": trick}
        row |= {name: rate.get(name) for name in ("int_mm", "numpy int32")}
        row |= {"x sgemm": row["int8"] / sgemm, "x trick": row["int8"] / trick}
        row |= {
            "x int_mm": ratio(row["int8"], row["int_mm"]),
            "x numpy int32": row["int8"] / row["numpy int32"],
        }
        row |= {"float32 x sgemm": row["float32"] / sgemm}
        table.append(row)
    return table


def targets(rows: list[Row]) -> list[Row]:
    return [
        at_least(0.9, "int8 GEMM, times int8 of PyTorch, geometric mean", geomean(column(rows, "x int_mm"))),
        at_least(1.3, "int8 GEMM, times sgemm, geometric mean", geomean(column(rows, "x sgemm"))),
        at_least(0.7, "int8 GEMM, times sgemm, smallest", min(column(rows, "x sgemm"))),
        at_least(1.5, "int8 GEMM, times the sgemm trick, geometric mean", geomean(column(rows, "x trick"))),
        at_least(100, "int8 GEMM, times NumPy int32, geometric mean", geomean(column(rows, "x numpy int32"))),
    ]
