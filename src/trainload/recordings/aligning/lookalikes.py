"""Fields that are combined on a line, though their numbers look like an orientation's or an angle's.

By the numbers, not by names: this only warns. A declaration (Recorder.add_stream(fields=...), Interpolate(fields=...))
of any rule, "linear" too, ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.format.field_rules import WHOLE, FieldRules

_FEW = 3  # samples; below it numbers say nothing
_UNIT = 1e-3  # how far from 1 the length of a unit quaternion may be
_ENOUGH = 0.9  # share of a turn that a jump across the wrap makes at least
_WAY_OUT = "if they are, say so: tl.Interpolate(fields={{{key}: {rule!r}}}), or declare it in add_stream(fields=...)"


def lookalikes(values: NDArray[Any], rules: FieldRules, declared: FieldRules) -> Iterator[str]:
    """A sentence for each field, or four, that nobody declared and that is combined on a line by default."""
    if len(values) < _FEW:
        return
    parts = {WHOLE: values} if values.dtype.names is None else {name: values[name] for name in values.dtype.names}
    plain = [name for name in parts if rules.get(name) == "linear" and name not in declared]
    columns = {name: parts[name] for name in plain if parts[name].dtype.kind == "f"}
    flat = [name for name, column in columns.items() if column.ndim == 1]
    order = list(parts)
    wide = [(name,) for name, column in columns.items() if column.shape[1:] == (4,)]
    four = [tuple(order[k : k + 4]) for k in range(len(order) - 3)]
    for names in [*wide, *(some for some in four if set(some) <= set(flat))]:
        group = columns[names[0]] if len(names) == 1 else np.stack([columns[name] for name in names], axis=-1)
        if _is_quaternion(group):
            key = repr(names[0] if len(names) == 1 else names)
            out = _WAY_OUT.format(key=key, rule="quaternion_xyzw")
            yield f"{', '.join(names)} are unit quaternions by their length, and are combined number by number; {out}"
    for name in flat:
        for rule, turn in (("angle", 2 * np.pi), ("angle_degrees", 360.0)):
            if _wraps(columns[name], turn):
                out = _WAY_OUT.format(key=repr(name), rule=rule)
                yield f"{name} jumps by whole turns as an angle does, and is combined on a straight line; {out}"


def _is_quaternion(group: NDArray[Any]) -> bool:
    with np.errstate(all="ignore"):
        length = np.linalg.norm(group.astype(np.float64), axis=1)
        known = length[np.isfinite(length) & (length > 0)]
        moving = bool((group.max(axis=0) != group.min(axis=0)).sum() > 1)
        return moving and len(known) >= _FEW and bool((np.abs(known - 1) < _UNIT).all())


def _wraps(column: NDArray[Any], turn: float) -> bool:
    """True where all numbers lie within one turn, and every step of more than half a turn is nearly a whole one."""
    known = column[np.isfinite(column)].astype(np.float64)
    if len(known) < _FEW or known.max() - known.min() > turn * (1 + 1e-6):
        return False
    low = -turn / 2 if known.min() < 0 else 0.0
    if known.min() < low * (1 + 1e-6) or known.max() > (low + turn) * (1 + 1e-6):
        return False
    steps = np.abs(np.diff(known))
    return bool((steps > turn / 2).any() and (steps[steps > turn / 2] >= _ENOUGH * turn).all())
