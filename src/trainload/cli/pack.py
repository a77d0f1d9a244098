"""`trainload pack`: the verbs that write DTS files."""

from __future__ import annotations

import typer

from trainload.cli.app import app

pack_app = typer.Typer(no_args_is_help=True, help="Write DTS files.")
app.add_typer(pack_app, name="pack")
