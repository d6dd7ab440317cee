"""How long until work starts: the import, a cached first step, a cold compile?

Each figure is one whole process; the cold one gets an empty Numba cache of its own.
"""

import os
import subprocess
import sys
import tempfile
from time import perf_counter

from bench.summary import Row, at_most

QUESTION = "start-up, seconds of a whole process"
STEP = """
from intnet import datasets, methods, models
from intnet.training.train import Run
data = datasets.load("digits")
Run(models.make("{model}", data.image_shape, 10), methods.make("{method}"), data, 64).train(1)
"""


def _seconds(code: str, **environment: str) -> float:
    start = perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **environment})
    return perf_counter() - start


def rows() -> list[Row]:
    out: list[Row] = [{"what": "python, nothing else", "seconds": _seconds("pass")}]
    _seconds("import intnet")
    out.append({"what": "import intnet", "seconds": _seconds("import intnet")})
    for method in ("float32", "wageubn"):
        code = STEP.format(model="resnet20", method=method)
        with tempfile.TemporaryDirectory() as cache:
            for what in ("cold compile", "cached"):
                seconds = _seconds(code, NUMBA_CACHE_DIR=cache)
                out.append({"what": f"{method}, {what}, one step of resnet20", "seconds": seconds})
    return out


def targets(rows: list[Row]) -> list[Row]:
    of = {row["what"].partition(", one step")[0]: row["seconds"] for row in rows}
    return [
        at_most(
            20, "cold compile and one step of resnet20 under wageubn, seconds", of["wageubn, cold compile"]
        ),
        at_most(15, "the same under float32", of["float32, cold compile"]),
        at_most(
            4,
            "the same with kernels cached, slower of both",
            max(of["wageubn, cached"], of["float32, cached"]),
        ),
    ]
