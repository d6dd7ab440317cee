"""A layer's data flow as an SVG: boxes of paths in the lanes forward, backward, update, arrows downwards.

    draw(layer, boxes, links) -> the <svg> as text

A layered drawing (Sugiyama): a box stands a row below all that enters it in its lane; an arrow that passes
rows gets a place of its own in each of them, so no arrow crosses a box; rows are ordered by barycenters
for few crossings, then moved sideways, as near to their neighbours as the gaps allow, by a least
squares fit. Same input, same picture.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 118, 56  # of a box
OUTER_HEIGHT = 40
TRACK = 12  # width of the place that an arrow has in a row it passes
GAP, DROP = 16, 30  # between neighbours, between rows
GUTTER, EDGE = 24, 10  # left of a lane for its name; around everything
SWEEPS, STARTS = 12, 8
LONGEST = 17  # letters of a line in a box
PULL = 0.5  # weight of the middle of the drawing: parts that nothing links stay together
STRAIGHT = 8.0  # a place of an arrow weighs so much more than a box: long arrows stay straight


@dataclass(frozen=True)
class Box:
    """A path: `key` is unique in the drawing; lines stand below its name; kind: exact, rounded or outer."""

    key: str
    lane: str
    name: str
    lines: tuple[str, ...]
    kind: str
    title: str = ""
    href: str = ""


@dataclass
class _Place:
    """A box or (box None) an arrow's place in one row; `above` and `below` are what it is linked to."""

    row: int
    box: Box | None
    above: list["_Place"] = field(default_factory=list)
    below: list["_Place"] = field(default_factory=list)
    x: float = 0.0  # of the middle
    order: float = 0.0

    @property
    def width(self) -> int:
        return WIDTH if self.box else TRACK


Link = tuple[str, str]  # keys of a box and of one that it enters


def draw(name: str, boxes: Sequence[Box], links: Sequence[Link]) -> str:
    """The drawing of `boxes`, each given after all that enters it; lanes stand in order of appearance."""
    rows_of = _rows(boxes, links)
    rows, ways = _places(boxes, links, rows_of)
    _order(rows)
    _align(rows)
    tops = _tops(rows)
    left = min(place.x - place.width / 2 for row in rows for place in row)
    for place in (place for row in rows for place in row):
        place.x += EDGE + GUTTER - left
    right = max(place.x + place.width / 2 for row in rows for place in row) + EDGE
    parts = _lanes(boxes, rows_of, tops, right)
    parts += [_arrow(link, way, tops) for link, way in ways.items()]
    parts += [_drawn(place, tops) for row in rows for place in row if place.box]
    label = f"data flow of {name}: {len(boxes)} paths, {len(links)} arrows"
    size = f'width="{right:.0f}" height="{tops[-1]:.0f}" viewBox="0 0 {right:.0f} {tops[-1]:.0f}"'
    body = "\n".join(parts)
    return f'<svg class="flow" role="group" aria-label="{escape(label)}" {size}>\n{body}\n</svg>'


# -- rows ---------------------------------------------------------------------------------------


def _rows(boxes: Sequence[Box], links: Sequence[Link]) -> dict[str, int]:
    """Key -> row: below all that enters it, and below every lane before its own."""
    lane_of = {box.key: box.lane for box in boxes}
    rows: dict[str, int] = {}
    start = 0
    for lane in dict.fromkeys(lane_of.values()):
        for box in (box for box in boxes if box.lane == lane):
            above = [rows[a] + 1 for a, b in links if b == box.key and lane_of[a] == lane]
            rows[box.key] = max(above, default=start)
        for box in (box for box in reversed(boxes) if box.lane == lane):  # sources next to their readers
            below = [rows[b] - 1 for a, b in links if a == box.key and lane_of[b] == lane]
            if below and not any(b == box.key for _, b in links):
                rows[box.key] = min(below)
        start = 1 + max(rows.values())
    return rows


def _places(
    boxes: Sequence[Box], links: Sequence[Link], rows_of: dict[str, int]
) -> tuple[list[list[_Place]], dict[Link, list[_Place]]]:
    """(the places of each row, the places along each link); all links of one box share their way down."""
    rows: list[list[_Place]] = [[] for _ in range(1 + max(rows_of.values()))]
    at = {box.key: _Place(rows_of[box.key], box) for box in boxes}
    for place in at.values():
        rows[place.row].append(place)
    tracks: dict[tuple[str, int], _Place] = {}
    ways: dict[Link, list[_Place]] = {}
    for source, target in links:
        way = [at[source]]
        for row in range(at[source].row + 1, at[target].row):
            if (source, row) not in tracks:
                tracks[source, row] = _Place(row, None)
                rows[row].append(tracks[source, row])
            way.append(tracks[source, row])
        ways[source, target] = [*way, at[target]]
        for upper, lower in pairwise(ways[source, target]):
            if lower not in upper.below:
                upper.below.append(lower)
                lower.above.append(upper)
    return rows, ways


# -- order and position -------------------------------------------------------------------------


def _order(rows: list[list[_Place]]) -> None:
    """The order with the fewest crossings that sweeps reach from the given order or from a shuffled one."""
    given, shuffled = [list(row) for row in rows], random.Random(1)
    best, fewest = given, _crossings(rows)
    for start in range(STARTS):
        for row, order in zip(rows, given, strict=True):
            row[:] = order if start == 0 else shuffled.sample(order, len(order))
        for sweep in range(SWEEPS):
            if fewest == 0:
                break
            _sweep(rows, down=sweep % 2 == 0)
            crossings = _crossings(rows)
            if crossings < fewest:
                best, fewest = [list(row) for row in rows], crossings
    for row, order in zip(rows, best, strict=True):
        row[:] = order


def _sweep(rows: list[list[_Place]], down: bool) -> None:
    """Sort every row by the mean of its neighbours in the row before (from below: behind) it."""
    for row in rows:
        for k, place in enumerate(row):
            place.order = (k + 0.5) / len(row)
    for row in rows if down else reversed(rows):
        for place in row:
            near = (place.above if down else place.below) or place.above + place.below
            if near:
                place.order = sum(other.order for other in near) / len(near)
        row.sort(key=lambda place: place.order)
        for k, place in enumerate(row):
            place.order = (k + 0.5) / len(row)


def _crossings(rows: list[list[_Place]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        at = {id(place): k for k, place in enumerate(lower)}
        ends = [[at[id(other)] for other in place.below] for place in upper]
        for k, mine in enumerate(ends):
            count += sum(a > b for theirs in ends[k + 1 :] for a in mine for b in theirs)
    return count


def _align(rows: list[list[_Place]]) -> None:
    for row in rows:
        _fit(row, [0.0] * len(row))
    for sweep in range(2 * SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for place in row:
                near = place.above + place.below
                weights = [STRAIGHT if not (place.box and other.box) else 1.0 for other in near]
                total = sum(w * other.x for w, other in zip(weights, near, strict=True))
                wanted.append(total / (sum(weights) + PULL) if near else place.x)
            _fit(row, wanted)


def _fit(row: list[_Place], wanted: list[float]) -> None:
    """Positions nearest to `wanted` (least squares) that keep the order and the gaps: isotonic regression."""
    offsets = [0.0]
    for a, b in pairwise(row):
        offsets.append(offsets[-1] + (a.width + b.width) / 2 + GAP)
    blocks: list[tuple[float, float, int]] = []  # (mean, weight, places)
    for place, want, offset in zip(row, wanted, offsets, strict=True):
        block = (want - offset, 1.0 if place.box else STRAIGHT, 1)
        while blocks and blocks[-1][0] >= block[0]:
            mean, weight, count = blocks.pop()
            total = weight + block[1]
            block = ((mean * weight + block[0] * block[1]) / total, total, count + block[2])
        blocks.append(block)
    means = [mean for mean, _, count in blocks for _ in range(count)]
    for place, mean, offset in zip(row, means, offsets, strict=True):
        place.x = mean + offset


# -- drawing ------------------------------------------------------------------------------------


def _height(place: _Place) -> int:
    return 0 if place.box is None else OUTER_HEIGHT if place.box.kind == "outer" else HEIGHT


def _tops(rows: list[list[_Place]]) -> list[float]:
    """The upper edge of every row, and the lower edge of the drawing."""
    tops = [EDGE + DROP / 2]
    for row in rows:
        tops.append(tops[-1] + max(_height(place) for place in row) + DROP)
    return [*tops[:-1], tops[-1] - DROP / 2 + EDGE]


def _lanes(boxes: Sequence[Box], rows_of: dict[str, int], tops: list[float], right: float) -> list[str]:
    """A band behind each lane, its name turned by 90 degrees in the gutter."""
    parts = []
    for lane in dict.fromkeys(box.lane for box in boxes):
        own = [rows_of[box.key] for box in boxes if box.lane == lane]
        top, last = tops[min(own)] - DROP / 2 + 3, max(own) + 1
        bottom = tops[last] - (DROP / 2 + 3 if last < len(tops) - 1 else EDGE + 3)
        band = f'x="2" y="{top:.1f}" width="{right - 4:.1f}" height="{bottom - top:.1f}"'
        middle = (top + bottom) / 2
        turned = f'transform="rotate(-90 16 {middle:.1f})" x="16" y="{middle + 4:.1f}"'
        parts.append(f'<rect class="lane" {band} rx="8"/><text class="lane-name" {turned}>{lane}</text>')
    return parts


def _arrow(link: Link, way: list[_Place], tops: list[float]) -> str:
    """From the middle below a box to its own point on top of the other; between, along the places."""
    source, target = way[0], way[-1]
    entering = sorted(target.above, key=lambda place: place.x)
    spread = min(18.0, WIDTH / (len(entering) + 1))
    end = target.x + (entering.index(way[-2]) - (len(entering) - 1) / 2) * spread
    x, y = source.x, tops[source.row] + _height(source)
    path = f"M{x:.1f} {y:.1f}"
    for place in way[1:]:
        to_x, to_y = (end, tops[place.row] - 1) if place is target else (place.x, tops[place.row])
        start = tops[place.row] - DROP  # a shorter box leaves room above: go straight down first
        middle = (start + to_y) / 2
        path += f" V{start:.1f} C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x = to_x
    ends = f'data-from="{escape(link[0])}" data-to="{escape(link[1])}"'
    return f'<path class="arrow" {ends} d="{path}" marker-end="url(#head)"/>'


def _drawn(place: _Place, tops: list[float]) -> str:
    box = place.box
    assert box is not None
    left, top, height = place.x - WIDTH / 2, tops[place.row], _height(place)
    corner = 10 if box.kind == "rounded" else 2
    shape = f'x="{left:.1f}" y="{top:.1f}" width="{WIDTH}" height="{height}" rx="{corner}"'
    texts = [f'<text class="name" x="{place.x:.1f}" y="{top + 17:.1f}">{escape(box.name)}</text>']
    for k, line in enumerate(box.lines):
        texts.append(f'<text x="{place.x:.1f}" y="{top + 32 + 15 * k:.1f}">{escape(_short(line))}</text>')
    title = f"<title>{escape(box.title)}</title>" if box.title else ""
    body = f"{title}<rect {shape}/>{''.join(texts)}"
    key = f'class="box {box.kind}" data-path="{escape(box.key)}"'
    if box.href:
        return f'<a {key} href="{escape(box.href)}">{body}</a>'
    return f"<g {key}>{body}</g>"


def _short(text: str) -> str:
    """The end of a name that is too long for its box; the box's title has it all."""
    return text if len(text) <= LONGEST else f"…{text[1 - LONGEST :]}"
