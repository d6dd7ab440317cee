"""`intnet papers`: what the papers claim and can be computed here, our numbers beside the published ones."""

import argparse
import dataclasses
import json
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intnet.cli import options
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.papers.checks.check import Check, Result, Task

SUMMARY = "check what the papers claim: widths, data ratios, sensitivities and cost tables"
EXAMPLE = """\
  intnet papers
  intnet papers muppet-costs
  intnet papers wageubn-data-ratio --limit 2000 --plot ratio.png
  intnet papers wageubn-single-path --seeds 1,2,3 --out runs/single-path

Without a name it lists every table and figure of the papers, with what became of it here, and the checks. A
check prints our numbers beside the published ones, of which the table, figure or section is named, and says
what cannot be recomputed because its inputs are not published. Those that train take --model, --data,
--limit, --tests and --epochs in place of their own; those that train many runs also take --seeds, and --out
keeps each run's result there: the same command goes on where it was stopped.

Exit status 1: something that is exact, a constraint or a printed figure of known inputs, does not hold. What
short trainings come to is told and not judged. The output is the same for any number of threads."""

WRAP = 110  # characters of a line of text
LONG = 60  # characters of a command that stands below its table
SIZES = ("model", "data", "limit", "epochs", "seeds", "tests")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The check, its sizes, where it is kept and drawn."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a check; none: list them")
    options.add(parser, "--model", help="the network to train")
    options.add(parser, "--data", help="the data set to train on")
    options.add(parser, "--limit")
    parser.add_argument("--epochs", type=options.positive, metavar="E", help="epochs of every run")
    options.add(parser, "--seeds", default=None, help="seeds of every run")
    parser.add_argument("--tests", type=options.positive, metavar="N", help="the first N test images (2000)")
    options.add(parser, "--data-dir")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep results of runs, to go on with")
    options.add(parser, "--plot", help="draw the figure: .png, .svg, .pdf")


def run(args: argparse.Namespace) -> int:
    """List the checks or run one."""
    from intnet.errors import unknown
    from intnet.papers.checks import CHECKS

    if args.name is None:
        options.refuse(
            args, (*SIZES, "data_dir", "out", "plot"), "of which check? `intnet papers` lists them"
        )
        return _list(CHECKS, args.json)
    if args.name not in CHECKS:
        raise unknown("check", args.name, list(CHECKS))
    check = CHECKS[args.name]
    task = _task(args, check)
    result = _run(check, task)
    draw = None if check.draw is None else partial(check.draw, source=check.source, result=result)
    options.write_picture(args.plot, draw)
    if args.json:
        print(json.dumps(_machine(args.name, check, result)))
    else:
        _show(check, result, args.plot)
    return 1 if result.holds is False else 0


def _list(checks: "dict[str, Check]", as_json: bool) -> int:
    from intnet.papers.places import PAPERS, Place
    from intnet.show import tables
    from intnet.show.tables import Column, Table

    if as_json:
        found = {
            name: {
                "about": check.about,
                "source": check.source,
                "time": check.time,
                "sizes": None if check.sizes is None else dataclasses.asdict(check.sizes),
            }
            for name, check in checks.items()
        }
        papers = {name: [place._asdict() for place in places] for name, places in PAPERS.items()}
        print(json.dumps({"checks": found, "papers": papers}))
        return 0
    for paper, places in PAPERS.items():
        columns = [Column(name) for name in Place._fields]
        long = [place for place in places if len(place.command) > LONG]
        told = [place._replace(command="below") if place in long else place for place in places]
        tables.show(Table(paper, columns, [tuple(place) for place in told]))
        for place in long:
            print(f"{place.where}, {place.shows}:\n  {place.command}")
    width = max(map(len, checks))
    print("\nchecks")
    for name, check in checks.items():
        print(f"{name:{width}}  {check.about} ({check.time})")
    return 0


def _task(args: argparse.Namespace, check: "Check") -> "Task":
    """ConfigError for an argument that the check cannot take."""
    from intnet.papers.checks.check import Task

    given = {name: getattr(args, name) for name in SIZES if getattr(args, name) is not None}
    given = {name: tuple(value) if name == "seeds" else value for name, value in given.items()}
    if check.sizes is None and (given or args.data_dir is not None):
        names = [*given, *(["data-dir"] if args.data_dir is not None else [])]
        raise ConfigError(f"{', '.join(f'--{name}' for name in names)}: {args.name} trains nothing")
    if not check.many_runs:
        if len(given.get("seeds", (1,))) > 1:
            raise ConfigError(f"--seeds: {args.name} trains with one seed, give one")
        if args.tests is not None:
            raise ConfigError(f"--tests: {args.name} tells no accuracy, and so has no test images")
        if args.out is not None:
            raise ConfigError(f"--out: {args.name} keeps nothing; it is for checks that train many runs")
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise ConfigError(f"--out {args.out} is a file: name a folder")
    if args.plot is not None:
        if check.draw is None:
            from intnet.papers.checks import CHECKS

            drawn = [name for name, one in CHECKS.items() if one.draw is not None]
            raise ConfigError(f"--plot: {args.name} has no figure; {', '.join(drawn)} have one")
        options.check_picture(args.plot)
    sizes = None if check.sizes is None else dataclasses.replace(check.sizes, **given)
    return Task(sizes, args.data_dir, args.out)


def _run(check: "Check", task: "Task") -> "Result":
    """Run it, under a bar where stderr is a terminal and something is trained."""
    if check.sizes is None:
        return check.run(task)
    from intnet.show.bars import FIRST, bar

    with bar("training", note=FIRST) as move:

        def tell(what: str, done: int, total: int) -> None:
            move(description=what, completed=done, total=total, note="")

        return check.run(dataclasses.replace(task, progress=tell))


def _machine(name: str, check: "Check", result: "Result") -> dict[str, Any]:
    return {
        "check": name,
        "source": check.source,
        "setting": result.setting,
        "holds": result.holds,
        "tables": [{"title": table.title, "rows": table.records()} for table in result.tables],
        "remarks": list(result.remarks),
    }


def _show(check: "Check", result: "Result", plot: Path | None) -> None:
    from intnet.show import tables

    for line in (check.source, result.setting):
        print(textwrap.fill(line, WRAP))
    for table in result.tables:
        tables.show(table)
    print()
    for remark in result.remarks:
        print(textwrap.fill(remark, WRAP, initial_indent="- ", subsequent_indent="  "))
    if result.holds is not None:
        print(f"what is exact: {'holds' if result.holds else 'DOES NOT HOLD'}")
    if plot is not None:
        print(f"written: {plot}")
