"""The blocks of README and docs; as a program, the Python blocks as modules for type checkers.

usage: python tests/helpers/docs_pages.py FOLDER    writes FOLDER/page_NAME.py, whose lines are numbered as the page's
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
WALKTHROUGH = "docs/walkthrough.md"  # test_walkthrough.py runs it; its Python is examples/train_recording.py


def blocks(page: str) -> list[tuple[int, str, str]]:
    """(line, language, text) of every block."""
    text = (ROOT / page).read_text()
    found = re.finditer(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
    return [(text[: each.start()].count("\n") + 1, each[1], each[2]) for each in found]


def module_of(page: str) -> str:
    """The Python blocks of a page, each on its own lines, behind what the page takes as given; "" without any."""
    from docs_world import given

    parts = [(line, text) for line, language, text in blocks(page) if language == "python"]
    if not parts:
        return ""
    declared = [f"{name} = cast({type(value).__name__}, None)" for name, value in given(page).items() if name != "tl"]
    lines = ["from typing import cast; from numpy import ndarray; import trainload as tl; " + "; ".join(declared)]
    for line, text in parts:
        lines += [""] * (line - len(lines)) + text.splitlines()
    return "\n".join(lines) + "\n"


def write_modules(folder: Path) -> None:
    """One module per page with Python blocks, in place of what `folder` held."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for page in PAGES:
        if page != WALKTHROUGH and (text := module_of(page)):
            (folder / f"page_{Path(page).stem}.py").write_text(text)


if __name__ == "__main__":
    write_modules(Path(sys.argv[1]))
