"""The public names: one list, lazy when imported, typed for editors, shown by help."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from types import UnionType

import pytest

import trainload as tl

FOLDER = Path(tl.__file__).parent
PUBLIC: list[str] = vars(tl)["__all__"]
HOMES: dict[str, str] = vars(tl)["_HOMES"]
NAMES = sorted({*PUBLIC} - {"__version__"})


def test_every_line_of_the_stub_is_a_public_name() -> None:
    lines = [line for line in (FOLDER / "__init__.pyi").read_text().splitlines() if line.startswith("from ")]
    assert [line.rpartition(" as ")[2] for line in lines] == list(HOMES) == PUBLIC[:-1]
    assert len(set(PUBLIC)) == len(PUBLIC)
    assert dir(tl) == sorted(PUBLIC)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_what_its_home_has_and_says_what_it_is(name: str) -> None:
    """A union, such as `Operation`, has neither home nor text of its own."""
    value = getattr(tl, name)
    assert value is getattr(import_module(HOMES[name]), name)
    assert isinstance(value, UnionType) or (value.__module__ == HOMES[name] and value.__doc__)


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'imageloader'"):
        _ = tl.imageloader  # type: ignore[attr-defined]


def test_no_module_takes_the_place_of_a_public_name() -> None:
    modules = {path.stem for path in FOLDER.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(PUBLIC)


def test_the_first_page_of_help_names_every_public_name() -> None:
    assert set(re.findall(r"\w+", tl.__doc__ or "")) >= set(NAMES)


def test_help_shows_every_public_name_with_the_first_line_of_its_docstring() -> None:
    text = pydoc.plain(pydoc.render_doc(tl))
    for name in NAMES:
        value = getattr(tl, name)
        assert isinstance(value, UnionType) or (getdoc(value) or name).splitlines()[0] in text, name


def test_importing_the_package_brings_numpy_and_the_core_and_no_other_part_of_it() -> None:
    code = "import numpy, sys; before = set(sys.modules); import trainload; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    brought = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert brought == {"trainload", "trainload._core", "trainload.errors"}


def test_what_type_checkers_read_lies_in_the_package() -> None:
    assert {path.name for path in FOLDER.glob("*.pyi")} == {"__init__.pyi", "_core.pyi"}
    assert (FOLDER / "py.typed").is_file()
