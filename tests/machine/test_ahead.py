"""Kernels compiled ahead: the list is what steps call, its types are Numba's, and workers fill the cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

from intnet import methods
from intnet.machine import ahead, words
from intnet.ops.kernels.windows import Block

ENTRIES = [(name, entry) for name, entries in ahead.listed().items() for entry in entries]


@pytest.mark.parametrize(
    "kind",
    [
        types.int64, types.uint8, types.float32, types.boolean,
        types.Array(types.int8, 4, "A"), types.Array(types.float64, 1, "C", readonly=True),
        types.UniTuple(types.int64, 3), types.Tuple((types.int64, types.Array(types.boolean, 2, "F"))),
        numba.typeof(Block(*range(8))),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_comes_back_from_its_text(kind: Any) -> None:
    assert ahead.typed(json.loads(json.dumps(ahead.described(kind)))) == kind


def test_every_group_is_there_and_names_kernels() -> None:
    ours = [name for name, cls in methods.METHODS.items() if cls.__module__.startswith("intnet.")]
    wanted = {ahead.group(method, convolves) for method in ours for convolves in (False, True)}
    assert set(ahead.listed()) == wanted
    for group, (name, seconds, kinds) in ENTRIES:
        kernel = ahead._found(f"intnet.{name}")
        assert hasattr(getattr(kernel, "compiled", kernel), "compile"), (group, name)
        assert seconds >= 0
        assert all(ahead.described(ahead.typed(kind)) == kind for kind in kinds)


def test_a_processor_without_vpdpbusd_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(ahead.LIST.read_text())["kernels"]
    by_fours = [
        name for name, _, kinds in whole if name.startswith("ops.") and ["uint32", 1, "C", True] in kinds
    ]
    assert "ops.kernels.tiles.correlate" in by_fours
    monkeypatch.setattr(words, "FOURS", False)
    ahead.listed.cache_clear()
    left = [json.dumps(entry) for entries in ahead.listed().values() for entry in entries]
    ahead.listed.cache_clear()
    assert len({json.dumps(entry) for entry in whole} - set(left)) == len(by_fours)


def test_kernels_of_one_file_stay_together_and_the_longest_come_first() -> None:
    seconds = (5.0, 0.1, 3.0, 2.0, 2.0, 1.0, 0.5, 4.0)
    entries = [[f"room.file{i % 3}.kernel{i}", cost, []] for i, cost in enumerate(seconds)]
    assert [[entries.index(entry) for entry in share] for share in ahead.by_file(entries)] == [
        [0, 3, 6], [1, 4, 7], [2, 5],
    ]  # fmt: skip


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_a_worker_that_dies_holds_nobody_up(answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers for so many of the two kernels of its file and is gone; other files are compiled here."""
    code = f"import sys; sys.stdin.readline(); print(end=chr(10) * {answers})"
    entries = [[f"room.file{i // 2}.kernel", 1.0, []] for i in range(20)]
    here: list[Any] = []
    told: list[int] = []

    def compiled(share: list[Any], count: Callable[[], None]) -> None:
        time.sleep(0.1)
        here.extend(share)
        for _ in share:
            count()

    monkeypatch.setattr(ahead, "_WORKER", [sys.executable, "-c", code])
    monkeypatch.setattr(ahead, "_compile_share", compiled)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    ahead._compile_all(entries, lambda done, of: told.append(done))
    assert len(here) in (18, 16) and told == [*range(len(here) + answers + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "resnet20"])
@pytest.mark.parametrize("method", list(methods.METHODS))
def test_the_list_is_what_steps_call(method: str, model: str) -> None:
    """`python -m bench.kernels` writes it again.

    What is compiled on the way counts too: where that is more than the list, it runs again, when nothing is.
    """
    if not words.FOURS:
        pytest.skip("the list is of a processor with vpdpbusd: others call some kernels of other types")
    command = [sys.executable, "-m", "bench.kernels", method, model]
    group = ahead.listed()[ahead.group(method, model != "mlp")]
    listed = {json.dumps([name, kinds]) for name, _, kinds in group}

    def called() -> set[str]:
        return set(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))

    assert called() <= listed or called() <= listed


COMPILED = """
import sys
from numba.core import event
from pathlib import Path
from intnet.machine import ahead
ahead.LIST = Path(sys.argv[1])
told = []
ahead.compile_kernels("some", "none", moved=lambda done, of: told.append((done, of)))
with event.install_recorder("numba:compile") as seen:
    import numpy as np
    from intnet.numbers import batch_sums
    batch_sums.chunks_of_group(5), batch_sums.stack_lines(5)
    batch_sums.settle(np.zeros((3, 2), np.float32), 0, 0, False)
ahead.compile_kernels("some", moved=lambda done, of: told.append("again"))
print(told[0], told[-1], len(told), len(seen.buffer))
"""


@pytest.mark.slow
def test_workers_fill_the_cache(tmp_path: Path) -> None:
    names = ["numbers.batch_sums.chunks_of_group", "numbers.batch_sums.stack_lines"]
    kinds = [["float32", 2, "C", True], "int64", "int64", "bool"]
    entries = [[name, seconds, ["int64"]] for name in names for seconds in (1.0, 1.1)]
    entries += [["numbers.batch_sums.settle", 1 + i / 10, kinds] for i in range(4)]
    (tmp_path / "list.json").write_text(json.dumps({"kernels": entries, "groups": {"some": list(range(8))}}))
    ran = subprocess.run(
        [sys.executable, "-c", COMPILED, str(tmp_path / "list.json")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_NUM_THREADS": "2"},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == "(0, 8) (8, 8) 9 0\n"
    assert np.all([*tmp_path.glob("*/ahead-*-some")])
