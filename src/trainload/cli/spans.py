"""What the verbs on recordings share: the options for a span of time and for streams."""

from __future__ import annotations

from typing import Annotated

import typer

from trainload.formats.durations import instant_ns
from trainload.recordings.reading.hyperframe import HyperframeReader

StreamOption = Annotated[list[str] | None, typer.Option("--stream", help="Only this stream; may be given again.")]
FromOption = Annotated[
    str | None, typer.Option("--from", help='First time: "10s" after the start, or absolute nanoseconds.')
]
ToOption = Annotated[
    str | None, typer.Option("--to", help='Time where it ends, not included: "20s" after the start, or nanoseconds.')
]


def span_ns(recording: HyperframeReader, start: str | None, end: str | None) -> tuple[int | None, int | None]:
    """The absolute times of --from and --to. Raises UsageError for text that is no time."""
    return _time_ns(recording, start, "--from"), _time_ns(recording, end, "--to")


def _time_ns(recording: HyperframeReader, text: str | None, what: str) -> int | None:
    return None if text is None else instant_ns(text, start_ns=recording.start_ns, what=what)
