"""A path's histograms: before and after rounding in bins of whole codes, and of the errors."""

from collections.abc import Sequence
from math import ceil, floor

from intnet.inspect.histograms import EIGHTHS, ERROR_BINS, Errors
from intnet.inspect.measure import errors_of, measure
from intnet.inspect.page.sections import Given, Section, Shown
from intnet.inspect.text import unit

CHART, LEFT, BOTTOM = (330, 130), 52, 30  # a histogram's size, room for its labels
BINS = 33  # at most: a picture has room for more than a line of text
CLOSE = 24  # between a label at 0 and one at an end


def section(given: Given, one: Shown) -> Section:
    """Values before, codes after, errors; of an exact or float path the values as they are."""
    row = measure(one.event, BINS)
    counted, whole = unit(row), unit(row).startswith("code")
    if row.before is None:
        return Section("", chart("after", "as handed on", row.after, row.edges, counted, whole))
    top = max(*row.before, *row.after)
    drawn = chart("before", "before rounding", row.before, row.edges, counted, whole, top)
    drawn += chart("after", "after rounding", row.after, row.edges, counted, whole, top)
    return Section("", drawn + _errors(errors_of(one.event)))


def _errors(found: Errors | None) -> str:
    if found is None or not found.elements:
        return ""
    if found.unchanged == found.elements:
        return '<p class="quiet">No element has an error.</p>'
    edges = [edge / EIGHTHS for edge in ERROR_BINS.edges]
    drawn = chart("lost", "code less value", found.counts, edges, "error, in steps of its grid", False)
    told = f"Mean error {found.mean:+.4g} steps; {found.unchanged:,} of {found.elements:,} unchanged"
    beyond = f"; {found.beyond:,} off by more than 17/16 steps, in the outer bins" if found.beyond else ""
    return f'{drawn}<p class="quiet">{told}{beyond}.</p>'


def chart(
    kind: str,
    title: str,
    counts: Sequence[int],
    edges: Sequence[float],
    counted: str,
    whole: bool,
    top: int = 0,
) -> str:
    """Bars of bins between `edges`, `top` elements (or the most) as high as the chart; none hides.

    counted: what stands below; whole: of codes, so that bins are told by their first and last one
    """
    width, height = CHART
    right, ground = width - 8, height - BOTTOM
    tall = ground - 12  # room for half a line above
    top = top or max(counts, default=0) or 1
    low, high = edges[0], edges[-1]

    def across(value: float) -> float:
        return LEFT + (right - LEFT) * (value - low) / ((high - low) or 1)

    bars = []
    for count, start, end in zip(counts, edges, edges[1:], strict=False):
        size = max(1.5, tall * count / top) if count else 0
        x, wide = across(start), across(end) - across(start)
        place = (
            f'x="{x + 0.5:.1f}" y="{ground - size:.1f}" width="{max(wide - 1, 0.5):.1f}" height="{size:.1f}"'
        )
        bars.append(f"<rect {place}><title>{_bin(start, end, whole)}: {count:,}</title></rect>")
    ends = [ceil(low), floor(high)] if whole else [low, high]
    if kind == "lost":  # in the middle of the outer bins
        ends = [-1, 1]
    labels = [
        (LEFT, ground + 13, "start", number(ends[0])),
        (right, ground + 13, "end", number(ends[1])),
        ((LEFT + right) / 2, height - 3, "middle", counted),
        (LEFT - 4, ground - tall + 8, "end", f"{top:,}"),
        (LEFT - 4, ground, "end", "0"),
    ]
    if LEFT + 2 * CLOSE < across(0) < right - 2 * CLOSE:
        labels.append((across(0), ground + 13, "middle", "0"))
    texts = "".join(
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>' for x, y, anchor, text in labels
    )
    axis = f'<path class="axis" d="M{LEFT} {ground - tall}V{ground}H{right}"/>'
    about = f"elements in {len(counts)} bins from {number(ends[0])} to {number(ends[1])}, {title}"
    svg = f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{about}">'
    caption = f"<figcaption>elements by {counted.partition(',')[0]}, {title}</figcaption>"
    return f'<figure>{caption}{svg}<g class="{kind}">{"".join(bars)}</g>{axis}{texts}</svg></figure>'


def _bin(start: float, end: float, whole: bool) -> str:
    if not whole:
        return f"{number(start)} to {number(end)}"
    first, last = ceil(start), floor(end)
    return f"code {number(first)}" if first == last else f"codes {number(first)} to {number(last)}"


def number(value: float) -> str:
    """As labels have it."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
