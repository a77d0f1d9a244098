"""`trainload align`: match the streams of a recording in time, show how well they fit, fail where they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.terminal import Terminal
from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.recordings.aligning.match import Method, parse_method
from trainload.recordings.aligning.pairs import align as align_streams
from trainload.recordings.reading.open import open_recording


@app.command()
def align(
    file: Annotated[str, typer.Argument(help="A recording (.hfr), or a folder of its parts.")],
    to: Annotated[str | None, typer.Option(help="The reference stream.")] = None,
    every: Annotated[str | None, typer.Option(help='A fixed clock instead of a stream: "100ms".')] = None,
    using: Annotated[
        list[str] | None,
        typer.Option(
            help="STREAM=METHOD[:BOUND], once per stream: nearest:20ms, previous:1s, interval:1ms (least overlap), "
            "interpolate:15ms (largest gap). Left out: every other stream by nearest."
        ),
    ] = None,
    allow_host: Annotated[
        bool, typer.Option("--allow-host", help="Let host and hardware clocks meet; every result is marked.")
    ] = False,
    fail_over: Annotated[
        str | None, typer.Option(help='Exit 1 where a residual is larger ("20ms") or too many times are unmatched.')
    ] = None,
    allow_unmatched: Annotated[
        int, typer.Option(min=0, help="Unmatched times per stream that --fail-over accepts.")
    ] = 0,
    png: Annotated[Path | None, typer.Option(help="Draw the report into this picture.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON on stdout.")] = False,
) -> None:
    """Align a recording in time and report residuals per stream."""
    limit_ns = None if fail_over is None else duration_ns(fail_over, what="--fail-over")
    methods = None if using is None else dict(_parse_using(text) for text in using)
    with open_recording(file) as recording:
        pairs = align_streams(recording, to=to, every=every, using=methods, allow_host=allow_host)
        report = pairs.report()
        if png is not None:
            report.save_png(png)
        if html is not None:
            report.save_html(html)
    complaints = [] if limit_ns is None else report.over(limit_ns, unmatched=allow_unmatched)
    if as_json:
        typer.echo(json.dumps({**report.facts(), "complaints": complaints}))
    else:
        Terminal().print(str(report), soft_wrap=True)
    console = Terminal(errors=True)
    for complaint in complaints:
        console.complain("over", complaint)
    if complaints:
        raise typer.Exit(1)


def _parse_using(text: str) -> tuple[str, Method]:
    name, equals, method = text.rpartition("=")
    if not equals or not name:
        raise UsageError(f"--using is STREAM=METHOD[:BOUND], not {text!r}")
    return name, parse_method(method)
