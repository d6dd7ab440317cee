"""How many bytes of parameters inference reads, each in the bits that its method's format names.

    weights, biases   the forward copy: codes in the bits of their format, or in those that they need where
                      it sets no range and they need more, and an exponent a tensor; block float as
                      `BlockTensor.pack` writes it; affine codes with a scale and a zero point; elements of
                      MX blocks with a scale a block; float32 where the method leaves it
    batch norm        gamma and beta in the same way, and the running mean and variance, 32 bits each, where
                      inference reads them and not the batch's own

A method that leaves a fixed-point model (`runs/fixed_model.py`) stores that, which is counted instead.
"""

from typing import Any

import numpy as np

from intnet.errors import ConfigError
from intnet.exact.blocks.affine import AffineTensor
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.blocks.buckets import Packed
from intnet.exact.blocks.mx_blocks import Along
from intnet.methods.trace import Event
from intnet.numbers.qtensor import QTensor
from intnet.ops.products import copies
from intnet.training.train import Run

WORD = 32  # bits of a running statistic and of a float32
EXPONENT = 8  # bits of an exponent that a tensor finds for itself


def stored_bytes(run: Run) -> int:
    """Bytes of the run's model as it stands."""
    method, bits = run.method, 0
    events: list[Event] = []
    with method.within(training=False, saturated={}, observers=[events.append]):
        for layer in run.model.all_layers():
            for parameter in layer.parameters:
                events.clear()
                value = copies(method.weight(layer, parameter)).forward
                bits += next((named for event in events if (named := _named(event))), bits_of(value))
            if layer.normalizes and method.running_statistics:
                bits += 2 * WORD * layer.parameters[0].shape[0]
    return -(-bits // 8)


def _named(event: Event) -> int:
    """Bits of a copy that has a format, and that products read as float32; 0 of others."""
    if isinstance(event.format, Along):
        return event.format.packed_bits(event.source.shape)
    if isinstance(event.result, Packed):  # a copy has one width
        packed = event.result
        return packed.elements * int(packed.widths[0]) + 8 * (packed.scales.nbytes + packed.zeros.nbytes)
    return 0


def bits_of(value: Any) -> int:
    """Of a tensor in the bits of its format."""
    if isinstance(value, BlockTensor):
        return 8 * value.packed_bytes
    if isinstance(value, AffineTensor):
        return value.packed_bits
    if isinstance(value, QTensor):
        return value.codes.size * value.stored_bits() + EXPONENT
    if isinstance(value, np.ndarray):
        return value.size * WORD
    raise ConfigError(f"a {type(value).__name__} has no size in bits")
