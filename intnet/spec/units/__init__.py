"""Units of hardware, each a function that builds its circuit from parameters; `intnet.spec.wires` says how.

quantizers  quantize_q, quantize_sq, quantize_cq, quantize_flag, r_exponent: WAGEUBN's
sums        mac_requant, block_dot: one result a vector
mx          mx_dot: one result a block of a microscaling format
scales      shift, shift_by, scale_add, requantize: from one scale to another
"""

from collections.abc import Callable, Mapping
from typing import Any

from intnet.spec.units import mx, quantizers, scales, sums
from intnet.spec.wires import Circuit

UNITS: dict[str, Callable[[Circuit, Mapping[str, Any]], None]] = {
    "quantize_q": quantizers.quantize_q,
    "quantize_sq": quantizers.quantize_sq,
    "quantize_cq": quantizers.quantize_cq,
    "quantize_flag": quantizers.quantize_flag,
    "r_exponent": quantizers.r_exponent,
    "mac_requant": sums.mac_requant,
    "block_dot": sums.block_dot,
    "mx_dot": mx.mx_dot,
    "shift": scales.shift,
    "shift_by": scales.shift_by,
    "scale_add": scales.scale_add,
    "requantize": scales.requantize,
}


def circuit(name: str, parameters: Mapping[str, Any]) -> Circuit:
    """The wires of a unit at these parameters."""
    made = Circuit()
    UNITS[name](made, parameters)
    return made
