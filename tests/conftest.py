"""What every test finds: Ctrl-C as a program in the foreground has it, and the shared folder where it is at hand."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background; what tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The project's shared folder with specs and real data; tests that ask for it skip where it is absent."""
    if not (SHARED / "spec").is_dir():
        pytest.skip("the shared folder with real data is not beside this checkout")
    return SHARED
