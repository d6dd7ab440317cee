"""Bars of progress on stderr, silent where that is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

FIRST = "first step: compiles what is new"  # the note of a task that has not begun


def bars() -> Progress:
    """To enter with `with`; a task has `note`, which stands beside its bar."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def say(bars: Progress, text: str) -> None:
    """A line on stdout, above the bars where both are on a terminal."""
    if not bars.disable and sys.stdout.isatty():
        bars.console.print(text, highlight=False, markup=False, soft_wrap=True)
    else:
        print(text, flush=True)


@contextmanager
def bar(what: str, total: int | None = None, done: int = 0, note: str = "") -> Iterator[Callable[..., None]]:
    """One bar: what it gives moves it, by `completed`, `advance`, `total`, `description` and `note`."""
    with bars() as shown:
        task = shown.add_task(what, total=total, completed=done, note=note)
        yield lambda **changes: shown.update(task, **changes)
