"""intnet: training in exact integers and fixed point, every bit defined.

    from intnet import datasets, fit, methods, models
    data = datasets.load("digits")
    run = fit(models.resnet8(data.image_shape, data.classes), methods.Wageubn(), data, epochs=3)

Reading order: rounding, formats, qtensor, exact, quantize; autograd, ops; layers, models; methods.
Names below are loaded when first used, so that `import intnet` stays quick.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "BatchNorm2d": "layers",
    "Conv2d": "layers",
    "Constant": "formats",
    "Direct": "formats",
    "FixedPoint": "formats",
    "Flag": "formats",
    "Linear": "layers",
    "QTensor": "qtensor",
    "Run": "train",
    "Shift": "formats",
    "Tensor": "autograd",
    "fit": "train",
}
_MODULES = ("autograd", "datasets", "layers", "methods", "models", "ops", "rng", "rounding", "trace")

__all__ = ["__version__"]  # and the names above, on demand


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"intnet.{_HOME[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"intnet.{name}")
    raise AttributeError(f"module 'intnet' has no attribute {name!r}")
