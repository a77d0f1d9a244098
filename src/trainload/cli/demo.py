"""`trainload demo`: pack a small set, run epochs from the folder and from each file, print a table, draw a chart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from trainload.cli.app import app
from trainload.demo.chart import draw_chart
from trainload.demo.images import Row, measure_images
from trainload.demo.pictures import make_pictures


@app.command()
def demo(
    data: Annotated[
        Path | None, typer.Option(help="Your own folder of class folders; left out: pictures are made.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where packed files, table and chart go.")] = Path("demo-out"),
    epochs: Annotated[int, typer.Option(min=1, help="Measured epochs of each form.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON on stdout.")] = False,
) -> None:
    """Show what packing brings, on pictures made on the spot or on your own folder."""
    console = Console(stderr=True, highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    with console.status("starting") as status:
        if data is None:
            data = out / "pictures"
            if not data.is_dir():
                status.update("making pictures")
                make_pictures(data)
        rows = measure_images(data, out, epochs=epochs, tell=status.update)
    chart = out / "demo.png"
    draw_chart(rows, chart)
    facts = {"data": str(data), "rows": [row.facts() for row in rows], "chart": str(chart)}
    (out / "demo.json").write_text(json.dumps(facts, indent=2) + "\n")
    if as_json:
        typer.echo(json.dumps(facts))
        return
    Console(highlight=False).print(_table(rows))
    console.print(f"chart: {chart}   a batch as training sees it: {out / 'batch.png'}")
    console.print(f"next: trainload pack images YOUR_FOLDER train.dts --level 3   (this run's files are in {out})")


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
