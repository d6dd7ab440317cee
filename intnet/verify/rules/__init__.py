"""What each operation is held to: `RULES` by its name; a user's own operation says it by `Op.spec`."""

from typing import Any

from intnet.verify.rules.elementwise import CURVES, Add, Dropout, Flatten, Loss, Own, Relu, Scale
from intnet.verify.rules.norm import BatchNorm, Normalize, RangeNorm, ScaleShift
from intnet.verify.rules.pools import AdaptiveMean, GlobalMean, Max, Mean
from intnet.verify.rules.products import AddBias, Conv

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
    "linear": Conv(),
    "max_pool2d": Max(),
    "normalize": Normalize(),
    "range_norm": RangeNorm(),
    "relu": Relu(),
    "scale": Scale(),
    "scale_shift": ScaleShift(),
    "softmax_cross_entropy": Loss(),
    "a user's own": Own,
}
