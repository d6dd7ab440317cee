"""Has `from fractions import Fraction` give the class of quicktions, where that is installed: computed in C.

The definition computes in fractions: a fifth of the time of all tests, of which this saves four fifths.
`tests/spec/test_quick_fractions.py` holds the class to the standard library's, with which all commands run,
also those that tests start.

Imported ahead of whatever reads the class from its module.
"""

import fractions
import sys

STANDARD = fractions.Fraction

try:
    import quicktions
except ImportError:  # not on this platform: slower, no less true
    pass
else:
    sys.modules["fractions"] = quicktions
