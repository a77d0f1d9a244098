"""Every broken rule of a format has a stable id: in the code once, in docs/errors.md once, in the error always."""

from __future__ import annotations

import ast
import pickle
import re
from collections import Counter
from pathlib import Path

import pytest

import trainload as tl
from trainload.formats import rules as shared
from trainload.formats.rules import Rule
from trainload.images.format import rules as images
from trainload.recordings.format import rules as recordings

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/trainload"
MODULES = (shared, images, recordings)
RULES = {
    f"{module.__name__}.{name}": rule
    for module in MODULES
    for name, rule in vars(module).items()
    if isinstance(rule, Rule)
}
KINDS = {"FormatError", "TruncatedError", "ChecksumError", "LimitError"}


def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def names_used() -> set[str]:
    """The rules that the package names, wherever they were imported from."""
    homes = {Path(str(module.__file__)) for module in MODULES}
    used = set()
    for path, tree in trees().items():
        known: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.add(f"{known.get(node.value.id)}.{node.attr}")
            elif isinstance(node, ast.Name) and path not in homes:
                used.add(known.get(node.id, ""))
    return used


def table() -> list[tuple[str, ...]]:
    """The rows of docs/errors.md: id, rule, class, section."""
    rows = re.findall(
        r"^\| `([a-z0-9_.]+)` \| (.+) \| `(\w+)` \| (.*) \|$", (ROOT / "docs/errors.md").read_text(), re.M
    )
    return [tuple(row) for row in rows]


def as_documented(sentence: str) -> str:
    return re.sub(r"\{\w+[^}]*\}", "N", sentence)


def test_no_id_has_two_rules() -> None:
    assert [name for name, count in Counter(rule.id for rule in RULES.values()).items() if count > 1] == []


def test_the_page_lists_the_rules_of_the_code() -> None:
    expected = {(rule.id, as_documented(rule.sentence), rule.error.__name__, rule.section) for rule in RULES.values()}
    assert set(table()) == expected
    assert len(table()) == len(expected)


def test_every_rule_is_broken_somewhere() -> None:
    assert sorted(set(RULES) - names_used()) == []


def test_a_format_error_is_made_by_a_rule_only() -> None:
    made = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS
    ]
    assert made == []


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_the_error_of_a_rule_carries_its_id_and_pickles(rule: Rule) -> None:
    parts = dict.fromkeys(re.findall(r"\{(\w+)", rule.sentence), 7)
    error = rule.broken(field="x", offset=1234, found=1, expected=2, path="a.dts", **parts)
    assert type(error) is rule.error and isinstance(error, tl.FormatError)
    assert str(error) == f"{error.rule} [{rule.id}] (x at byte 1,234: found 1, expected 2): a.dts"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and copy.__dict__ == error.__dict__
