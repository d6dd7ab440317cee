"""intnet: training in exact integers and fixed point, every bit defined.

    from intnet import datasets, fit, methods, models
    data = datasets.load("digits")
    run = fit(models.resnet8(data.image_shape, data.classes), methods.Wageubn(), data, epochs=3)

Reading order: numbers, exact; autograd, ops; layers, models; methods; training, runs. `intnet.spec`
says what every bit must be. Names below are loaded when first used, so that `import intnet` stays quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intnet import autograd, datasets, layers, methods, models, ops, spec
    from intnet.autograd import Tensor
    from intnet.exact.dots import matmul
    from intnet.exact.quantize import quantize
    from intnet.inspect.over_steps import record
    from intnet.layers import BatchNorm2d, Conv2d, Linear
    from intnet.methods import trace
    from intnet.numbers import formats, rng, rounding
    from intnet.numbers.accumulators import Narrow, Once, Stepped, Window
    from intnet.numbers.ap_fixed import ApFixed
    from intnet.numbers.formats import BlockFloat, Constant, Direct, FixedPoint, Flag, Scaled, Shift
    from intnet.numbers.microscaling import (
        MXFP4,
        MXFP6_E2M3,
        MXFP6_E3M2,
        MXFP8_E4M3,
        MXFP8_E5M2,
        MXINT8,
        BlockScaled,
        Microscaling,
    )
    from intnet.numbers.qtensor import QTensor
    from intnet.numbers.small_floats import (
        BF16,
        E2M1,
        E2M3,
        E3M2,
        E4M3,
        E5M2,
        FP16,
        FP32,
        Float,
        FloatTensor,
    )
    from intnet.runs.run_folder import load
    from intnet.runs.saving import save
    from intnet.sweeps.conduct import compare, sweep
    from intnet.training.epochs import EarlyStopping
    from intnet.training.train import Run, fit

__version__ = "0.1.0"

__all__ = [
    "BF16",
    "E2M1",
    "E2M3",
    "E3M2",
    "E4M3",
    "E5M2",
    "FP16",
    "FP32",
    "MXFP4",
    "MXFP6_E2M3",
    "MXFP6_E3M2",
    "MXFP8_E4M3",
    "MXFP8_E5M2",
    "MXINT8",
    "ApFixed",
    "BatchNorm2d",
    "BlockFloat",
    "BlockScaled",
    "Constant",
    "Conv2d",
    "Direct",
    "EarlyStopping",
    "FixedPoint",
    "Flag",
    "Float",
    "FloatTensor",
    "Linear",
    "Microscaling",
    "Narrow",
    "Once",
    "QTensor",
    "Run",
    "Scaled",
    "Shift",
    "Stepped",
    "Tensor",
    "Window",
    "__version__",
    "autograd",
    "compare",
    "datasets",
    "fit",
    "formats",
    "layers",
    "load",
    "matmul",
    "methods",
    "models",
    "ops",
    "quantize",
    "record",
    "rng",
    "rounding",
    "save",
    "spec",
    "sweep",
    "trace",
]

_HOMES = {  # module -> what of it is public
    "autograd": ("Tensor",),
    "exact.dots": ("matmul",),
    "exact.quantize": ("quantize",),
    "inspect.over_steps": ("record",),
    "layers": ("BatchNorm2d", "Conv2d", "Linear"),
    "numbers.accumulators": ("Narrow", "Once", "Stepped", "Window"),
    "numbers.ap_fixed": ("ApFixed",),
    "numbers.formats": ("BlockFloat", "Constant", "Direct", "FixedPoint", "Flag", "Scaled", "Shift"),
    "numbers.microscaling": (
        "BlockScaled",
        "MXFP4",
        "MXFP6_E2M3",
        "MXFP6_E3M2",
        "MXFP8_E4M3",
        "MXFP8_E5M2",
        "MXINT8",
        "Microscaling",
    ),
    "numbers.qtensor": ("QTensor",),
    "numbers.small_floats": (
        "BF16",
        "E2M1",
        "E2M3",
        "E3M2",
        "E4M3",
        "E5M2",
        "FP16",
        "FP32",
        "Float",
        "FloatTensor",
    ),
    "runs.run_folder": ("load",),
    "runs.saving": ("save",),
    "sweeps.conduct": ("compare", "sweep"),
    "training.epochs": ("EarlyStopping",),
    "training.train": ("Run", "fit"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
# Where public modules stand that are not rooms themselves.
_ROOM = {
    "formats": "numbers.",
    "rng": "numbers.",
    "rounding": "numbers.",
    "trace": "methods.",
}


if not TYPE_CHECKING:  # which knows the names above, and would take any other for one too

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'intnet' has no attribute {name!r}")
        if name in _HOME:
            return getattr(importlib.import_module(f"intnet.{_HOME[name]}"), name)
        return importlib.import_module(f"intnet.{_ROOM.get(name, '')}{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
