"""`intnet inspect`: what every quantization of a layer did in one step, or one number's whole way."""

import argparse
import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import intnet
from intnet.cli import options, source
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.inspect.measure import Measured
    from intnet.inspect.operands import Operands
    from intnet.inspect.page.embed import Data
    from intnet.inspect.page.sections import Given
    from intnet.methods.trace import Event
    from intnet.training.train import Run

PAGES = (".html", ".htm")  # endings of one page; any other name is that of a folder
DOCS = Path(intnet.__file__).resolve().parent.parent / "docs"
SUMMARY = "show every quantization of a layer's step, or one number's way from its value to its bits"
EXAMPLE = """\
  intnet inspect runs/first --layer layer1.0.bn1
  intnet inspect --method wageubn --model resnet8 --data digits --layer 'layer1.0.*' --path 'e?'
  intnet inspect --method wageubn --model mlp --data digits --layer bn2 --path x2 --index 0,3
  intnet inspect --method wageubn --model resnet8 --data digits --layer 'layer1.0.*' --html layer1.html

RUN goes on from its last checkpoint by one step, and nothing is written to its folder; without RUN a new
model is trained from its seed. The last step taken is shown: one row a path, in the paper's symbols.

  nominal, used  bits that the format names, bits that the codes needed (log2(2 peak + 1), peak the greatest
                 magnitude as it is stored, of codes without a sign log2(peak + 1); in --json range_bits, and
                 used_bits the whole bits of a word that holds them)
  bound          bits that the exact value before rounding is proven to fit (its accumulator)
  SQNR           10 log10(sum s^2 / sum (s - c)^2) in dB over all elements, s the exact value in steps of the
                 grid (CQ: after its scaling by dr/R(x)), c the code; '-' where no element changed
  before, after  histograms of s and of c in bins of equally many whole codes, at most 17
                 (block float and codecs, whose blocks and buckets have steps of their own: both, and SQNR,
                 in units of value)

Below the table, of each path that a codec packed: how many codes there are, the bits an element that the tape
holds with all metadata, the buckets and their scales.

--index shows one element: its operands, the exact value, the value in steps of the grid, floor, remainder,
tie or random word, decision, saturation, code. Exact arithmetic does it again and must reach the stored
code. Of a codec: its bucket, scale and zero point, every float32 operation with its exact result where that
was rounded, and the bits where the code is packed. Coefficients and offsets are aligned to the sum's
exponent. Indices count from 0: N,H,W,C for activations and errors, Cout,Cin,kh,kw for weights, C for
vectors. In --json an exact fraction is a text, 'p/q'.

--html FILE.html writes all that into one page that needs nothing else: each layer's data flow, its table,
how wrong its gradients are, why its widths moved, DYNASTY's map, histograms, and of every path a picture,
in which a click, or an index, gives an element's way; its sum opens into its products, and the same value
can be put into other formats. Elements worth reading are offered (rounded up, rounded down, a tie,
saturated, the greatest, a zero, and that of --index). --steps N puts N steps into it, for a slider: what
changed? --embed KIB is how much of each tensor it holds; of a greater one the first part. --html FOLDER
writes a page a layer, of all without --layer, and index.html, the whole network, which leads to them.

--plot writes the histograms as a picture for a slide, of more than 12 paths those of the least SQNR; it needs
matplotlib (pip install matplotlib)."""
EMBED = 256  # KiB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run or a new model, the layer, the path, the element."""
    parser.add_argument("folder", nargs="?", metavar="RUN", help="a run's folder; or name a new model:")
    source.add_arguments(parser)
    parser.add_argument("--path", metavar="PATH", help="only these data paths: x4, 'e?', ...")
    parser.add_argument(
        "--index", type=index, metavar="I,J,..", help="one element of a path, as a comma list"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write everything as one page too, or as pages in a folder"
    )
    parser.add_argument(
        "--steps", type=options.positive, metavar="N", help="with --html: N steps from --step on (1)"
    )
    parser.add_argument(
        "--embed",
        type=options.positive,
        metavar="KIB",
        help=f"with --html: of each tensor the page holds so much, its steps together ({EMBED})",
    )
    options.add(parser, "--plot", help="write the histograms too: .png, .svg, .pdf")


def index(text: str) -> tuple[int, ...]:
    """'0,3,1' as numbers, for argparse."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no index: write whole numbers from 0, as in 0,3,1,2")
    return tuple(map(int, parts))


def run(args: argparse.Namespace) -> int:
    """Take the step and show it."""
    if args.index is not None and args.path is None:
        raise ConfigError("--index needs --path: an element belongs to one data path")
    if args.html is None and (args.steps or args.embed):
        raise ConfigError("--steps and --embed are of the page: give --html FILE too")
    whole = args.html is not None and args.html.suffix not in PAGES
    if args.layer is None and not whole:
        raise ConfigError("give --layer, or --html and the name of a folder for pages of all layers")
    inspected = source.run(args)
    names = [layer.name for layer in inspected.model.all_layers()]
    layers = source.matching(names, args.layer or "*", "layer")
    step = source.step(args, inspected)
    if args.html is not None:
        options.check_folder("--html", args.html) if whole else options.check_file("--html", args.html)
    options.check_picture(args.plot)
    from intnet.cli import terminal
    from intnet.inspect import text
    from intnet.inspect.masters import with_masters
    from intnet.inspect.measure import measure
    from intnet.inspect.operands import Operands
    from intnet.methods.trace import Recorder
    from intnet.runs.metrics import step_lines

    lines, pages = _logged(args, inspected), _held(args, layers, whole)
    for number in range(step, step + (args.steps or 1)):
        recorder = Recorder()
        terminal.advance(inspected, number, [recorder], lambda report: lines.extend(step_lines(report)))
        seen, symbols = with_masters(inspected, recorder.events)
        events = _chosen(seen, layers, args)
        operands = Operands(seen, symbols)
        for layer, data in pages.items():
            own = [event for event in events if layer in (None, event.layer)]
            data.step(number, own, operands, {one.name: one for one in inspected.model.all_layers()})
    measured = args.index is None or args.html is not None or args.plot is not None
    rows = [measure(event) for event in events] if measured else []
    result, show = _result(inspected, events, rows, operands, args)
    written = _write(inspected, result, events, rows, operands, lines, pages, args)
    if args.json:
        print(json.dumps(result))
        return 0
    print(text.title(result))
    if args.layer is not None:
        show()
    for line in written:
        print(f"\nwritten: {line}")
    return 0


def _held(args: argparse.Namespace, layers: list[str], whole: bool) -> "dict[str | None, Data]":
    """What each page will hold: by layer in a folder, else of None."""
    from intnet.inspect.page.embed import Data

    names = [] if args.html is None else layers if whole else [None]
    return {name: Data(1024 * (args.embed or EMBED), args.steps or 1) for name in names}


def _logged(args: argparse.Namespace, inspected: "Run") -> list[dict[str, Any]]:
    """The lines of the run's log up to where it stands."""
    if args.folder is None:
        return []
    from intnet.runs import metrics, run_folder

    lines = metrics.read_metrics(Path(args.folder) / run_folder.METRICS)
    return [line for line in lines if line["step"] <= inspected.step]


def _chosen(events: "dict[str, Event]", layers: list[str], args: argparse.Namespace) -> "list[Event]":
    """The events of the layers and paths, layer by layer; ConfigError lists what there is."""
    seen = [event for name in layers for event in events.values() if event.layer == name]
    if not seen:
        others = dict.fromkeys(event.layer for event in events.values())
        raise ConfigError(f"{', '.join(layers)}: no data path; layers that have some: {', '.join(others)}")
    if args.path is None:
        return seen
    paths = source.matching([event.path for event in seen], args.path, f"path of {', '.join(layers)}")
    return [event for event in seen if event.path in paths]


def _result(
    inspected: "Run",
    events: "list[Event]",
    rows: "list[Measured]",
    operands: "Operands",
    args: argparse.Namespace,
) -> tuple[dict[str, Any], Callable[[], None]]:
    """(the JSON object, what prints it as text)."""
    from intnet.inspect import text

    result = source.facts(args, inspected, inspected.step)
    if args.index is not None:
        from intnet.inspect.explain import explain

        elements = [explain(event, args.index, operands) for event in events]
        result["elements"] = [element.to_dict() for element in elements]
        return result, lambda: text.elements(elements)
    symbols = [operands.symbol(event) for event in events]
    result["paths"] = [
        dataclasses.asdict(row) | {"part": symbol.part, "formula": operands.formula(event)}
        for event, symbol, row in zip(events, symbols, rows, strict=True)
    ]
    return result, lambda: text.show(list(zip(symbols, rows, strict=True)))


# -- files --------------------------------------------------------------------------------------


def _write(
    inspected: "Run",
    result: dict[str, Any],
    events: "list[Event]",
    rows: "list[Measured]",
    operands: "Operands",
    lines: list[dict[str, Any]],
    pages: "dict[str | None, Data]",
    args: argparse.Namespace,
) -> list[str]:
    """The files asked for; what to say of them."""
    if args.html is None and args.plot is None:
        return []
    from intnet.inspect import page, plot, text, width_log
    from intnet.inspect.page import glossary
    from intnet.inspect.page.sections import Given

    told = []
    if args.html is not None:
        links = glossary.beside(args.html if None in pages else args.html / page.INDEX, DOCS)
        log = width_log.read(lines)
        facts = result, inspected.method.changed(), events, rows, operands, args.index
        given = Given(*facts, inspected.model, log, links)
        one = result["page"] = _write_pages(given, pages, args.html)
        told.append(f"{one['file']}, {one['bytes']:,} bytes; {one['holds']}")
    options.write_picture(args.plot, partial(plot.draw, title=text.title(result), rows=rows))
    return told + ([] if args.plot is None else [str(args.plot)])


def _write_pages(given: "Given", pages: "dict[str | None, Data]", target: Path) -> dict[str, Any]:
    """One page, or a folder of them; what `--json` says of it."""
    from intnet.inspect import page
    from intnet.runs import files

    if None in pages:
        texts, held = {target: page.page(given, pages[None])}, pages[None].told()
    else:
        target.mkdir(exist_ok=True)
        texts = {target / name: html for name, html in page.folder(given, pages).items()}
        target, held = target / page.INDEX, f"with the {len(texts) - 1} pages of layers that it leads to"
    # a name of a file need not be text: what is none is shown as '\udcff'
    made = {file: html.encode(errors="backslashreplace") for file, html in texts.items()}
    for file, html in made.items():
        files.replace(file, html)
    size = sum(map(len, made.values()))
    return {"file": str(target), "bytes": size, "holds": held}
