"""docs/errors.md quotes messages that the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = "[Errno 13]"  # the words of the system, not ours


def texts() -> str:
    """All constant parts of strings of the package and the core."""
    found = []
    for path in (ROOT / "src/trainload").rglob("*.py"):
        found += [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    core = "\n".join(path.read_text() for path in (ROOT / "cpp/core").glob("*.cpp"))
    return "\n".join([*found, re.sub(r'"\s*"', "", core)])


def quoted() -> list[str]:
    """The messages of the tables' last column."""
    rows = re.findall(r"^\| .+ \| (.+) \|$", (ROOT / "docs/errors.md").read_text(), re.M)
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row) if SYSTEM not in message]


@pytest.fixture(scope="module")
def code() -> str:
    return texts()


@pytest.mark.parametrize("message", [message for message in quoted() if " " in message])
def test_the_code_has_every_message_of_the_page(code: str, message: str) -> None:
    parts = [part.strip(" (),:'") for part in re.split(r"\b(?:[A-Z]{2,}|N|1\.5)\b(?!s)", message)]
    assert [part for part in parts if len(part) > 8 and part not in code] == []
