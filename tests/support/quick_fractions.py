"""The definition's fractions in C while tests run: its modules are read with the class of quicktions in the
place of the standard library's, where that package is installed.

The definition computes in fractions, a fifth of the time of all tests, of which this saves most. The rest of
the package has the standard class, commands that tests start have it everywhere, and
`tests/spec/test_quick_fractions.py` holds one to the other.
"""

import fractions
import importlib
import pkgutil
import sys
from types import ModuleType


def _read_definition() -> None:
    from intnet import spec

    for module in pkgutil.walk_packages(spec.__path__, "intnet.spec."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


try:
    import quicktions
except ImportError:  # not on this platform: slower, no less true
    pass
else:
    standard: ModuleType = fractions
    sys.modules["fractions"] = quicktions
    try:
        _read_definition()
    finally:
        sys.modules["fractions"] = standard
