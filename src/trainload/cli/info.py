"""`trainload info`: what a file, a set or a folder says about itself, without reading its pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from trainload.cli.app import app
from trainload.cli.info_recording import show_recording
from trainload.cli.terminal import Terminal
from trainload.open_any import open as open_any
from trainload.recordings.reading.hyperframe import HyperframeReader

MAX_ITEMS = 8  # of a list, on a terminal; --json shows all


@app.command()
def info(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="A file, all volumes of a set, a quoted pattern, or a folder."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON on stdout.")] = False,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Add how many classes a batch holds under each kind of order.")
    ] = False,
    samples: Annotated[
        bool | None,
        typer.Option(
            "--samples/--no-samples",
            help="Read the packed streams of a recording, for the timing of their samples; by default small ones only.",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="The batches that --shuffle looks at.")] = 256,
) -> None:
    """Show all facts of a data set or recording."""
    with open_any(paths if len(paths) > 1 else paths[0]) as reader:
        facts = reader.facts(samples=samples) if isinstance(reader, HyperframeReader) else reader.facts()
        if shuffle:
            facts |= _shuffle_facts(reader, batch_size)
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    if "paths" in facts:
        facts["paths"] = [_as_seen_from_here(path) for path in facts["paths"]]
    if facts.get("kind") == "HFRM":
        show_recording(facts, Terminal())
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _to_text(value))
    Terminal().print(table, soft_wrap=True)


def _shuffle_facts(reader: object, batch_size: int) -> dict[str, Any]:
    """Per kind of order: classes per batch, what a uniform shuffle would give, and their ratio."""
    from trainload.images.loading.quality import quality_by_order

    return {
        f"shuffle_{kind}": {
            "classes_per_batch": round(quality.classes_per_batch, 2),
            "ideal": round(quality.ideal, 2),
            "ratio": round(quality.ratio, 4),
        }
        for kind, quality in quality_by_order(reader, batch_size).items()
    }


def _as_seen_from_here(path: str) -> str:
    """A reader's absolute path, relative where it lies below the working directory."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _to_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_to_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        shown = ", ".join(_to_text(item) for item in value[:MAX_ITEMS])
        return shown if len(value) <= MAX_ITEMS else f"{shown}, ... ({len(value):,})"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
