"""What the verbs on recordings share: the options for a span of time and for streams, and the progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from trainload.formats.durations import duration_ns
from trainload.reading.hyperframe import HyperframeReader

StreamOption = Annotated[list[str] | None, typer.Option("--stream", help="Only this stream; may be given again.")]
FromOption = Annotated[
    str | None, typer.Option("--from", help='First time: "10s" after the start, or absolute nanoseconds.')
]
ToOption = Annotated[
    str | None, typer.Option("--to", help='Time where it ends, not included: "20s" after the start, or nanoseconds.')
]


def span_ns(drive: HyperframeReader, start: str | None, end: str | None) -> tuple[int | None, int | None]:
    """The absolute times of --from and --to. Raises UsageError for text that is no time."""
    return _time_ns(drive, start, "--from"), _time_ns(drive, end, "--to")


def _time_ns(drive: HyperframeReader, text: str | None, what: str) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    return drive.start_ns + duration_ns(text, what=what)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Called with (done, in all), on stderr; None where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
