"""What a row says where it is not equal: why, by which spec functions, and what nothing could be held to."""

from __future__ import annotations

import numpy as np
import pytest

from intnet.runs import run_folder
from intnet.verify import inputs, taken, text
from intnet.verify.row import DIFFERS, UNSPECIFIED, Options, Row


def test_a_difference_tells_its_specs_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("fc1", "x1", "", ["exact", "words.word"])
    row.differs("its events are in another order")
    row.compare(np.arange(1), (2, 2), [3], [4])
    text._difference([row])
    told = capsys.readouterr().out
    assert "  index 0,0, by exact, words.word: its events are in another order\n" in told


def test_images_that_cannot_be_read_again_are_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_folder.build("float32", {}, "mlp", "digits", 8, limit=16)
    found = taken.take(run, 1, lambda run, steps: run.train(steps))
    monkeypatch.setattr(inputs, "augmented", lambda *given: None)
    row = inputs.check(found, Options())
    assert (row.state, row.checked) == (UNSPECIFIED, 0)
    assert row.why == "labels and order hold; the images could not be read again"
    found.record.labels()[0] += 1
    row = inputs.check(found, Options())
    assert (row.state, row.differing) == (DIFFERS, 1)
