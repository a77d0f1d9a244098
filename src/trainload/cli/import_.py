"""`trainload import`: a foreign recording becomes ours; says the window, the clocks and what could not be read."""

from __future__ import annotations

import json
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from trainload.cli.app import app
from trainload.cli.on_cluster import On, OnOption, RayAddressOption
from trainload.cli.progress import progress_bar
from trainload.cli.terminal import Terminal
from trainload.errors import UsageError
from trainload.recordings.importers.formats import FORMATS
from trainload.recordings.importers.import_any import import_recording
from trainload.recordings.importers.import_many import import_recordings
from trainload.recordings.importers.import_source import ImportReport


@app.command("import")
def import_(
    kind: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help=f"One of: {', '.join(FORMATS)}; or rosbag, comma."),
    ],
    source: Annotated[
        Path, typer.Argument(metavar="SRC", help="The file or folder to read; a pattern in quotes for many.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT.hfr", help="The new recording; for many, a folder.")],
    window: Annotated[
        str, typer.Option(help='"auto": 1 to 2 periods of the slowest stream; or a length, "100ms".')
    ] = "auto",
    codec: Annotated[
        str, typer.Option(help="none, lz4, lz4hc or zstd, for streams that are not compressed yet.")
    ] = "none",
    clock: Annotated[
        list[str] | None,
        typer.Option(help="STREAM=hardware or STREAM=host: what stamped it, if you know better (logs)."),
    ] = None,
    times: Annotated[
        str | None, typer.Option(help='"stamp": acquisition times; "log": when the log got each message (logs).')
    ] = None,
    log: Annotated[str | None, typer.Option(help="Which log of a nuScenes folder.")] = None,
    unit: Annotated[str | None, typer.Option(help="Of the times of a folder: ns, us, ms or s.")] = None,
    stamped_by: Annotated[str | None, typer.Option(help="hardware or host, for a folder.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.hfr.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted import stopped.")] = False,
    on: OnOption = None,
    ray_address: RayAddressOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON on stdout.")] = False,
) -> None:
    """Import MCAP, ROS bags and data-set folders without loss; exit 1 where something could not be read.

    A pattern imports every log that it finds, each to a recording in the folder OUT.
    """
    options: dict[str, Any] = {
        "format": kind,
        "window": window,
        "codec": codec,
        "clocks": dict(_pair(text) for text in clock) if clock else None,
        "times": times,
        "log": log,
        "unit": unit,
        "stamped_by": stamped_by,
        "overwrite": overwrite,
        "resume": resume,
    }
    if has_magic(str(source)) and not source.exists():
        _import_many(source, out, on, ray_address, options, as_json=as_json)
        return
    if on or ray_address:
        raise UsageError(f"one log is one task: --on is for a pattern that finds many, in quotes, not for {source}")
    with progress_bar("importing") as progress:
        report = import_recording(source, out, progress=progress, **options)
    if as_json:
        typer.echo(json.dumps(report.facts()))
    else:
        _show(report)
    if report.damage:
        raise typer.Exit(1)


def _import_many(
    pattern: Path, out: Path, on: On | None, address: str | None, options: dict[str, Any], *, as_json: bool
) -> None:
    with progress_bar("importing", in_bytes=True) as progress:
        found = import_recordings(
            pattern, out, on=None if on is None else "ray", ray_address=address, progress=progress, **options
        )
    if as_json:
        typer.echo(json.dumps(found.facts()))
    else:
        console = Terminal()
        for source, report in found.reports.items():
            summary = report.summary
            unread = f"; could not be read: {report.damage.frames:,} frames for certain" if report.damage else ""
            console.print(f"{summary.path}: {summary.frames:,} frames of {source}{unread}", soft_wrap=True)
        for source in found.kept:
            console.print(f"{source}: was imported before", soft_wrap=True)
        for source, reason in found.failures.items():
            console.print(f"{source}: not imported: {reason}", style="red", soft_wrap=True)
    if not found.good:
        raise typer.Exit(1)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise UsageError(f"--clock is STREAM=hardware or STREAM=host, not {text!r}")
    return name, value


def _show(report: ImportReport) -> None:
    console, summary = Terminal(), report.summary
    table = Table(title=f"{summary.path}: {summary.frames:,} frames in {summary.windows:,} windows")
    for column in ("stream", "frames", "clock", "time from", "received"):
        table.add_column(column)
    for name, facts in report.streams.items():
        table.add_row(
            name, f"{facts['frames']:,}", facts["clock"], facts["time_source"], facts["receive_source"] or "-"
        )
    console.print(table)
    for line in (report.window.reason, *report.notes, *summary.warnings):
        console.print(line, soft_wrap=True)
    late = sum(summary.late.values())
    if late:
        console.print(
            f"{late:,} frames came later than a window after newer ones; they are in the next window", soft_wrap=True
        )
    if report.damage:
        damage = report.damage
        console.print(f"could not be read: {damage.frames:,} frames for certain, {damage.bytes:,} bytes", style="red")
        for reason in damage.reasons:
            console.print(f"  {reason}", soft_wrap=True)
