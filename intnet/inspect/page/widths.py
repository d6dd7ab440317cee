"""Widths over time and why each moved, from a run's log: AdaPT's switches, MuPPET's policy.

picture(log, layer)             a line a layer, word length by step
reasons(log, options, layer)    every decision in words
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import inf
from typing import Any

from intnet.inspect.flow import short
from intnet.inspect.page.sections import Section, table, wide
from intnet.inspect.width_log import Log, Moved
from intnet.methods import adapt_switch as switch

NARROW, WIDE = 520, 1200  # px of a picture beside a diagram, of one by itself
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 250, 44, 12, 14, 34
FLOAT = 32  # bits of float32, the highest level
MOST = 400  # decisions that a page lists: of more those that moved a width, the latest
STYLES = 8  # colours of lines, each with its own dashes (style.css)
LONGEST, LINE, NAME = 24, 13, 18  # names of layers beside the picture, px of one, its letters
DASHES = ("", "6 3", "2 3")


def picture(log: Log, layer: str = "", width: int = NARROW) -> Section:
    """A line a layer, or that of one; none where no width was logged."""
    lines = {name: line for name, line in log.widths.items() if not layer or name == layer}
    if not lines:
        return Section("", "")
    drawn = wide(_drawn(lines, log.steps, width), "word length by step")
    return Section("Word length over time", drawn, "beside" if layer else "whole")


def reasons(log: Log, options: Mapping[str, Any], layer: str = "") -> Section:
    """Every decision of all layers or of one, as the numbers that were logged with it tell it."""
    moves = [one for one in log.moves if one.layer in (layer, "net") or not layer]
    if layer and layer not in log.widths:
        return Section("", "")
    title = "Why the word length moved"
    if not moves:
        return Section(title, "<p>No decision so far.</p>") if log.widths else Section("", "")
    return Section(title, _table(moves, options))


# -- the picture --------------------------------------------------------------------------------


def _drawn(lines: Mapping[str, Sequence[tuple[int, int]]], steps: int, width: int) -> str:
    """Word length by step; lines that lie on each other are drawn ever thinner."""
    height = max(HEIGHT, TOP + LINE * (min(len(lines), LONGEST) + 1) + 8)
    most = max(FLOAT, *(wl for line in lines.values() for _, wl in line))
    legend = 150 if len(lines) > 1 else 0
    right, ground = width - RIGHT - legend, height - BOTTOM

    def x(step: float) -> float:
        return LEFT + (right - LEFT) * (step - 1) / max(steps, 1)

    def y(bits: float) -> float:
        return ground - (ground - TOP) * bits / most

    parts = []
    for bits in range(0, most + 1, 8):
        parts.append(f'<path class="axis faint" d="M{LEFT} {y(bits):.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(bits) + 4:.1f}" text-anchor="end">{bits}</text>')
    for step in dict.fromkeys(1 + round(k * (steps - 1) / 4) for k in range(5)):
        anchor = "middle" if step < steps else "end"
        parts.append(f'<text x="{x(step):.1f}" y="{ground + 14}" text-anchor="{anchor}">{step:,}</text>')
    parts.append(f'<text x="{(LEFT + right) / 2:.1f}" y="{height - 4}" text-anchor="middle">step</text>')
    parts.append(f'<text x="4" y="{TOP - 3}">bits</text>')
    for k, (name, line) in enumerate(lines.items()):
        path = f"M{x(line[0][0]):.1f} {y(line[0][1]):.1f}"
        for step, wl in line[1:]:
            path += f"H{x(step):.1f}V{y(wl):.1f}"
        path += f"H{x(steps + 1):.1f}"
        thick = 1.5 + 3 * (1 - k / len(lines)) if len(lines) > 1 else 2
        dashes = DASHES[k // STYLES % len(DASHES)]
        how = (
            f'class="line line{k % STYLES}" stroke-width="{thick:.1f}" stroke-dasharray="{dashes or "none"}"'
        )
        parts.append(f'<path {how} d="{path}"><title>{escape(name)}</title></path>')
        if legend and k < LONGEST:
            at = TOP + 4 + k * LINE
            parts.append(f'<path {how} d="M{right + 10} {at}h18"/>')
            parts.append(f'<text x="{right + 32}" y="{at + 4}">{escape(short(name, NAME))}</text>')
    if len(lines) > LONGEST:
        at = TOP + 8 + LONGEST * LINE
        parts.append(f'<text x="{right + 10}" y="{at}">and {len(lines) - LONGEST} more</text>')
    about = f"word length by step, {len(lines)} layers, {steps:,} steps"
    size = f'width="{width}" viewBox="0 0 {width} {height}"'
    size += ' style="max-width: 100%"' if width == NARROW else ""
    return f'<svg class="over-time" {size} role="img" aria-label="{about}">{"".join(parts)}</svg>'


# -- the reasons --------------------------------------------------------------------------------


def _table(moves: Sequence[Moved], options: Mapping[str, Any]) -> str:
    """A row a decision; those that moved a width first to be seen, all others behind a click."""
    moved = [one for one in moves if one.width_moved]
    others = [one for one in moves if not one.width_moved]
    parts = []
    if moved:
        cut = f" (the latest {MOST:,} of {len(moved):,})" if len(moved) > MOST else ""
        parts.append(f"<h4>Decisions that moved a word length{cut}</h4>{_rows(moved[-MOST:], options)}")
    if others:
        cut = f", the latest {MOST:,} of {len(others):,}" if len(others) > MOST else f", {len(others):,}"
        summary = f"<summary>Decisions that left it as it was{cut}</summary>"
        parts.append(f"<details>{summary}{_rows(others[-MOST:], options)}</details>")
    return "".join(parts)


def _rows(moves: Sequence[Moved], options: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td data-is="step" class="number">{one.step:,}</td><th scope="row">{escape(one.layer)}</th>'
        f'<td data-is="bits">{_change(one)}</td><td class="why">{escape(reason(one, options))}</td></tr>'
        for one in moves
    )
    return table("reasons", ("step", "layer", "bits", "why"), rows)


def _change(one: Moved) -> str:
    def text(wl: int, fl: int | None) -> str:
        if fl is None:
            return "float32" if wl == FLOAT else f"{wl}"
        return f"&lt;{wl},{fl}&gt;"

    if one.before is None:
        return text(*one.after)
    before = (one.before[0], one.before[1] if "FL" in one.found else None)
    return f"{text(*before)} to {text(*one.after)}"


def reason(one: Moved, options: Mapping[str, Any]) -> str:
    """In words, from the log's numbers alone."""
    return _policy(one, options) if "p" in one.found else _switch(one, options)


def _policy(one: Moved, options: Mapping[str, Any]) -> str:
    """MuPPET's, once in `resolution` epochs."""
    found = one.found
    above = "above" if found["violated"] else "not above"
    p, d = found["p"], found["D"]
    told = f"p = {p:.4g}, the greatest diversity since the last switch over this one, D = {d:.4g}; the"
    told += f"  threshold 1 + 1.5 exp(-0.1 epoch) is {found['threshold']:.4g}: p is {above} it"
    patience = options.get("patience")
    if not found["violated"]:
        return f"{told}, no violation; {found['violations']} since the last switch."
    end = "; the next word length" if one.width_moved or found["violations"] == patience else "; WL stays"
    return f"{told}, violation {found['violations']} of {patience}{end}."


def _switch(one: Moved, options: Mapping[str, Any]) -> str:
    """AdaPT's, of a layer whose lookback is full."""
    found = one.found
    wl_min, fl_min, wl, fl = (found[key] for key in ("WL_min", "FL_min", "WL", "FL"))
    kl = "infinite" if found["KL"] is None else f"{found['KL']:.4g}"
    eps, least = options.get("eps", inf), f"<{wl_min},{fl_min}>"
    down = f"PushDown (3.1) finds {least}, the least with KL = {kl} bits within eps = {eps}"
    if found["KL"] is None or found["KL"] > eps:
        down = f"PushDown (3.1) can take nothing away: even at {least} KL is {kl} bits, above eps = {eps}"
    d = "without a gradient other than 0" if found["D"] is None else f"D = {found['D']:.4g} (3.5)"
    reading = options.get("reading", "graded")  # the log's s1 is at most 32; D is whole
    s1, s2 = switch.suggestions(inf if found["D"] is None else found["D"], fl_min, reading)
    strategy = found["strategy"]
    s = switch.chosen((s1, s2), strategy)
    up = f"PushUp: diversity {d} suggests s1 = {s1} and s2 = {s2} (3.6); strategy {strategy} takes {s}"
    buff, raised = options.get("buff"), options.get("buffer", "raised") == "raised"
    sum_ = f"min({fl_min} + {s}, 32 - {buff})" if raised else f"min({fl_min}, 32 - {buff})"
    end = f"so FL = {sum_} = {fl} and WL = max(min({fl} + {buff}, 32), {wl_min}) = {wl}"
    return f"{down}. {up}, {end}. Lookback {found['lb']}, resolution {found['r']}."
