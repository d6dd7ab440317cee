"""How fast is the exact integer GEMM, beside NumPy's integer product?"""

from typing import Any

import numpy as np

from bench.timing import median_seconds
from intnet.ops.kernels.gemm import gemm, plan
from intnet.qtensor import QTensor

QUESTION = "int8 GEMM, exact, GMAC/s"
SHAPES = [(512, 512, 512), (1024, 1024, 1024), (100352, 144, 16), (100352, 576, 64), (25088, 1152, 128)]


def rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    out = []
    for m, k, n in SHAPES:
        a, b = (rng.integers(-127, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
        how = plan(QTensor(a, 0), QTensor(b, 0), k)
        ours = m * k * n / median_seconds(lambda a=a, b=b, how=how: gemm(a, b, how)) / 1e9
        few = min(m, 512)  # NumPy's integer product is slow: a part of the rows tells its rate
        a32, b32 = a[:few].astype(np.int32), b.T.astype(np.int32)
        numpy = few * k * n / median_seconds(lambda a=a32, b=b32: a @ b, 1) / 1e9
        out.append({"M": m, "K": k, "N": n, "intnet": ours, "numpy int32": numpy, "ratio": ours / numpy})
    return out
