"""`trainload copy`: sets and recordings from disk to bucket and back, checked on both sides."""

from __future__ import annotations

from typing import Annotated

import typer

from trainload.cli.app import app
from trainload.cli.progress import progress_bar
from trainload.cli.terminal import Terminal
from trainload.storage.copying import copy_files


@app.command()
def copy(
    sources: Annotated[
        list[str], typer.Argument(metavar="SRC...", help="Files, volumes, recordings, folders, URLs, quoted patterns.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="DST", help="A name, or for several files a folder, with a / at the end.")
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what has the name.")] = False,
) -> None:
    """Copy sets and recordings; after a kill, the same command goes on from there."""
    with progress_bar("copying", in_bytes=True) as progress:
        copied = copy_files(sources, target, overwrite=overwrite, progress=progress)
    console = Terminal()
    for one in copied:
        before = f", {one.resumed:,} of them by an earlier run" if one.resumed else ""
        console.print(f"{one.source} -> {one.target}: {one.size:,} bytes{before}", soft_wrap=True)
