"""A layer's data flow as an SVG: boxes of paths in the lanes forward, backward, update, arrows downwards.

    draw(layer, boxes, links) -> the <svg> as text

A box stands a row below all that enters it in its lane, each row in the middle and in the order of what
enters it. An arrow to the next row goes straight; a longer one goes down a track of its source's own beside
all boxes, so none crosses a box. Same input, same picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, OUTER_HEIGHT = 118, 56, 40  # of a box, of one from elsewhere
GAP, DROP = 16, 30  # between neighbours, between rows
TRACK = 12  # between two tracks
GUTTER, EDGE = 24, 10  # left of a lane for its name; around everything
LONGEST = 17  # letters of a line in a box

Link = tuple[str, str]  # keys of a box and of one that it enters


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

    @property
    def height(self) -> int:
        """Less without a line of bits."""
        return OUTER_HEIGHT if self.kind == "outer" else HEIGHT


def draw(name: str, boxes: Sequence[Box], links: Sequence[Link]) -> str:
    """The drawing of `boxes`, each given after all that enters it; lanes stand in order of appearance."""
    row_of = _rows(boxes, links)
    rows: list[list[Box]] = [[] for _ in range(1 + max(row_of.values()))]
    for box in boxes:
        rows[row_of[box.key]].append(box)
    x, tracks, right = _columns(rows, links, row_of)
    tops = [EDGE + DROP / 2]  # the upper edge of every row, and of what would come below
    for row in rows:
        tops.append(tops[-1] + max(box.height for box in row) + DROP)
    bottom = tops[-1] - DROP / 2 + EDGE
    parts = _lanes(boxes, row_of, tops, right)
    parts += [_arrow(link, boxes, links, row_of, x, tracks, tops) for link in links]
    parts += [_drawn(box, x[box.key], tops[row_of[box.key]]) for box in boxes]
    label = f"data flow of {name}: {len(boxes)} paths, {len(links)} arrows"
    size = f'width="{right:.0f}" height="{bottom:.0f}" viewBox="0 0 {right:.0f} {bottom:.0f}"'
    body = "\n".join(parts)
    return f'<svg class="flow" role="group" aria-label="{escape(label)}" {size}>\n{body}\n</svg>'


def _rows(boxes: Sequence[Box], links: Sequence[Link]) -> dict[str, int]:
    """Key -> row: below all that enters it, and below every lane before its own."""
    lane_of = {box.key: box.lane for box in boxes}
    rows: dict[str, int] = {}
    start = 0
    for lane in dict.fromkeys(lane_of.values()):
        own = [box.key for box in boxes if box.lane == lane]
        for key in own:
            above = [rows[a] + 1 for a, b in links if b == key and lane_of[a] == lane]
            rows[key] = max(above, default=start)
        for key in reversed(own):  # sources next to their readers
            below = [rows[b] - 1 for a, b in links if a == key and lane_of[b] == lane]
            if below and not any(b == key for _, b in links):
                rows[key] = min(below)
        start = 1 + max(rows.values())
    return rows


def _columns(
    rows: list[list[Box]], links: Sequence[Link], row_of: dict[str, int]
) -> tuple[dict[str, float], dict[str, float], float]:
    """(the middle of every box, the track of every source of a long arrow, the drawing's width)."""
    x: dict[str, float] = {}
    for row in rows:
        given = {box.key: float(place) for place, box in zip(_spread(len(row)), row, strict=True)}
        above = {key: [x[a] for a, b in links if b == key and a in x] for key in given}
        wanted = {key: sum(near) / len(near) if near else given[key] for key, near in above.items()}
        ordered = sorted(given, key=lambda key: wanted[key])
        x |= dict(zip(ordered, _spread(len(row)), strict=True))
    long: dict[str, list[float]] = {}  # source -> where its long arrows end
    for a, b in links:
        if row_of[b] > row_of[a] + 1:
            long.setdefault(a, []).append(x[b])
    sides = [[a for a, ends in long.items() if (x[a] + sum(ends) > 0) == right] for right in (False, True)]
    half = max(map(abs, x.values())) + WIDTH / 2
    tracks: dict[str, float] = {}
    for keys, side in zip(sides, (-1, 1), strict=True):
        tracks |= {key: side * (half + TRACK * (k + 1)) for k, key in enumerate(keys)}
    left = EDGE + GUTTER + half + TRACK * len(sides[0])
    x, tracks = ({key: place + left for key, place in of.items()} for of in (x, tracks))
    return x, tracks, left + half + TRACK * len(sides[1]) + EDGE


def _spread(count: int) -> list[float]:
    """So many boxes side by side about 0."""
    return [(k - (count - 1) / 2) * (WIDTH + GAP) for k in range(count)]


def _lanes(boxes: Sequence[Box], row_of: dict[str, int], tops: list[float], right: float) -> list[str]:
    """A band behind each lane, its name turned by 90 degrees in the gutter."""
    parts = []
    for lane in dict.fromkeys(box.lane for box in boxes):
        own = [row_of[box.key] for box in boxes if box.lane == lane]
        top, bottom = tops[min(own)] - DROP / 2 + 3, tops[max(own) + 1] - DROP / 2 - 3
        band = f'x="2" y="{top:.1f}" width="{right - 4:.1f}" height="{bottom - top:.1f}"'
        middle = (top + bottom) / 2
        turned = f'transform="rotate(-90 16 {middle:.1f})" x="16" y="{middle + 4:.1f}"'
        parts.append(f'<rect class="lane" {band} rx="8"/><text class="lane-name" {turned}>{lane}</text>')
    return parts


def _arrow(
    link: Link,
    boxes: Sequence[Box],
    links: Sequence[Link],
    row_of: dict[str, int],
    x: dict[str, float],
    tracks: dict[str, float],
    tops: list[float],
) -> str:
    """From the middle below a box to its own point on top of the other, by the source's track where long."""
    source, target = link

    def comes_from(key: str) -> float:
        return tracks[key] if row_of[target] > row_of[key] + 1 else x[key]

    entering = sorted((a for a, b in links if b == target), key=comes_from)
    spread = min(18.0, WIDTH / (len(entering) + 1))
    end = x[target] + (entering.index(source) - (len(entering) - 1) / 2) * spread
    first, last = row_of[source], row_of[target]
    height = next(box.height for box in boxes if box.key == source)
    path = f"M{x[source]:.1f} {tops[first] + height:.1f}"
    at = x[source]
    places = [(first + 1, tracks[source], 0), (last, end, 1)] if last > first + 1 else [(last, end, 1)]
    for row, to, head in places:
        start, stop = tops[row] - DROP, tops[row] - head
        middle = (start + stop) / 2
        path += f" V{start:.1f} C{at:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {stop:.1f}"
        at = to
    ends = f'data-from="{escape(source)}" data-to="{escape(target)}"'
    return f'<path class="arrow" {ends} d="{path}" marker-end="url(#head)"/>'


def _drawn(box: Box, x: float, top: float) -> str:
    corner = 10 if box.kind == "rounded" else 2
    size = f'width="{WIDTH}" height="{box.height}" rx="{corner}"'
    texts = [f'<text class="name" x="{x:.1f}" y="{top + 17:.1f}">{escape(box.name)}</text>']
    for k, line in enumerate(box.lines):
        texts.append(f'<text x="{x:.1f}" y="{top + 32 + 15 * k:.1f}">{escape(short(line))}</text>')
    title = f"<title>{escape(box.title)}</title>" if box.title else ""
    body = f'{title}<rect x="{x - WIDTH / 2:.1f}" y="{top:.1f}" {size}/>{"".join(texts)}'
    key = f'class="box {box.kind}" data-path="{escape(box.key)}"'
    if box.href:
        return f'<a {key} href="{escape(box.href)}">{body}</a>'
    return f"<g {key}>{body}</g>"


def short(text: str, most: int = LONGEST) -> str:
    """The end of a name that is too long for its place; a title has it all."""
    return text if len(text) <= most else f"…{text[1 - most :]}"
