"""Figures of a row of `compare`, from a run's folder."""

from pathlib import Path

import pytest

from intnet.runs import run_folder
from intnet.sweeps import figures


@pytest.mark.parametrize(
    "options", [{"map": "uniform"}, {"map@*": "uniform"}, {"map": "uniform", "map@fc2": "dynamic"}]
)
def test_array_time_of_maps_by_layer(options: dict[str, str], tmp_path: Path) -> None:
    """Where no layer's moves, there are no lines of maps to read it from."""
    run = run_folder.build("dynasty", options, "mlp", "digits", 32, limit=64)
    with run_folder.create(tmp_path / "run", run, 2) as work:
        work.train()
    time = figures.array_time(tmp_path / "run", run_folder.identity(run), 2, run.steps_per_epoch)
    assert (time is not None) == ("map@fc2" in options)
