"""A value that a test knows to be there, for the type checker and for the reader."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """`value`. Raises AssertionError where it is None."""
    assert value is not None
    return value
