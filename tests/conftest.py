"""Settings of all tests: hypothesis draws the same examples every time and keeps no files."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

# Two workers, and ranks, share two cores: a thread that waits spins where another has work, for a tenth
# of all time, among seven ranks for half of it. Ahead of intnet, which sets it where nobody has.
os.environ.setdefault("GOMP_SPINCOUNT", "0")

HERE = Path(__file__).resolve().parent
# Their rooms are kernels and the definition, which the figure of coverage leaves out; to measure how often
# lines of Python run doubles the time of a test that works on Fractions.
UNMEASURED = ("exact", "numbers", "ops", "proofs", "spec")

settings.register_profile("ci", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("ci")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Coverage is not measured where its figure does not come from."""
    for item in items:
        if item.path.relative_to(HERE).parts[0] in UNMEASURED:
            item.add_marker("no_cover")


def pytest_collection_finish() -> None:
    """What was made of thousands of tests stays to the end: a full collection need not walk through it again.

    Nor need one look for cycles after every 700 Fractions, which have none. Both together are a seventh of
    the time of tests that make many of them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
