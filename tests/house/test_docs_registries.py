"""The lists that the pages print are those of the code: verbs, importers, codecs, operations, encodings."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path

import pytest

import trainload as tl
from trainload.cli.app import VERBS, app
from trainload.codecs.table import CODECS, NONE
from trainload.images.ops import mixing, operations
from trainload.images.ops.split import _STAGES
from trainload.recordings.importers.formats import ALSO_CALLED, FORMATS
from trainload.recordings.importers.logs.messages.video_units import VIDEO_ENCODINGS
from trainload.recordings.reading.pictures import PICTURE_ENCODINGS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page(name: str) -> str:
    return (ROOT / name).read_text()


def first_column(name: str, heading: str) -> list[str]:
    """The names in the first column of the first table after `heading`."""
    rows = page(name).split(heading, 1)[1].split("\n|---", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [found for row in rows for found in re.findall(r"`(\w+)`", row.split("|")[1])]


def commands() -> list[tuple[str, ...]]:
    """Every `trainload VERB [NEXT]` that a page shows."""
    shown = re.compile(r"(?:^|`|\$ )trainload ([a-z]+)(?: ([a-z0-9]+)\b)?", re.M)
    return [command for path in PAGES for command in shown.findall(path.read_text())]


def operation_classes() -> list[str]:
    """The public operations of the package."""
    modules = (operations.__name__, mixing.__name__)
    return sorted(name for name in dir(tl) if getattr(getattr(tl, name), "__module__", "") in modules)


def kinds_of_the_core() -> set[str]:
    table = re.search(r"op_names\{(.*?)\};", page("cpp/core/op_spec.h"), re.S)
    assert table
    return set(re.findall(r'"(\w+)"', table[1]))


def test_the_verbs_of_the_pages_exist_and_every_verb_has_a_page() -> None:
    by_make = {"demo"} if "\nmake demo" in page("README.md") else set()
    assert {verb for verb, _ in commands()} | by_make == set(VERBS)


def test_the_words_behind_pack_and_import_and_export_exist() -> None:
    for module in VERBS.values():
        import_module(f"trainload.cli.{module}")
    [pack] = [group.typer_instance for group in app.registered_groups if group.name == "pack"]
    assert pack is not None
    kinds = {command.name or getattr(command.callback, "__name__", "") for command in pack.registered_commands}
    known = {"pack": kinds, "import": {*FORMATS, *ALSO_CALLED}, "export": {"mcap", "rerun"}}
    shown = {(verb, word) for verb, word in commands() if verb in known and word}
    assert [(verb, word) for verb, word in sorted(shown) if word not in known[verb]] == []


def test_the_table_of_importers_is_the_registry() -> None:
    assert first_column("docs/importing.md", "# ") == list(FORMATS)
    line = next(line for line in page("README.md").splitlines() if "trainload import" in line)
    assert set(re.findall(r"\w+", line.split(" or ")[1])) <= {*FORMATS, *ALSO_CALLED}


def test_the_codecs_of_the_page_are_the_registry() -> None:
    row = next(line for line in page("docs/recording.md").splitlines() if line.startswith("| codec |"))
    assert re.findall(r"`(\w+)`", row.split(", with a level")[0]) == [NONE, *(codec.name for codec in CODECS)]
    assert CODECS[0].name in page("docs/spec/hyperframe.md").lower()


def test_the_table_of_operations_is_what_the_package_has() -> None:
    assert sorted(set(first_column("docs/operations.md", "## 1."))) == operation_classes()


@pytest.mark.parametrize("name", operation_classes())
def test_an_operation_is_frozen_and_shows_its_numbers(name: str) -> None:
    kind = getattr(tl, name)
    assert kind.__dataclass_params__.frozen and kind.__dataclass_params__.repr
    assert all(field.repr for field in dataclasses.fields(kind))


def test_the_core_knows_the_kinds_that_the_operations_ask_for() -> None:
    asked = set(re.findall(r'return "(\w+)", \[', page("src/trainload/images/ops/operations.py")))
    assert asked - {"normalize"} == kinds_of_the_core()
    assert set(_STAGES) == kinds_of_the_core() - {"horizontal_flip", "vertical_flip"}


def test_the_encodings_that_the_spec_names_are_known() -> None:
    row = next(line for line in page("docs/spec/hyperframe.md").splitlines() if line.startswith("| `encoding` |"))
    named = re.findall(r"\w+", row.split("|")[2].split("...")[0])
    assert set(named) <= {"raw", "cdr", *PICTURE_ENCODINGS, *VIDEO_ENCODINGS}
