"""CONTRIBUTING's examples are followed: files written, lines changed, in a copy of the package, and the result used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainload import _core

ROOT = Path(__file__).resolve().parents[2]
# An editable install finds this checkout before PYTHONPATH's copy.
NO_EDITABLE_INSTALL = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
"""
FOLDER_OF = """
def folder_of(pixels):
    from pathlib import Path
    from PIL import Image
    Path("set/a").mkdir(parents=True)
    for n, picture in enumerate(pixels):
        Image.fromarray(picture).save(f"set/a/{n}.png")
    return "set"
"""


def examples() -> dict[str, list[tuple[str, str]]]:
    """The blocks (language, text) below each heading that has some."""
    sections = re.split(r"^### (.+)$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M)
    pairs = zip(sections[1::2], sections[2::2])
    return {name: re.findall(r"^```(python|diff)\n(.*?)^```", text, re.M | re.S) for name, text in pairs}


def apply(diff: str, root: Path) -> None:
    """Each run of -lines stands in its file once, and becomes the +lines behind it."""
    for part in re.split(r"^# (?=src/)", diff, flags=re.M)[1:]:
        name, _, changes = part.partition("\n")
        text = (root / name).read_text()
        for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", changes, re.M):
            before, after = (re.sub(r"^[-+]", "", lines, flags=re.M) for lines in (old, new))
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        (root / name).write_text(text)


@pytest.mark.parametrize("name", ["An operation", "A codec", "An importer", "A kind of column"])
def test_an_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_core.__file__, tmp_path / "src/trainload")
    script = FOLDER_OF
    for language, text in examples()[name]:
        head = text.partition("\n")[0]
        if language == "diff":
            apply(text, tmp_path)
        elif head.startswith("# src/"):
            assert len(text.splitlines()) <= 14
            (tmp_path / head.removeprefix("# ")).write_text(text)
        else:
            script += text
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    check = (
        f"{NO_EDITABLE_INSTALL}{script}\nimport trainload\nassert trainload.__file__.startswith({str(tmp_path)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_example_is_followed() -> None:
    assert list(examples()) == ["An operation", "A codec", "An importer", "A kind of column"]
