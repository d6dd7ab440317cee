"""Machines that must give the same bits: the environments of their processes, what of float32 they run."""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numba
import numpy as np

from intnet.exact.blocks.signs import Signs
from intnet.machine.instructions import fma32
from intnet.ops.kernels import float32_rows as rows
from tests.support.float_oracle import F32, draw


def fma_loop(a: F32, b: F32, c: F32) -> F32:
    out = np.empty_like(a)
    for i in range(a.size):
        out[i] = fma32(a[i], b[i], c[i])
    return out


fma_in_kernel: Any = numba.njit(fma_loop)


def vectors(seed: int, channels: int, count: int) -> list[F32]:
    """A number a channel, `count` times."""
    return list(draw(seed, count, channels))


def float32_passes(x: F32, e: F32) -> list[F32]:
    """What every pass around the products gives."""
    v = vectors(31, x.shape[-1], 5)
    return [
        rows.sum_rows(x), rows.centred_squares(x, v[0]), *rows.error_sums(e, x, v[0], v[1]),
        rows.normalize(x, *v[:4]), rows.input_error(e, x, *v), rows.rectify(x), rows.rectify_error(e, x),
        rows.add(x, e), Signs(x).times(e),
    ]  # fmt: skip


def uses_fma_instruction() -> bool:
    """Whether `fma_in_kernel` was compiled to one."""
    one = np.ones(1, np.float32)
    fma_in_kernel(one, one, one)
    return "vfmadd" in "".join(fma_in_kernel.inspect_asm().values())


def machines() -> dict[str, dict[str, str]]:
    """Environments to compare. NUMBA_CPU_NAME alone would keep the host's features.

    x86-64 has neither FMA nor wide vectors, haswell has both: as a host without AVX-512 does itself.
    """
    runs = {"one thread": {"NUMBA_NUM_THREADS": "1"}, "not compiled": {"NUMBA_DISABLE_JIT": "1"}}
    features = llvmlite.binding.get_host_cpu_features()
    names = ["generic"]
    if "avx2" in features:  # an x86 processor
        names = ["x86-64", "haswell"] if features["avx512f"] else ["x86-64"]
    return runs | {name: {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""} for name in names}
