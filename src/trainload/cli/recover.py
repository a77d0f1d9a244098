"""`trainload recover`: every whole window of an unfinished or damaged recording, into a new file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.progress import progress_bar
from trainload.cli.terminal import Terminal
from trainload.recordings.recovering.recover import Loss, RecoverReport
from trainload.recordings.recovering.recover import recover as recover_recording


@app.command()
def recover(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The recording; it is only read.")],
    target: Annotated[Path, typer.Argument(metavar="OUT.hfr", help="The new file.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT where it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON on stdout.")] = False,
) -> None:
    """Copy every whole window of IN to OUT, read OUT again to be sure, and say what is missing."""
    with progress_bar("recovering", in_bytes=True) as progress:
        report = recover_recording(source, target, overwrite=overwrite, progress=progress)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=1))
    else:
        _show(report)


def _show(report: RecoverReport) -> None:
    console = Terminal()
    ending = "it ended in order" if report.ended_in_order else "it was never finished"
    console.print(
        f"{report.target}: {report.frames:,} frames in {report.windows:,} windows, "
        f"{report.payload_bytes / 1e6:.1f} MB, read again and good; {ending}",
        soft_wrap=True,
    )
    for loss in report.losses:
        console.print(f"missing: {_line(loss)}", soft_wrap=True)
    if report.still_written:
        console.print(f"{report.source} is still being written: this is what it held just now", soft_wrap=True)
    if not report.losses:
        console.print("nothing between the first and the last window is missing", soft_wrap=True)


def _line(loss: Loss) -> str:
    start = "the start" if loss.from_ns is None else f"{loss.from_ns:,} ns"
    end = "the end" if loss.to_ns is None else f"{loss.to_ns:,} ns"
    frames = ", ".join(f"{count:,} of {name}" for name, count in loss.frames.items()) or "an unknown number"
    return f"{loss.size:,} bytes at {loss.offset:,}, from {start} to {end}, frames: {frames} ({loss.reason})"
