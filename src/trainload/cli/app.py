"""The `trainload` command: finds the verb, turns errors into exit codes (0 good, 1 bad data, 2 usage, 3 system)."""

from __future__ import annotations

import sys
from importlib import import_module

import typer

from trainload.cli.terminal import Terminal
from trainload.errors import RemoteError, TrainloadError, UsageError

# Each verb and its module in this package, which registers the command when it is imported.
VERBS: dict[str, str] = {
    "align": "align",
    "cache": "cache",
    "copy": "copy",
    "demo": "demo",
    "export": "export",
    "extract": "extract",
    "import": "import_",
    "info": "info",
    "merge": "merge",
    "pack": "pack_steps",  # brings pack.py and pack_arrays.py, whose verbs are beside its own
    "record": "record",
    "recover": "recover",
    "slice": "slice",
    "verify": "verify",
}
INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def root() -> None:
    """Pack training data once; feed training at the speed of the machine."""


def main() -> None:
    """Run the command line; a known error is one line on stderr and an exit code."""
    console = Terminal(errors=True)
    try:
        asked = VERBS.get(sys.argv[1]) if len(sys.argv) > 1 else None
        for module in [asked] if asked else VERBS.values():  # one verb alone starts faster
            import_module(f"trainload.cli.{module}")
        app()
    except UsageError as error:
        console.complain("usage", error)
        sys.exit(2)
    except RemoteError as error:
        console.complain("system", error)
        sys.exit(3)
    except TrainloadError as error:
        console.complain("bad data", error)
        sys.exit(1)
    except OSError as error:
        console.complain("system", error)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
