"""A path's histograms, before and after rounding."""

from collections.abc import Sequence

from intnet.inspect.measure import Measured
from intnet.inspect.page.sections import Given, Section, Shown
from intnet.inspect.text import unit

CHART, LEFT, BOTTOM = (330, 130), 52, 30  # a histogram's size, room for its labels


def section(given: Given, one: Shown) -> Section:
    """Both histograms of a path."""
    return Section("", _histograms(one.row))


def _histograms(row: Measured) -> str:
    """Before and after rounding, on one scale; of an exact or float path as it is."""
    if row.before is None:
        return _chart("after", "as handed on", row.after, max(row.after), row)
    top = max(*row.before, *row.after)
    before = _chart("before", "before rounding", row.before, top, row)
    return before + _chart("after", "after rounding", row.after, top, row)


def _chart(kind: str, title: str, counts: Sequence[int], top: int, row: Measured) -> str:
    """Bars of equal bins of [-edge, edge], `top` elements as high as the chart; none hides."""
    width, height = CHART
    right, ground = width - 8, height - BOTTOM
    step, middle = (right - LEFT) / len(counts), (LEFT + right) / 2
    tall = ground - 12  # room for half a line above
    edges = [_number(row.edges * (2 * k / len(counts) - 1)) for k in range(len(counts) + 1)]
    bars = []
    for k, count in enumerate(counts):
        high = max(1.5, tall * count / top) if count else 0
        place = f'x="{LEFT + k * step + 0.5:.1f}" y="{ground - high:.1f}"'
        size = f'width="{step - 1:.1f}" height="{high:.1f}"'
        bars.append(f"<rect {place} {size}><title>{edges[k]} to {edges[k + 1]}: {count:,}</title></rect>")
    labels = (
        (LEFT, ground + 13, "start", edges[0]),
        (middle, ground + 13, "middle", "0"),
        (right, ground + 13, "end", edges[-1]),
        (middle, height - 3, "middle", unit(row)),
        (LEFT - 4, ground - tall + 8, "end", f"{top:,}"),
        (LEFT - 4, ground, "end", "0"),
    )
    texts = "".join(
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>' for x, y, anchor, text in labels
    )
    axis = f'<path class="axis" d="M{LEFT} {ground - tall}V{ground}H{right}"/>'
    about = f"elements in {len(counts)} equal bins from {edges[0]} to {edges[-1]}, {title}"
    svg = f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{about}">'
    counted = unit(row).partition(",")[0]
    caption = f"<figcaption>elements by {counted}, {title}</figcaption>"
    return f'<figure>{caption}{svg}<g class="{kind}">{"".join(bars)}</g>{axis}{texts}</svg></figure>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
