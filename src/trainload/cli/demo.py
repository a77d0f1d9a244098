"""`trainload demo`: packed pictures against the folder they came from; with --sensors, a drive from rig to training."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from trainload.cli.app import app
from trainload.cli.terminal import Terminal
from trainload.demo.chart import draw_chart
from trainload.demo.images import Row, measure_images
from trainload.demo.pictures import make_pictures
from trainload.recordings.reading.hyperframe import HyperframeReader


@app.command()
def demo(
    data: Annotated[
        Path | None, typer.Option(help="Your own folder of class folders; left out: pictures are made.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where packed files, table and chart go.")] = Path("demo-out"),
    epochs: Annotated[int, typer.Option(min=1, help="Measured epochs of each form.")] = 2,
    sensors: Annotated[bool, typer.Option("--sensors", help="The other demo: record, align, train.")] = False,
    seconds: Annotated[float, typer.Option(min=1, help="With --sensors: how long the simulated drive is.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON on stdout.")] = False,
) -> None:
    """Show what packing brings, on pictures made on the spot or on your own folder."""
    out.mkdir(parents=True, exist_ok=True)
    console = Terminal(errors=True)
    with console.status("starting") as status:
        show, facts = _sensors(out, seconds, status.update) if sensors else _pictures(data, out, epochs, status.update)
    (out / ("sensors.json" if sensors else "demo.json")).write_text(json.dumps(facts, indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        show(Terminal())


Shown = tuple[Callable[[Terminal], None], dict[str, Any]]


def _pictures(data: Path | None, out: Path, epochs: int, tell: Callable[[str], None]) -> Shown:
    if data is None:
        data = out / "pictures"
        if not data.is_dir():
            tell("making pictures")
            make_pictures(data)
    rows = measure_images(data, out, epochs=epochs, tell=tell)
    chart = out / "demo.png"
    draw_chart(rows, chart)

    def show(console: Terminal) -> None:
        console.print(_table(rows))
        console.print(f"chart: {chart}\na batch as training sees it: {out / 'batch.png'}", soft_wrap=True)
        console.print("next: trainload pack images YOUR_FOLDER train.dts --level 3", soft_wrap=True)

    return show, {"data": str(data), "rows": [row.facts() for row in rows], "chart": str(chart)}


def _sensors(out: Path, seconds: float, tell: Callable[[str], None]) -> Shown:
    from trainload.demo import sensors as drive_demo

    path, png, html = out / "drive.hfr", out / "alignment.png", out / "alignment.html"
    tell(f"recording {seconds:g} s of a simulated rig")
    drive_demo.record_drive(path, seconds=seconds)
    with HyperframeReader(path) as drive:
        tell("aligning")
        pairs = drive_demo.align_drive(drive)
        report = pairs.report()
        report.save_png(png)
        report.save_html(html)
        training = drive_demo.train(pairs, tell=tell)

    def show(console: Terminal) -> None:
        console.print(str(report), soft_wrap=True)
        console.print(
            f"\none epoch of a small fusion model (camera + lidar + IMU), {training.samples:,} samples:\n"
            f"  off by {training.first_error:.1f} degrees at first, {training.last_error:.1f} at the end "
            f"(without looking: {training.still:.1f})\n",
            soft_wrap=True,
        )
        console.print(f"recording: {path}\nplots: {png}\nreport: {html}", soft_wrap=True)
        console.print(f"next: trainload info {path}\n      trainload import mcap YOUR.mcap drive.hfr", soft_wrap=True)

    return show, {"recording": str(path), "alignment": report.facts(), "training": asdict(training)}


def _table(rows: list[Row]) -> Table:
    table = Table(title=f"RandomResizedCrop(224) + flip, uint8, {rows[0].pictures:,} pictures each")
    table.add_column("read from")
    for title in ("pictures/s", "against Pillow", "CPU ms per picture", "on disk"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.pictures_per_s:,.0f}",
            f"{row.pictures_per_s / rows[0].pictures_per_s:.2f} x",
            f"{row.cpu_ms_per_picture:.2f}",
            f"{row.bytes_on_disk / 1e6:,.1f} MB",
        )
    return table
