"""`trainload merge`: several recordings as one."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.progress import progress_bar
from trainload.cli.terminal import Terminal
from trainload.recordings.exporters.merge import merge_recordings
from trainload.recordings.reading.hyperframe import HyperframeReader


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new recording (.hfr).")],
    inputs: Annotated[list[Path], typer.Argument(metavar="IN...", help="Recordings, or folders of their parts.")],
    window: Annotated[
        str | None, typer.Option(help='Window length of OUT: "100ms". Left out: that of the first input.')
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON on stdout.")] = False,
) -> None:
    """Join recordings by time; streams of one name become one, and frames that inputs share are written once."""
    with ExitStack() as stack, progress_bar("merging") as progress:
        recordings = [stack.enter_context(HyperframeReader(path)) for path in inputs]
        summary = merge_recordings(recordings, out, window=window, overwrite=overwrite, progress=progress)
    if as_json:
        typer.echo(json.dumps(summary.to_dict()))
    else:
        Terminal().print(str(summary), soft_wrap=True)
