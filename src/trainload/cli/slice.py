"""`trainload slice`: a stretch of a recording, or some of its streams, as a recording of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.progress import progress_bar
from trainload.cli.spans import FromOption, StreamOption, ToOption, span_ns
from trainload.cli.terminal import Terminal
from trainload.recordings.exporters.slice import slice_recording
from trainload.recordings.reading.hyperframe import HyperframeReader


@app.command("slice")
def slice_(
    src: Annotated[str, typer.Argument(metavar="IN", help="A recording (.hfr), or a folder of its parts.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new recording (.hfr).")],
    start: FromOption = None,
    end: ToOption = None,
    stream: StreamOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON on stdout.")] = False,
) -> None:
    """Copy a span of time and some streams into a new recording; stored bytes, numbers and times stay."""
    with HyperframeReader(src) as recording, progress_bar("slicing") as progress:
        start_ns, end_ns = span_ns(recording, start, end)
        summary = slice_recording(
            recording, out, start_ns=start_ns, end_ns=end_ns, streams=stream, overwrite=overwrite, progress=progress
        )
    if as_json:
        typer.echo(json.dumps(summary.to_dict()))
    else:
        Terminal().print(str(summary), soft_wrap=True)
