"""Which blocks of a layer got how many bits: DYNASTY's map as pictures, its mean and mixed widths."""

import numpy as np

from intnet.exact.blocks.block_float import WIDTHS
from intnet.inspect import block_maps
from intnet.inspect.page.sections import Given, Section, Shown, wide
from intnet.numbers.formats import BlockFloat

CELL, GAP, HEAD = 9, 12, 14  # px of a block, between panels, of a panel's title
ACROSS = 4  # panels of activations in a row
LEAST, WIDEST = 76, 640  # px of a panel with its title, at least; of a row of panels


def section(given: Given, layer: str) -> Section:
    """Of every path in block float: how many blocks of each width, and a picture where widths differ."""
    shown = [one for one in given.of(layer) if isinstance(one.event.format, BlockFloat)]
    if not shown:
        return Section("", "")
    parts = [_legend(), *(_path(one) for one in shown)]
    return Section("Which blocks got how many bits?", "".join(parts), "beside")


def _path(one: Shown) -> str:
    bits = block_maps.bits_of(one.event)
    of, path = block_maps.counts(bits), one.event.path
    held = {width: count for width, count in of.items() if count}
    if len(held) == 1:
        return f"<p><b>{path}</b>: all {bits.size:,} blocks have {next(iter(held))} bits.</p>"
    told = ", ".join(f"{count:,} of {width} bits" for width, count in held.items())
    mean = one.event.mean_bits
    text = f"<p><b>{path}</b>: {bits.size:,} blocks, {told}; mean width {mean:.3g} bits.</p>"
    weights = path.startswith("W")
    panels = (block_maps.of_weights if weights else block_maps.of_activations)(bits)
    across = one.event.result.shape[-1] if weights and bits.ndim == 4 else ACROSS
    return text + _bar(held, bits.size) + wide(_drawn(panels, across), f"widths of the blocks of {one.name}")


def _nearest(bits: float) -> int:
    return min(WIDTHS, key=lambda width: abs(width - bits))


def _color(width: int) -> str:
    return block_maps.COLORS[WIDTHS.index(width)]


def _bar(held: dict[int, int], size: int) -> str:
    """Shares of the widths, side by side."""
    x, parts = 0.0, []
    for width, count in held.items():
        share = 320 * count / size
        about = f"<title>{width} bits: {count:,} blocks</title>"
        place = f'x="{x:.1f}" width="{share:.1f}" height="12" fill="{_color(width)}"'
        parts.append(f'<rect class="block" {place}>{about}</rect>')
        x += share
    return f'<svg class="chart" viewBox="0 0 320 12" aria-hidden="true">{"".join(parts)}</svg>'


def _drawn(panels: block_maps.Panels, across: int) -> str:
    down, wide_ = panels[0][1].shape
    width = max(LEAST, CELL * wide_) + GAP
    across = max(1, min(across, len(panels), WIDEST // width))
    height = HEAD + CELL * down + GAP
    parts = []
    for k, (title, bits) in enumerate(panels):
        x, y = width * (k % across), height * (k // across)
        parts.append(
            f'<text x="{x}" y="{y + 10}">{title.removeprefix("weights ").removeprefix("activations ")}</text>'
        )
        parts += _cells(bits, x, y + HEAD)
        frame = f'width="{CELL * wide_}" height="{CELL * down}"'
        parts.append(f'<rect class="panel" x="{x}" y="{y + HEAD}" {frame}/>')
    size = width * across, height * -(-len(panels) // across)
    about = f"{len(panels)} panels of {down} x {wide_} blocks"
    box = f'width="{size[0]}" viewBox="0 0 {size[0]} {size[1]}"'
    head = f'<svg class="map" {box} role="img" aria-label="{about}">'
    return f"{head}{''.join(parts)}</svg>"


def _cells(bits: np.ndarray, x: int, y: int) -> list[str]:
    """A row of equal neighbours is one rectangle: a big layer's page stays small."""
    parts = []
    for i, row in enumerate(bits):
        widths = [_nearest(float(b)) for b in row]
        start = 0
        for j in range(1, len(widths) + 1):
            if j == len(widths) or widths[j] != widths[start]:
                place = (
                    f'x="{x + CELL * start}" y="{y + CELL * i}" width="{CELL * (j - start)}" height="{CELL}"'
                )
                about = f"<title>row {i}, columns {start} to {j - 1}: {widths[start]} bits</title>"
                parts.append(f'<rect class="block" {place} fill="{_color(widths[start])}">{about}</rect>')
                start = j
    return parts


def _legend() -> str:
    items = "".join(
        f'<li><svg width="14" height="14" aria-hidden="true">'
        f'<rect class="block" width="14" height="14" fill="{_color(width)}"/></svg>{width} bits</li>'
        for width in WIDTHS
    )
    told = (
        "A square is a block of 4x4 values: of weights 4 output channels down, 4 input channels across, a "
        "panel a place of the kernel; of activations a pixel of 4 images, a panel 4 channels, colored by the "
        "width nearest to the mean over the batch's blocks."
    )
    return f'<p class="quiet">{told}</p><ul class="legend">{items}</ul>'
