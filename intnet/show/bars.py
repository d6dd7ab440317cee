"""Bars of progress on stderr, silent where that is no terminal."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

FIRST = "first step: compiles what is new"  # the note of a task that has not begun


def bars(console: Console | None = None) -> Progress:
    """To enter with `with`; a task has `note`, which stands beside its bar."""
    console = Console(stderr=True) if console is None else console
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
