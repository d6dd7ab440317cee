"""Settings of all tests: hypothesis draws the same examples every time and keeps no files."""

import gc

from hypothesis import settings

settings.register_profile("ci", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """What was made of thousands of tests stays to the end: a full collection need not walk through it again.

    It is a tenth of the time of tests that make many Fractions.
    """
    gc.collect()
    gc.freeze()
