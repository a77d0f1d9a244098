"""Every block of README and docs runs as it is printed, from top to bottom of its page, in a folder with its files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

for package, why in (
    ("rosbags", "reads bags"),
    ("mcap", "reads MCAP"),
    ("torch", "is named by the pages"),
    ("ray", "runs tasks"),
):
    pytest.importorskip(package, reason=f"{package}, which {why}, is not installed")

from docs_pages import PAGES, ROOT, WALKTHROUGH, blocks, module_of  # noqa: E402
from docs_world import given, make_world  # noqa: E402

ELSEWHERE = {
    WALKTHROUGH: "test_walkthrough.py runs it, on a recording of its own",
    "README.md:5": "make demo and make test: CI runs the one, test_demo.py the other",
}
LANGUAGES = {"sh", "python", "console", "text"}
FRESH = {
    "README.md": ["train.dts", "drive.hfr"],
    "docs/importing.md": ["drive.hfr"],
    "docs/recording.md": ["drive.hfr"],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("docs"))


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_language_it_is_in(page: str) -> None:
    assert {language for _, language, _ in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES)
def test_type_checkers_get_every_python_line_of_a_page_under_its_number(page: str) -> None:
    lines, module = (ROOT / page).read_text().splitlines(), module_of(page).splitlines()
    inside = [
        line - 1 + n
        for line, language, text in blocks(page)
        if language == "python"
        for n in range(1, text.count("\n") + 1)
    ]
    assert [module[n] for n in inside] == [lines[n] for n in inside]
    assert len("".join(module[1:])) == len("".join(lines[n] for n in inside))


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE and blocks(page)])
def test_the_blocks_of_a_page_run_as_printed(
    page: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    shutil.copytree(world, folder)
    for name in FRESH.get(page, []):
        (folder / name).unlink()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    names = given(page)
    for line, language, text in blocks(page):
        if f"{page}:{line}" in ELSEWHERE:
            continue
        if language == "sh":
            done = subprocess.run(["sh", "-ec", text], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{page}:{line}\n{done.stdout}{done.stderr}"
        elif language == "python":
            exec(compile("\n" * line + text, page, "exec"), names)
