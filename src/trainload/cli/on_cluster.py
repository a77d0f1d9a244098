"""The switches of the verbs that run on a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class On(StrEnum):
    ray = "ray"


OnOption = Annotated[
    On | None, typer.Option("--on", help="Run as tasks on Ray.", show_default="this machine, without Ray")
]
RayAddressOption = Annotated[
    str | None,
    typer.Option("--ray-address", metavar="ADDRESS", help="Of a cluster.", show_default="a Ray of this machine alone"),
]
