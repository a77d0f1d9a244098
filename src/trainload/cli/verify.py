"""`trainload verify`: is every bit of a file or set what it was when it was written; exit code 1 where it is not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trainload.cli.app import app
from trainload.imaging.whole import decode_whole
from trainload.reading.findings import Report
from trainload.reading.verify import verify as verify_files
from trainload.reading.verify_dts import Progress as OnProgress

MAX_SHOWN = 50  # findings on a terminal; --json shows all


@app.command()
def verify(
    paths: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="A file, all volumes of a set, or a quoted pattern.")
    ],
    decode: Annotated[bool, typer.Option("--decode", help="Decode every picture too.")] = False,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 means one per core.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON on stdout.")] = False,
) -> None:
    """Check headers, CRCs, offsets and labels; say which block, sample, source and bytes are damaged."""
    with _progress_bar() as progress:
        report = verify_files(
            paths, decode=decode_whole, decode_all=decode, jobs=jobs or os.cpu_count() or 1, progress=progress
        )
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=1))
    else:
        _show(report)
    if not report.good:
        raise typer.Exit(1)


@contextmanager
def _progress_bar() -> Iterator[OnProgress | None]:
    """Called with (blocks done, blocks in all), on stderr; None where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TextColumn("blocks"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("verify", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(report: Report) -> None:
    console = Console(highlight=False, markup=False)
    for finding in report.findings[:MAX_SHOWN]:
        console.print(str(finding), soft_wrap=True)
    if len(report.findings) > MAX_SHOWN:
        console.print(f"... and {len(report.findings) - MAX_SHOWN:,} more: --json shows all")
    checked = ", ".join(
        f"{name.replace('_', ' ')} {value:,}" if isinstance(value, int) else f"{name.replace('_', ' ')} {value}"
        for name, value in report.checked.items()
    )
    verdict = "good" if report.good else f"DAMAGED, {len(report.findings):,} findings"
    console.print(f"{report.path}: {verdict} (checked: {checked})", soft_wrap=True)
