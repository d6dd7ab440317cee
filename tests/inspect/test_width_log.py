"""Widths over time and why they moved: the page, against the run's own records and the definition."""

from __future__ import annotations

import dataclasses
import re
from math import inf
from pathlib import Path
from typing import Any

import pytest

from intnet.inspect.page import widths
from intnet.inspect.width_log import Log, Moved, read
from intnet.runs import metrics, run_folder
from intnet.spec.methods import adapt_switch

SWITCH = {
    "WL": 32, "FL": 28, "WL_min": 7, "FL_min": 5, "KL": 0.05, "D": 2.5, "s1": 32, "s2": 1,
    "strategy": "mean", "lb": 30, "r": 50,
}  # fmt: skip
POLICY = {"WL": 12, "D": 0.6, "p": 1.667, "threshold": 1.552, "violated": True, "violations": 2}
OPTIONS = {"eps": 0.1, "buff": 4, "reading": "graded", "buffer": "raised", "patience": 2}


def lines_of(method: str, options: dict[str, Any], steps: int) -> list[dict[str, Any]]:
    run = run_folder.build(method, options, "mlp", "digits", 32, 1, 128)
    lines: list[dict[str, Any]] = []
    run.train(steps, lambda step: lines.extend(metrics.step_lines(step)))
    return lines


@pytest.mark.slow
def test_adapt_by_its_records_and_its_definition() -> None:
    """Every decision has its sentence, in which the definition's own s and <WL,FL> stand."""
    lines = lines_of("adapt", {"lookback": "3-5"}, 12)
    log = read(lines)
    used = {line["step"]: line["layers"] for line in lines if line["kind"] == "precision"}
    assert log.steps == 12 and set(log.widths) == {"fc1", "fc2", "fc3"}
    for layer, found in log.widths.items():
        every = {step: layers[layer]["WL"] for step, layers in used.items()}
        first = {step: wl for step, wl in every.items() if step == 1 or every[step - 1] != wl}
        assert found == list(first.items())
    decided = [
        (line["step"], name, of)
        for line in lines
        if line["kind"] == "decision"
        for name, of in line["of"].items()
    ]
    assert [(one.step, one.layer, one.found) for one in log.moves] == decided and len(decided) >= 9
    for one in log.moves:
        now = used[one.step][one.layer]
        assert one.before == (now["WL"], now["FL"])
        if one.step < 12:  # what was decided holds in the next step
            after = used[one.step + 1][one.layer]
            assert one.after == (after["WL"], after["FL"])
        found, text = one.found, widths.reason(one, {**OPTIONS, "lookback": "3-5"})
        s = adapt_switch.suggestions(found["D"] or inf, found["FL_min"], "graded")
        assert f"s1 = {s[0]} and s2 = {s[1]}" in text
        assert f"takes {adapt_switch.chosen(*s, found['strategy'])}, so FL" in text
        assert f"= {found['FL']} and WL" in text and text.endswith(f"resolution {found['r']}.")
        assert ("can take nothing away" in text) == (found["KL"] is None or found["KL"] > 0.1)


def test_a_jump_to_32_bits_is_explained() -> None:
    """The docs' worked switch: D = 2.5, s1 = 143, of which the log has 32."""
    text = widths.reason(Moved(222, "fc", (12, 8), SWITCH), OPTIONS)
    assert "finds <7,5>, the least with KL = 0.05 bits within eps = 0.1" in text
    assert "D = 2.5 (3.5) suggests s1 = 143 and s2 = 1 (3.6); strategy mean takes 72" in text
    assert "FL = min(5 + 72, 32 - 4) = 28 and WL = max(min(28 + 4, 32), 7) = 32" in text


def test_a_policy_is_explained() -> None:
    text = widths.reason(Moved(276, "net", (8, 3), POLICY), OPTIONS)
    assert "p = 1.667" in text and "is 1.552: p is above it, violation 2 of 2; the next word length." in text
    kept = POLICY | {"WL": 8, "violated": False, "violations": 1, "p": 1.2}
    text = widths.reason(Moved(276, "net", (8, 3), kept), OPTIONS)
    assert "p is not above it, no violation; 1 since the last switch." in text
    once = POLICY | {"WL": 8, "violations": 1}
    assert widths.reason(Moved(276, "net", (8, 3), once), OPTIONS).endswith("violation 1 of 2; WL stays.")


@pytest.mark.slow
def test_muppet_by_its_records() -> None:
    lines = lines_of("muppet", {"resolution": "1", "patience": "1", "lr": "0.05"}, 40)
    log = read(lines)
    moved = [one for one in log.moves if one.width_moved]
    for one in log.moves:
        assert one.layer == "net" and one.before is not None
    jumps = [(step - 1, wl) for step, wl in log.widths["fc2"][1:]]
    assert [(one.step, one.after[0]) for one in moved if one.step < 40] == jumps


def test_the_section_has_every_move_and_no_tag_of_a_name() -> None:
    log = Log({"<fc>": [(1, 12), (223, 32)]}, [Moved(222, "<fc>", (12, 8), SWITCH)], 300)
    text = widths.reasons(log, OPTIONS, "<fc>").html
    assert text.count("<tr>") == 2 and "&lt;12,8&gt; to &lt;32,28&gt;" in text and "<fc>" not in text
    drawn = widths.picture(log, "<fc>").html
    assert "<fc>" not in drawn and 'aria-label="word length by step, 1 layers, 300 steps"' in drawn
    assert not widths.picture(log, "bn").html and not widths.reasons(log, OPTIONS, "bn").html


def test_the_line_is_where_the_widths_are() -> None:
    log = Log({"a": [(1, 8), (3, 32)], "b": [(1, 8)]}, [], 4)
    (first, second) = re.findall(r'd="(M[^"]*H[^"]*)"><title>', widths.picture(log).html)
    heights = [float(y) for y in re.findall(r"[MV][0-9.]* ?([0-9.]+)H|V([0-9.]+)", first)[0] if y]
    assert first.count("V") == 1 and second.count("V") == 0
    start = re.match(r"M([0-9.]+) ([0-9.]+)H([0-9.]+)V([0-9.]+)H", first)
    assert start is not None and heights
    x, y, at, to = map(float, start.groups())
    ground, top = 216.0, 14.0  # of 0 and 32 bits
    assert y == pytest.approx(ground - (ground - top) / 4, abs=0.06) and to == top
    assert (at - x) * 2 == pytest.approx(float(first.rsplit("H", 1)[1]) - x, abs=0.11)


def test_many_decisions_are_cut_aloud() -> None:
    one = Moved(1, "fc", (12, 8), SWITCH)
    log = Log({"fc": [(1, 12)]}, [dataclasses.replace(one, step=k) for k in range(1, 500)], 500)
    text = widths.reasons(log, OPTIONS).html
    assert "the latest 400 of 499" in text and text.count("<tr>") == 401 and ">500<" not in text


def test_a_log_on_disk_reads_the_same(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    used = {"fc": {"WL": 12, "FL": 8, "nonzero": 3}}
    file.write_text(
        '{"kind": "precision", "step": 1, "seconds": 0, "layers": '
        '{"fc": {"WL": 12, "FL": 8, "nonzero": 3}}}\n'
        '{"kind": "decision", "step": 1, "epoch": 0, "of": {"fc": {"WL": 14, "FL": 8}}}\n'
    )
    log = read(metrics.read_metrics(file))
    assert log.widths == {"fc": [(1, used["fc"]["WL"])]}
    assert log.moves == [Moved(1, "fc", (12, 8), {"WL": 14, "FL": 8})] and log.moves[0].width_moved
