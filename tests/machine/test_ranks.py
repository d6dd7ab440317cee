"""What joins processes: vectors of many lengths, sums, maxima, messages; and MPI where it is not."""

import numpy as np
import pytest

from intnet.errors import ConfigError
from intnet.machine import mpi
from intnet.machine.ranks import current, joined
from tests.support.pipes import together


def spoken() -> dict[str, object]:
    world = current()
    assert world is not None
    rank = world.rank
    return {
        "gathered": world.gather(np.arange(rank, dtype=np.int16), [0, 1, 2]),
        "total": world.total(np.array([[rank, -rank]], np.int8)),
        "begun": world.begin_total(np.array([rank], np.int64), "late")(),
        "exchanged": world.exchange([np.full(k, rank, np.int32) for k in range(3)], [rank] * 3, "own"),
        "greatest": world.greatest(np.array([rank, -rank], np.float32)),
        "messages": world.messages(b"x" * rank),
        "sent": {f"{what} of {dtype}": count for (what, dtype), count in world.sent.items()},
    }


def test_all_ranks_hear_the_same() -> None:
    for rank, found in enumerate(together(3, spoken)):
        assert [part.tolist() for part in found["gathered"]] == [[], [0], [0, 1]]
        assert found["total"].tolist() == [[3, -3]] and found["total"].dtype == np.int8
        assert found["begun"].tolist() == [3]
        assert [part.tolist() for part in found["exchanged"]] == [[other] * rank for other in range(3)]
        assert found["greatest"].tolist() == [2, 0]
        assert found["messages"] == [b"", b"x", b"xx"]
        assert found["sent"] == {
            "parts of int16": 2 * rank,
            "sums of int8": 2,
            "late of int64": 8,
            "own of int32": 4 * (0 + 1 + 2 - rank),  # what it has for itself it sends nobody
            "maxima of float32": 8,
            "messages of int64": 8,  # a length
            "messages of uint8": rank,
        }


def test_alone_there_is_no_world() -> None:
    assert current() is None
    with joined(None):
        assert current() is None


def test_without_mpirun_nothing_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in mpi.SIZES:
        monkeypatch.delenv(name, raising=False)
    assert mpi.launched() == 1
    monkeypatch.setenv(mpi.SIZES[0], "4")
    assert mpi.launched() == 4


def test_mpirun_without_mpi4py_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mpi.SIZES[0], "4")
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    with pytest.raises(ConfigError, match=r"started 4 processes.*pip install 'intnet\[mpi\]'"):
        mpi.MpiWorld()
