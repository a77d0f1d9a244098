"""`trainload info`: what files, sets and folders say about themselves, without reading their pictures."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from trainload.cli.app import app
from trainload.cli.info_recording import show_recording
from trainload.cli.terminal import Terminal
from trainload.errors import FormatError, TrainloadError, UsageError
from trainload.images.reading.picture_crcs import PictureCrc, picture_crcs
from trainload.open_any import open as open_any
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.sets_any import find_all_sets

MAX_ITEMS = 8  # of a list, on a terminal; --json shows all


@app.command()
def info(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files, volumes of sets, quoted patterns, folders, folders of sets."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON on stdout.")] = False,
    crc: Annotated[
        bool, typer.Option("--crc", help="List id, block, label, size and CRC-32 of every picture; reads them all.")
    ] = False,
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
    """Show all facts of data sets and recordings."""
    sets = find_all_sets(paths)
    found: list[dict[str, Any]] = []
    code = 0
    for files in sets:
        try:
            if crc:
                _list_crcs(files, as_json)
                continue
            facts = _facts(files, batch_size if shuffle else None, samples)
        except (TrainloadError, OSError) as error:
            if len(sets) == 1:
                raise
            Terminal(errors=True).complain("bad data" if isinstance(error, FormatError) else "not shown", error)
            facts = {"paths": files, "error": str(error)}
            code = 1
        found.append(facts)
        if not as_json and "error" not in facts:
            _show(facts, first=len(found) == 1)
    if as_json and not crc:
        typer.echo(json.dumps(found[0] if len(sets) == 1 else {"sets": found}, indent=1))
    if code:
        raise typer.Exit(code)


def _facts(files: list[str], batch_size: int | None, samples: bool | None) -> dict[str, Any]:
    with open_any(files if len(files) > 1 else files[0]) as reader:
        if isinstance(reader, HyperframeReader):
            facts = reader.facts(samples=samples)
            facts["headers"] = [_header(file.header) for file in reader.files]
        else:
            facts = reader.facts()
        return facts if batch_size is None else facts | _shuffle_facts(reader, batch_size)


def _header(header: Any) -> dict[str, Any]:
    """The fields of a recording's header as JSON values."""
    fields = dataclasses.asdict(header)
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in fields.items()}


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


# ---- on a terminal --------------------------------------------------------------------------------------------------


def _show(facts: dict[str, Any], *, first: bool) -> None:
    console = Terminal()
    if not first:
        console.print()
    if "paths" in facts:
        facts["paths"] = [_as_seen_from_here(path) for path in facts["paths"]]
    headers = facts.pop("headers", [])
    if facts.get("kind") == "HFRM":
        show_recording(facts, console)
        for header in headers:
            console.print(f"header {_to_text(header)}", soft_wrap=True)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _to_text(value))
    for name, value in _common(headers):
        table.add_row(f"header {name}", value)
    console.print(table, soft_wrap=True)


def _common(headers: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each field of the headers of a set: one value, or that of each volume where they differ."""
    for name in headers[0] if headers else ():
        values = [header[name] for header in headers]
        yield name, _to_text(values[0] if values == values[:1] * len(values) else values)


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


# ---- --crc ----------------------------------------------------------------------------------------------------------


def _list_crcs(files: list[str], as_json: bool) -> None:
    """A line for each picture, written as it is read."""
    with open_any(files if len(files) > 1 else files[0]) as reader:
        if isinstance(reader, HyperframeReader):
            raise UsageError(f"a recording has no pictures to list: {files[0]}")
        shown = _as_seen_from_here(reader.path)
        if not as_json:
            Terminal().print(f"# id block label size crc: {shown}", soft_wrap=True)
        for each in picture_crcs(reader):
            sys.stdout.write(_json_line(each, shown) if as_json else _line(each))


def _line(each: PictureCrc) -> str:
    return f"{each.id} {'-' if each.block is None else each.block} {each.label} {each.size} {each.crc:08x}\n"


def _json_line(each: PictureCrc, path: str) -> str:
    return json.dumps(each._asdict() | {"crc": f"{each.crc:08x}", "path": path}) + "\n"
