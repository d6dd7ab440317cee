"""What the processor gives: kernels and their cache, instructions, buffers, tiles of products."""

import os
import re

from intnet.errors import ConfigError

if re.fullmatch(r"\s*(-\d+|0+)\s*", threads := os.environ.get("NUMBA_NUM_THREADS", "")):
    # Numba's own error, which its import raises, does not say whose number it is
    raise ConfigError(f"NUMBA_NUM_THREADS={threads} in the environment: threads to compute on, 1 at least")
