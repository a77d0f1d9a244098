"""JSON as the standard has it: Python's parser also takes NaN and Infinity, and makes infinity of 1e999."""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(text: str | bytes | bytearray) -> Any:
    """The value. Raises ValueError for what is no JSON, a number that no float holds, and nesting that is too deep."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("JSON nested too deep") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is larger than a float holds")
    return value
