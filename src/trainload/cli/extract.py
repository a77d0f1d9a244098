"""`trainload extract`: a packed image set back into a folder of class folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from trainload.cli.app import app
from trainload.errors import UsageError
from trainload.exporters.folder import extract as extract_to
from trainload.reading.arrays import ArrayReader
from trainload.reading.dts import DtsReader
from trainload.reading.open import open as open_any


@app.command()
def extract(
    src: Annotated[str, typer.Argument(metavar="SRC", help="A DTS file, or a quoted pattern for all its volumes.")],
    out: Annotated[Path, typer.Argument(metavar="OUT_FOLDER", help="A new or empty folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON on stdout.")] = False,
) -> None:
    """Write every picture of a set into class folders; level 0 gives the source files' bytes again."""
    with open_any(src) as ds, _progress_bar() as progress:
        if not isinstance(ds, DtsReader | ArrayReader):
            raise UsageError(f"only DTS files can be extracted: {src}")
        result = extract_to(ds, out, progress=progress)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1))
        return
    console = Console(highlight=False, markup=False)
    console.print(f"{result.path}: {result.samples:,} samples, {result.bytes:,} bytes", soft_wrap=True)
    if result.renamed:
        console.print(f"{len(result.renamed):,} samples got numbers for names: theirs were unsafe or taken")


@contextmanager
def _progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """Called with (samples done, samples in all), on stderr; None where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("extracting", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
