"""What AdaPT's model says of a run or of a schedule: a row a layer, word lengths over time, the figures."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from intnet import models
from intnet.errors import ConfigError
from intnet.papers.costs import adapt_costs, logs, plots
from intnet.papers.costs.adapt_costs import History
from intnet.papers.costs.report import Report, check_same, percent, spaced, two_places
from intnet.runs import report, run_folder
from intnet.show import tables
from intnet.show.tables import Cell, Column, Table
from intnet.training.train import Run

LAYER = (
    ("layer", "", "layer"), ("MAdds", ",", "madds"), ("weights", ",", "weights"), ("WL first", "", "first"),
    ("min", "", "least"), ("mean", ".1f", "mean"), ("max", "", "most"), ("last", "", "last"),
    ("FL", "", "fraction"), ("sparsity", ".1%", "sparsity_mean"), ("final", ".1%", "sparsity_final"),
    ("up", "", "rises"), ("down", "", "falls"), ("lb", "", "lookback"), ("r", "", "resolution"),
)  # fmt: skip
LATER = "as the peer-reviewed version counts: adapt's quantized tensors twice, muppet's four times"


def of_schedule(
    model: str, image: tuple[int, int, int], classes: int, schedule: Sequence[tuple[int, int]], accs: int
) -> Report:
    """Dense, one word length for all layers: (epochs, WL) one after another, an epoch as one step."""
    sizes = adapt_costs.layer_sizes(models.make(model, image, classes))
    history = adapt_costs.dense(sizes, schedule, accs=accs)
    baseline = adapt_costs.float32(sizes, history.steps, accs=accs)
    text = ", ".join(f"{epochs} of {width} bits" for epochs, width in schedule)
    sides = "x".join(map(str, image))
    title = f"{model}, images of {sides}, {classes} classes, accs {accs}; epochs: {text}"
    told = {"schedule": schedule, "model": model, "image_shape": image, "classes": classes, "accs": accs}
    summary = adapt_costs.summary(history, baseline)
    return _report(title, "epoch", history, told | {"summary": summary})


def of_run(
    folder: str, run: Run, baseline: str | None, accuracy: float | None, data_dir: str | None
) -> Report:
    """A run against its baseline, or as in the paper against float32 for as long with as many accs.

    accuracy: float32's
    """
    logged = logs.read_steps(folder, run)
    own, history, log = logged.identity, logged.history, logged.log
    wanted, base, against = accuracy, history, "float32 for as many steps"
    if baseline is not None:
        other = logs.read_steps(baseline, run_folder.load(baseline, data_dir=data_dir))
        if other.identity["method"] != "float32":
            raise ConfigError(
                f"--baseline {baseline}: a run of {other.identity['method']}; the baseline is one of float32"
            )
        check_same(f"--baseline {baseline}", own, other.identity)
        wanted, base, against = other.accuracy, other.history, baseline
        if _length(base) != _length(history):
            against += f", which took {_length(base)}"
    floats = adapt_costs.float32(history.layers, base.steps, base.batch_size, base.accs)
    iso = adapt_costs.iso_step(log.tested, wanted)
    summary = adapt_costs.summary(history, floats, iso)
    switches, steps = (log.seconds.get(kind) for kind in ("precision", "step"))
    measured = switches / steps if switches is not None and steps else None
    copies = next((k for of, k in adapt_costs.COPIES.items() if isinstance(run.method, of)), None)
    later = None if copies is None else 1 + copies * (summary["memory"] - 1)
    title = f"{report.title(own)}: {_length(history)}; against {against}"
    result = {
        "run": folder,
        "baseline": baseline,
        **{key: own[key] for key in ("method", "model", "data")},
        "steps": history.steps,
        "batch_size": history.batch_size,
        "accs": history.accs,
        "accuracy": logged.accuracy,
        "float32_accuracy": wanted,
        "summary": summary | {"measured_overhead": measured, "memory_later": later},
    }
    return _report(title, "step", history, result, log.decisions)


def _length(history: History) -> str:
    return f"{history.steps:,} steps of {history.batch_size} images, accs {history.accs}"


def _report(
    title: str, unit: str, history: History, result: dict[str, Any], decisions: Sequence[logs.Decision] = ()
) -> Report:
    """unit: what the history counts, 'step' or 'epoch'; decisions: of `logs.Log`."""
    moves = zip(adapt_costs.rows(history), adapt_costs.changes(history), strict=True)
    layers = [row | {"changes": changes} for row, changes in moves]
    made = [tables.of("weight layers", layers, LAYER), _over_time(history, unit)]
    draw = partial(plots.word_lengths, title=title, unit=unit, history=history, decisions=decisions)
    return Report(title, result | {"layers": layers}, made, figures(result), draw)


def _over_time(history: History, unit: str) -> Table:
    at = spaced(history.steps)
    columns = [Column("layer"), *tables.numbers(*(f"{step + 1:,}" for step in at))]
    rows: list[list[Cell]] = [
        [size.name, *history.widths[at, k].tolist()] for k, size in enumerate(history.layers)
    ]
    return Table(f"width over time, by {unit}", columns, rows)


def figures(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(what, value, what it means) of what `--json` prints; lines that can say nothing are left out."""
    summary, run = result["summary"], "run" in result
    bits, nonzero, floats = summary["bits"], summary["nonzero_bits"], summary["float32_bits"]
    values = summary | {"bits": bits / floats, "nonzero_bits": nonzero / floats}
    overhead, later = summary["overhead_share"] > 0, summary.get("memory_later") is not None
    ratios = [  # whether it is told, what, its key, what it means
        (True, "SU", "speedup", "of training over float32, switches included"),
        (overhead, "  as printed", "speedup_per_image", "the overhead of a step counted for every image"),
        (overhead, "  no overhead", "speedup_without_overhead", ""),
        (run, "SU, iso-accuracy", "iso_speedup", _iso(result)),
        (run and overhead, "  as printed", "iso_speedup_per_image", ""),
        (True, "SU, inference", "inference_speedup", "of the final model's forward pass"),
        (True, "SZ", "size", "final model over float32's, layers as equally large"),
        (True, "MEM", "memory", "weights in training, float32 copy included, over float32's"),
        (later, "  as later", "memory_later", LATER),
        (True, "bits / float32's", "bits", f"{bits:,} bits of the final model's weights"),
        (True, "  of non-zeros", "nonzero_bits", f"{nonzero:,} bits, without where they stand"),
    ]
    shares = [
        (True, "sparsity, final", "sparsity_final", "share of zero weights, final model"),
        (True, "sparsity, mean", "sparsity_mean", "over training"),
        (run, "overhead", "overhead_share", "of the cost of training, switches by the model"),
        (run and overhead, "  as printed", "overhead_share_per_image", ""),
        (run, "  measured", "measured_overhead", "switches' share of all steps' time"),
    ]
    return [
        (what, written(values.get(key)), about)
        for written, lines in ((two_places, ratios), (percent, shares))
        for told, what, key, about in lines
        if told
    ]


def _iso(result: dict[str, Any]) -> str:
    """Where training reaches float32's final accuracy."""
    wanted, step = result.get("float32_accuracy"), result["summary"]["iso_step"]
    if wanted is None:
        return "float32's final accuracy is not known: --baseline or --accuracy tells it"
    return f"up to step {step:,}, which reaches {wanted:.2%}" if step else f"no epoch reaches {wanted:.2%}"
