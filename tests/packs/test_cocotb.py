"""A cocotb testbench that reads a pack with intnet: it passes the unit and catches a mutant, in Icarus."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from examples.rtl import simulate
from examples.rtl.mutants import HERE, source
from intnet.packs import pack
from tests.packs.test_units import made
from tests.support.command import ROOT

NO_COCOTB = importlib.util.find_spec("cocotb_tools") is None
REASON = "cocotb is not installed: pip install 'cocotb>=2'" if NO_COCOTB else simulate.missing("icarus")
PACK = "INTNET_PACK"  # as in cocotb_unit.py, which imports cocotb
TIE_UP = 7  # a mutant of quantize_sq


@pytest.mark.slow
@pytest.mark.skipif(bool(REASON), reason=REASON)
@pytest.mark.parametrize("mutant", [0, TIE_UP])
def test_cocotb_drives_a_unit_from_its_pack(
    mutant: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cocotb_tools.runner import get_runner

    folder = pack.write(made("quantize_sq", "L0"), tmp_path / "pack")
    parameters = pack.read(folder).manifest["about"]["unit"]["parameters"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    runner = get_runner("icarus")
    runner.build(
        sources=[source("quantize_sq")], includes=[HERE], hdl_toplevel="quantize_sq", parameters=parameters,
        defines={"MUT": mutant} if mutant else {}, build_dir=tmp_path / "build",
        timescale=("1ns", "1ps"), log_file=tmp_path / "build.log",
    )  # fmt: skip
    results = tmp_path / "results.xml"
    with contextlib.suppress(SystemExit):  # how the runner says that a test has failed
        runner.test(
            hdl_toplevel="quantize_sq", test_module="tests.support.cocotb_unit", build_dir=tmp_path / "build",
            test_dir=tmp_path, extra_env={PACK: str(folder)}, log_file=tmp_path / "test.log",
            results_xml=str(results),
        )  # fmt: skip
    cases = list(ET.parse(results).iter("testcase"))
    log = (tmp_path / "test.log").read_text()
    assert [case.get("name") for case in cases] == ["every_word_of_the_pack"], log
    failed = cases[0].find("failure") is not None
    assert failed == bool(mutant), log
    if mutant:
        assert "q[" in log and "want" in log
