"""Names and messages on the terminal are text: no markup, no emoji, nothing that a terminal would act on."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from trainload.cli import app as command_line
from trainload.cli.terminal import Terminal, plain
from trainload.formats.printable import printable

CLI = Path(command_line.__file__).parent
ODD_NAMES = ["a[copy]", "x:car:y", "q[/b]", "[bold red]", "[/x]", "[link=http://e]z[/link]", "\\[b]"]


def _shown(*things: object) -> str:
    terminal = Terminal()
    terminal.file = io.StringIO()
    for thing in things:
        terminal.print(thing, soft_wrap=True)
    return terminal.file.getvalue()


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from trainload.cli.app import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_line_shows_a_name_as_it_is(name: str) -> None:
    assert _shown(name) == name + "\n"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_table_shows_a_name_as_it_is(name: str) -> None:
    table = Table(title=f"T {name}")
    table.add_column(f"C {name}")
    table.add_row(name)
    text = _shown(table)
    assert f"T {name}" in text and f"C {name}" in text and text.count(name) == 3


@pytest.mark.parametrize(
    "arguments", [("info",), ("verify",), ("align",), ("extract", "OUT")], ids=lambda arguments: str(arguments[0])
)
@pytest.mark.parametrize("name", ["[/x] a[copy]", ":car:[bold red]"])
def test_an_error_names_the_path_as_it_is(arguments: tuple[str, ...], name: str) -> None:
    verb, *others = arguments
    done = _run(verb, f"/nowhere/{name}.dts", *others)
    assert done.returncode in (2, 3) and "Traceback" not in done.stderr
    assert f"/nowhere/{name}.dts" in done.stderr


def test_what_a_terminal_would_act_on_is_spelt_out() -> None:
    assert plain("a\x1b[2Jb\x07\u202e\udc80") == "a\\x1b[2Jb\\x07\\u202e\\udc80"
    assert printable("good\nbad data: forged") == "good\\nbad data: forged"
    assert _shown("first\nsecond\x1b]0;t\x07") == "first\nsecond\\x1b]0;t\\x07\n"


@given(st.text())
def test_nothing_but_printable_characters_and_line_ends_is_shown(text: str) -> None:
    assert all(each.isprintable() or each == "\n" for each in plain(text))
    assert printable(text).isprintable()


def test_every_verb_prints_through_the_terminal() -> None:
    for path in CLI.glob("*.py"):
        if path.name != "terminal.py":
            text = path.read_text()
            assert "rich.console" not in text, path
            assert not re.search(r"typer\.echo\((?!json\.)", text), path
            assert not re.search(r'TextColumn\((?!"\{task\.description\}", markup=False)', text), path
