"""`intnet verify` in real forks, on tensors so large that a kernel would share them out to threads."""

from __future__ import annotations

import json

import pytest

from intnet.machine.jit import SMALL
from tests.support.command import intnet


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dynasty", "banner", "saved", "mx"])
def test_forks_make_values_of_tensors_that_threads_share(method: str) -> None:
    """Of so many elements that a kernel hands them out: GNU OpenMP would end a fork that asks for threads."""
    made = ("--model", "resnet8", "--data", "digits", "--batch-size", "20", "--step", "1", "--elements", "5")
    run = intnet("verify", "--method", method, *made, "--layer", "layer1.0*", "--json")
    assert SMALL < 20 * 8 * 8 * 16 and run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["totals"]["differing"] == 0
