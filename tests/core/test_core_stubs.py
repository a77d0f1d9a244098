"""The stubs of both extension modules say what nanobind says of its bindings: names, arguments, defaults, types."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import trainload
from core_testing import core_testing
from trainload import _core

CORE_STUB = Path(trainload.__file__).with_name("_core.pyi")
TESTING_STUB = Path(__file__).parents[1] / "helpers" / "_core_testing.pyi"
ARRAY = re.compile(r"(?:numpy\.)?ndarray\[(?:dtype=(\w+))?[^\[\]]*\]")

Signatures = dict[str, tuple[list[tuple[str, str, Any]], str]]  # name -> (argument, type, default), return type
REQUIRED = object()


def plain_type(annotation: ast.expr | None) -> str:
    """A type as text, spelled alike for both sides; whatever has bytes is an array of bytes for nanobind."""
    text = "Any" if annotation is None else ast.unparse(annotation)
    for prefix in ("trainload._core.", "collections.abc."):
        text = text.replace(prefix, "")
    return text.replace("Buffer", "NDArray[np.uint8]")


def signature(function: ast.FunctionDef, defaults: list[Any]) -> tuple[list[tuple[str, str, Any]], str]:
    arguments = function.args.args
    padded = [REQUIRED] * (len(arguments) - len(defaults)) + defaults
    named = [(argument.arg, plain_type(argument.annotation), value) for argument, value in zip(arguments, padded)]
    return named, plain_type(function.returns)


def stubbed(path: Path) -> Signatures:
    """Of every function, method and property that a stub has; properties as methods of the same name."""

    def members(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Any]]:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                defaults = [ast.literal_eval(value) for value in node.args.defaults]
                yield prefix + node.name, signature(node, defaults)
            elif isinstance(node, ast.ClassDef):
                yield prefix + node.name, ([], "class")
                yield from members(node.body, f"{node.name}.")

    return dict(members(ast.parse(path.read_text()).body, ""))


def of_binding(name: str, binding: Any) -> tuple[list[tuple[str, str, Any]], str]:
    ((text, _, values),) = binding.__nb_signature__
    text = ARRAY.sub(lambda found: f"NDArray[{'np.' + found[1] if found[1] else 'Any'}]", text)
    text = re.sub(r"\\\d+", "...", text.replace("def (", f"def {name}("))
    (function,) = ast.parse(text + ": ...").body
    assert isinstance(function, ast.FunctionDef)
    defaults = [tuple(value) if isinstance(value, list) else value for value in values or ()]
    return signature(function, defaults[len(defaults) - len(function.args.defaults) :])


def bound(module: ModuleType) -> Signatures:
    """The same of the extension module itself."""
    found: Signatures = {}
    for name, value in vars(module).items():
        if isinstance(value, type):
            found[name] = ([], "class")
            for member, method in vars(value).items():
                binding = method.fget if isinstance(method, property) else method
                if hasattr(binding, "__nb_signature__"):
                    found[f"{name}.{member}"] = of_binding(member, binding)
        elif hasattr(value, "__nb_signature__"):
            found[name] = of_binding(name, value)
    return found


@pytest.mark.parametrize("kind", ["core", "testing"])
def test_a_stub_says_what_the_bindings_are(kind: str) -> None:
    if kind == "testing":
        core_testing.kernel_names()  # skips where it is not built
    module, stub = (_core, CORE_STUB) if kind == "core" else (core_testing, TESTING_STUB)
    expected, said = bound(module), stubbed(stub)
    assert sorted(said) == sorted(expected)
    for name, found in expected.items():
        assert said[name] == found, name


def test_a_drift_in_a_name_an_order_a_default_or_a_type_shows(tmp_path: Path) -> None:
    text = CORE_STUB.read_text()
    for old, new in [
        ("element_size: int", "size: int"),
        ("seed: int,\n        epoch: int", "epoch: int,\n        seed: int"),
        ("EntryPointStore | None = None", "EntryPointStore | None"),
        ("counts: NDArray[np.uint32]", "counts: NDArray[np.int32]"),
        ("def count_up", "def count_down"),
        ("-> list[tuple[int, str]]", "-> list[str]"),
    ]:
        assert old in text
        drifted = tmp_path / "drifted.pyi"
        drifted.write_text(text.replace(old, new, 1))
        assert stubbed(drifted) != bound(_core), old
