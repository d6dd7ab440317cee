"""What each operation is held to: `RULES` by its name; a user's own operation says it by `Op.spec`.

rule.forward(values, call, flat)        its value at flat indices, by the definition
rule.back(values, back, k, flat)        the gradient of operand k
rule.inner(values, what, path, flat)    what enters the rounding of a path inside it
rule.specs, rule.inner_specs            the names of the spec functions that this takes
"""

from typing import Any

from intnet.verify.rules.curves import CURVES
from intnet.verify.rules.elementwise import Add, Dropout, Flatten, Loss, Own, Relu, Scale
from intnet.verify.rules.norm import BatchNorm, Normalize, ScaleShift
from intnet.verify.rules.pools import AdaptiveMean, GlobalMean, Max, Mean
from intnet.verify.rules.products import AddBias, Conv, Linear

RULES: dict[str, Any] = CURVES | {
    "adaptive_avg_pool2d": AdaptiveMean(),
    "add": Add(),
    "add_bias": AddBias(),
    "avg_pool2d": Mean(),
    "batch_norm": BatchNorm(),
    "conv2d": Conv(),
    "dropout": Dropout(),
    "flatten": Flatten(),
    "global_avg_pool": GlobalMean(),
    "linear": Linear(),
    "max_pool2d": Max(),
    "normalize": Normalize(),
    "relu": Relu(),
    "scale": Scale(),
    "scale_shift": ScaleShift(),
    "softmax_cross_entropy": Loss(),
    "a user's own": Own,
}
