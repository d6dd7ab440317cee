"""`intnet costs` on a terminal: a row a layer, the word lengths over time, the figures."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from intnet.cli import terminal
from intnet.costs import adapt_costs

if TYPE_CHECKING:
    from intnet.cli.costs import Shown

WIDTH = 140  # of the widest table
COLUMNS = (
    "MAdds", "weights", "WL first", "min", "mean", "max", "last", "FL", "sparsity", "final", "up", "down",
    "lb", "r",
)  # fmt: skip


def show(shown: "Shown") -> None:
    """All tables and figures."""
    console = Console(highlight=False)
    print(shown.title)
    terminal.print_table(console, _layers(shown), WIDTH)
    terminal.print_table(console, _over_time(shown), WIDTH)
    print()
    for what, value, about in figures(shown.result):
        line = f"{what:18} {value:>7}  {about}"
        print(line.rstrip())


def _layers(shown: "Shown") -> Table:
    made = terminal.numbers_table("weight layers", "layer", COLUMNS)
    for row in adapt_costs.rows(shown.history):
        made.add_row(
            row.layer,
            f"{row.madds:,}",
            f"{row.weights:,}",
            str(row.first),
            str(row.least),
            f"{row.mean:.1f}",
            str(row.most),
            str(row.last),
            _dash(row.fraction),
            f"{row.sparsity_mean:.1%}",
            f"{row.sparsity_final:.1%}",
            str(row.rises),
            str(row.falls),
            _dash(row.lookback),
            _dash(row.resolution),
        )
    return made


def _dash(number: int | None) -> str:
    return "-" if number is None else str(number)


def _over_time(shown: "Shown") -> Table:
    at = adapt_costs.spaced(shown.history.steps)
    made = terminal.numbers_table(
        f"width over time, by {shown.unit}", "layer", tuple(f"{step + 1:,}" for step in at)
    )
    for k, layer in enumerate(shown.history.layers):
        made.add_row(layer.name, *(str(shown.history.widths[step, k]) for step in at))
    return made


def figures(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(what, value, what it means) of what `--json` prints; lines that can say nothing are left out."""
    summary, run = result["summary"], "run" in result
    bits, nonzero, floats = summary["bits"], summary["nonzero_bits"], summary["float32_bits"]
    overhead = summary["overhead_share"] > 0
    found = [
        (True, "SU", times(summary["speedup"]), "of training over float32, switches included"),
        (
            overhead,
            "  as printed",
            times(summary["speedup_per_image"]),
            "the overhead of a step counted for every image",
        ),
        (overhead, "  no overhead", times(summary["speedup_without_overhead"]), ""),
        (run, "SU, iso-accuracy", times(summary["iso_speedup"]), _iso(result)),
        (run and overhead, "  as printed", times(summary["iso_speedup_per_image"]), ""),
        (True, "SU, inference", times(summary["inference_speedup"]), "of the final model's forward pass"),
        (True, "SZ", times(summary["size"]), "final model over float32's, layers as equally large"),
        (True, "MEM", times(summary["memory"]), "weights in training, float32 copy included, over float32's"),
        (True, "bits / float32's", times(bits / floats), f"{bits:,} bits of the final model's weights"),
        (True, "  of non-zeros", times(nonzero / floats), f"{nonzero:,} bits, without where they stand"),
        (True, "sparsity, final", percent(summary["sparsity_final"]), "share of zero weights, final model"),
        (True, "sparsity, mean", percent(summary["sparsity_mean"]), "over training"),
        (
            run,
            "overhead",
            percent(summary["overhead_share"]),
            "of the cost of training, switches by the model",
        ),
        (run and overhead, "  as printed", percent(summary["overhead_share_per_image"]), ""),
        (run, "  measured", percent(summary.get("measured_overhead")), "switches' share of all steps' time"),
    ]
    return [(what, value, about) for says, what, value, about in found if says]


def _iso(result: dict[str, Any]) -> str:
    """Where training reaches float32's final accuracy."""
    wanted, step = result.get("float32_accuracy"), result["summary"]["iso_step"]
    if wanted is None:
        return "float32's final accuracy is not known: --baseline or --accuracy tells it"
    return f"up to step {step:,}, which reaches {wanted:.2%}" if step else f"no epoch reaches {wanted:.2%}"


def times(value: float | None) -> str:
    """'1.42', or '-' where there is none."""
    return "-" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    """'4.2%', or '-' where there is none."""
    return "-" if value is None else f"{value:.1%}"
