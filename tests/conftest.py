"""Settings of all tests: hypothesis draws the same examples every time, kernels run on one thread.

Handing tiny tensors to a second thread costs more than the work itself, most of all on a loaded machine;
tests that are about threads ask for more themselves.
"""

import numba
from hypothesis import settings

settings.register_profile("ci", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("ci")
numba.set_num_threads(1)
