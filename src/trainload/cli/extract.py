"""`trainload extract`: a packed image set back into a folder of class folders, a recording into files per frame."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.progress import progress_bar
from trainload.cli.spans import FromOption, StreamOption, ToOption, span_ns
from trainload.cli.terminal import Terminal
from trainload.errors import UsageError
from trainload.formats.printable import printable
from trainload.images.extract import extract as extract_to
from trainload.images.reading.arrays import ArrayReader
from trainload.images.reading.dts import DtsReader
from trainload.open_any import open as open_any
from trainload.recordings.exporters.frame_files import extract_frames
from trainload.recordings.reading.hyperframe import HyperframeReader


@app.command()
def extract(
    src: Annotated[
        str, typer.Argument(metavar="SRC", help="A DTS file, a quoted pattern for all its volumes, or a recording.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT_FOLDER", help="A new or empty folder.")],
    start: FromOption = None,
    end: ToOption = None,
    stream: StreamOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON on stdout.")] = False,
) -> None:
    """Write every picture of a set into class folders, or every frame of a recording into a folder per stream.

    Level 0 gives the source files' bytes again. --from, --to and --stream are for recordings.
    """
    with open_any(src) as ds, progress_bar("extracting") as progress:
        if isinstance(ds, HyperframeReader):
            start_ns, end_ns = span_ns(ds, start, end)
            frames = extract_frames(ds, out, start_ns=start_ns, end_ns=end_ns, streams=stream, progress=progress)
            if as_json:
                typer.echo(json.dumps(asdict(frames), indent=1))
            else:
                Terminal().print(str(frames), soft_wrap=True)
            return
        if not isinstance(ds, DtsReader | ArrayReader):
            raise UsageError(f"only DTS files and recordings can be extracted: {src}")
        if start or end or stream:
            raise UsageError("--from, --to and --stream are for recordings")
        result = extract_to(ds, out, progress=progress)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1))
        return
    console = Terminal()
    console.print(f"{result.path}: {result.samples:,} samples, {result.bytes:,} bytes", soft_wrap=True)
    for name, folder in result.renamed_classes.items():
        console.print(f"class {printable(name)} is the folder {printable(folder)}", soft_wrap=True)
    if result.renamed:
        console.print(
            f"{len(result.renamed):,} samples got numbers for names: theirs were unsafe, taken or of another class"
        )
