"""Fixtures that several test files use."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The project's shared folder with specs and real data; tests that ask for it skip where it is absent."""
    if not (SHARED / "spec").is_dir():
        pytest.skip("the shared folder with real data is not beside this checkout")
    return SHARED
