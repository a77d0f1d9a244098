"""`trainload export`: a recording as MCAP or as a Rerun file."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.progress import progress_bar
from trainload.cli.terminal import Terminal
from trainload.errors import UsageError
from trainload.formats.printable import printable
from trainload.open_any import open as open_any
from trainload.recordings.exporters.mcap import export_mcap
from trainload.recordings.exporters.rerun import export_rerun
from trainload.recordings.reading.hyperframe import HyperframeReader


class ExportFormat(StrEnum):
    MCAP = "mcap"
    RERUN = "rerun"


@app.command()
def export(
    kind: Annotated[ExportFormat, typer.Argument(metavar="FORMAT", help="mcap or rerun; a folder: trainload extract.")],
    source: Annotated[str, typer.Argument(metavar="FILE", help="A recording, or a folder of its parts.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new file.")],
    compression: Annotated[str, typer.Option(help="Of MCAP chunks: none, lz4 or zstd.")] = "zstd",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON on stdout.")] = False,
) -> None:
    """Write a recording in another format; a log that was imported comes out message for message."""
    recording = open_any(source)
    if not isinstance(recording, HyperframeReader):
        raise UsageError(f"only recordings (.hfr) can be exported, not {source}")
    with recording, progress_bar("exporting") as progress:
        if kind is ExportFormat.MCAP:
            report = asdict(
                export_mcap(recording, out, compression=compression, overwrite=overwrite, progress=progress)
            )
        else:
            report = asdict(export_rerun(recording, out, overwrite=overwrite, progress=progress))
    if as_json:
        typer.echo(json.dumps(report))
    else:
        for name, value in report.items():
            Terminal().print(f"{name.replace('_', ' ')}: {printable(str(value))}", soft_wrap=True)
