"""float32: no quantization. The baseline that every method stands beside.

Parameters are float32 masters that a step reads as they are; optimizers: `float_master.py`. Matrix
products and sums follow the fixed sequence of `ops/kernels/float_products.py`, so this baseline has the same
bits on every machine too.

Defined by `spec/methods/float32.py: PlainStep`.
"""

from intnet.methods import symbols
from intnet.methods.float_master import FloatMaster


class Float32(FloatMaster):
    """Plain float32 training, every rounding defined; keys are the fields of `Options`."""

    name = "float32"
    SYMBOLS = symbols.FLOAT32
