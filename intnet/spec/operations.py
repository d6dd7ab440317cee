"""An index of `convolution`, `elementwise` and `pooling`, for whoever still reads them by this name."""

from intnet.spec.convolution import *  # noqa: F403
from intnet.spec.convolution import exact_dot as dot  # noqa: F401
from intnet.spec.elementwise import *  # noqa: F403
from intnet.spec.pooling import *  # noqa: F403
