"""The progress bar of the verbs: on stderr, and only where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from trainload.cli.terminal import Terminal


@contextmanager
def progress_bar(what: str, *, in_bytes: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """Called with (done, in all), in_bytes: of bytes; None where stderr is no terminal."""
    console = Terminal(errors=True)
    if not console.is_terminal:
        yield None
        return
    columns: tuple[ProgressColumn, ...] = Progress.get_default_columns()
    if in_bytes:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
