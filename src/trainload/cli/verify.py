"""`trainload verify`: is every bit of a file or set what it was when it was written; exit code 1 where it is not."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.progress import progress_bar
from trainload.cli.terminal import Terminal
from trainload.codecs.picture import decode_whole
from trainload.formats.findings import Report
from trainload.machine.cpus import usable_cpus
from trainload.verify_any import verify as verify_files

MAX_SHOWN = 50  # findings on a terminal; --json shows all


@app.command()
def verify(
    paths: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, volumes of sets, recordings, quoted patterns.")
    ],
    decode: Annotated[bool, typer.Option("--decode", help="Decode every picture too.")] = False,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 means one per core.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON on stdout.")] = False,
) -> None:
    """Check headers, CRCs, offsets and labels; say which block, sample, source and bytes are damaged."""
    with progress_bar("verifying") as progress:
        report = verify_files(
            paths, decode=decode_whole, decode_all=decode, jobs=jobs or usable_cpus(), progress=progress
        )
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=1))
    else:
        for each in report.sets or [report]:
            _show(each)
    if not report.good:
        raise typer.Exit(1)


def _show(report: Report) -> None:
    console = Terminal()
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
