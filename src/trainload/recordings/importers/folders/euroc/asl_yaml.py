"""The calibration of an ASL sensor.yaml: keys, numbers, texts and lists of numbers, which is all that these files use.

A subset read by hand: the files begin with "%YAML:1.0", which YAML libraries refuse, and need no library.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from trainload.recordings.importers.source import Damage

_MAX_BYTES = 1 << 16
_KEY = re.compile(r"^(\s*)([A-Za-z_]\w*):\s*(.*)$")


def calibration_from_yaml(path: Path, damage: Damage) -> dict[str, Any]:
    """What sensor.yaml says, nested as there, and under "sensor.yaml" its text; {} where there is no such file.

    Lines that are no key count as damage.
    """
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    result: dict[str, Any] = {path.name: text}
    text = re.sub(r"\[([^\]]*)\]", lambda found: "[" + " ".join(found[1].split()) + "]", text)
    inner: dict[str, Any] | None = None
    for line in text.splitlines():
        line = line.split(" #")[0].rstrip()
        if not line or line.startswith(("%", "#", "---")):
            continue
        found = _KEY.match(line)
        if found is None:
            damage.add(f"{path}: not understood: {line!r}")
            continue
        indent, key, value = found.groups()
        target = inner if indent and inner is not None else result
        if value:
            target[key] = _value(value)
        else:
            inner = result[key] = {}
    return result


def _value(text: str) -> Any:
    if text.startswith("["):
        return [_value(part.strip()) for part in text.strip("[]").split(",") if part.strip()]
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if isinstance(value, int) or math.isfinite(value):  # JSON has no others
            return value
    return text.strip("\"'")
