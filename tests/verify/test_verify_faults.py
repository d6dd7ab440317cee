"""Each fault of `verify_faults` is found by `intnet verify`, first at its own path; without one, none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.verify_faults import COMPILED, FAULTS, ROOT, Fault, copy, differing, found, verified


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield copy(tmp_path_factory.mktemp("installed"))


@pytest.mark.parametrize("fault", [*FAULTS.values(), *COMPILED.values()], ids=[*FAULTS, *COMPILED])
def test_a_fault_has_one_place(fault: Fault) -> None:
    assert (ROOT / "intnet" / fault.file).read_text().count(fault.old) == 1


@pytest.mark.slow
def test_a_copy_without_a_fault_has_no_difference(package: Path) -> None:
    status, told = verified(package.parent, "adapt", "--batch-size", "6")
    assert (status, differing(told), told["equal"]) == (0, [], True)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_at_its_path(name: str, package: Path) -> None:
    paths = found(package, FAULTS[name])
    assert paths, "no difference was found"
    assert paths[0] == FAULTS[name].path
