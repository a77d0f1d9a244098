"""The `trainload` command: collects the verbs, turns errors into exit codes (0 good, 1 bad data, 2 usage, 3 system)."""

from __future__ import annotations

import sys
from importlib import import_module

import typer
from rich.console import Console

from trainload.errors import FormatError, SampleError, UsageError

# One module of this package each; it registers its command when it is imported.
VERBS: tuple[str, ...] = (
    "align",
    "demo",
    "export",
    "extract",
    "import_",
    "info",
    "merge",
    "pack_arrays",
    "record",
    "recover",
    "slice",
    "verify",
)

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.callback()
def root() -> None:
    """Pack training data once; feed training at the speed of the machine."""


def main() -> None:
    """Run the command line; a known error is one line on stderr and an exit code."""
    console = Console(stderr=True, highlight=False)
    for verb in VERBS:
        import_module(f"trainload.cli.{verb}")
    try:
        app()
    except (FormatError, SampleError) as error:
        console.print(f"[red]bad data:[/red] {error}", soft_wrap=True)
        sys.exit(1)
    except UsageError as error:
        console.print(f"[red]usage:[/red] {error}", soft_wrap=True)
        sys.exit(2)
    except OSError as error:
        console.print(f"[red]system:[/red] {error}", soft_wrap=True)
        sys.exit(3)
