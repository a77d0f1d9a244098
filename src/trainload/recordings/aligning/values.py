"""The values that a match stands for: picked samples, or two samples combined field by field.

A field is combined by the rule that the caller gives (Interpolate(fields=...)), else by what the stream declares, else
by its type: floats are linear, whole numbers and text come from the nearer sample. A stream that declares nothing, as
those of older files, keeps the older rule too: fields that look like a unit quaternion (four wide and called
orientation, rotation or quat..., or four named qx, qy, qz, qw) are slerped. What looks like an orientation or an angle
by its numbers and is combined on a line all the same, is warned of (lookalikes.py).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.recordings.aligning.lookalikes import lookalikes
from trainload.recordings.aligning.match import Interpolate, Match, Method
from trainload.recordings.format.field_rules import QUATERNIONS, RULES, WHOLE, FieldRules, Fields, Rule
from trainload.recordings.format.streams import StreamInfo

_ORIENTATION_NAMES = ("orientation", "rotation", "quat")
_QUATERNION_PARTS = ("qx", "qy", "qz", "qw")
_TURNS = {"angle": 2 * np.pi, "angle_degrees": 360.0}


def matched_values(values: NDArray[Any], match: Match, method: Method, info: StreamInfo | None = None) -> NDArray[Any]:
    """One value per reference time; where nothing matched, NaN in float fields and zeros in others (see match.matched).

    values: (n,), (n, c) or structured, one per sample of the stream. info: the stream, whose declared fields count.
    Raises UsageError for a rule that does not fit.
    """
    if not len(values):
        return _blank(np.zeros((len(match), *values.shape[1:]), values.dtype), np.ones(len(match), np.bool_))
    if isinstance(method, Interpolate):
        asked, declared = method.fields or {}, {} if info is None else info.fields
        rules = _rules(values, asked, declared)
        for sentence in lookalikes(values, rules, {**declared, **asked}):
            name = "" if info is None else f"{info.name!r}: "
            warnings.warn(f"{name}{sentence}", UserWarning, stacklevel=3)
        result = _combine_fields(values, match, rules)
    else:
        result = values[np.maximum(match.index, 0)]
    return _blank(result, ~match.matched)


def _rules(values: NDArray[Any], asked: FieldRules, declared: FieldRules) -> dict[Fields, Rule]:
    """The rule of every field. Raises UsageError for a field that is not there."""
    names = (WHOLE,) if values.dtype.names is None else values.dtype.names
    chosen = dict(asked)
    taken = {part for key in chosen for part in _parts(key)}
    for key, rule in (declared or _by_name(values)).items():
        if not taken & set(_parts(key)):
            chosen[key] = rule
    missing = {part for key in chosen for part in _parts(key)} - set(names)
    if missing:
        raise UsageError(f"no field is called {', '.join(sorted(missing))}; there are {', '.join(names)}")
    for name in names:
        if not any(name in _parts(key) for key in chosen):
            base = values.dtype.base if values.dtype.names is None else values.dtype[name].base
            chosen[name] = "linear" if base.kind == "f" else "nearest"
    return chosen


def _by_name(values: NDArray[Any]) -> FieldRules:
    """What a stream without declarations is taken to have."""
    names = values.dtype.names or ()
    found: dict[Fields, Rule] = {}
    if set(_QUATERNION_PARTS) <= set(names):
        found[_QUATERNION_PARTS] = "quaternion_xyzw"
    for name in names:
        part = values.dtype[name]
        if part.base.kind == "f" and part.shape == (4,) and name.lower().startswith(_ORIENTATION_NAMES):
            found[name] = "quaternion_xyzw"
    return found


def _parts(key: Fields) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


def slerp(left: NDArray[Any], right: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 (n, 4) unit quaternions, x, y, z, w or w, x, y, z, at `weight` of the shorter way to the right.

    The arc is the same for any order of the four numbers. Four zeros, which sensors send for "no orientation", NaN or
    an infinity on either side give four zeros. Raises UsageError without scipy (extra `robotics`).
    """
    try:
        from scipy.spatial.transform import Rotation
    except ImportError as error:
        raise UsageError("interpolating orientations needs scipy: pip install 'trainload[robotics]'") from error
    known = _are_orientations(left) & _are_orientations(right)
    result = np.zeros((len(weight), 4))
    if not known.any():
        return result
    start, end = Rotation.from_quat(left[known]), Rotation.from_quat(right[known])
    turn = (start.inv() * end).as_rotvec()
    between = (start * Rotation.from_rotvec(turn * weight[known, None])).as_quat()
    flipped = np.einsum("ij,ij->i", between, np.asarray(left[known], np.float64)) < 0
    between[flipped] *= -1  # the same rotation, on the side of the sphere the data is on
    result[known] = between
    return result


def _are_orientations(quaternions: NDArray[Any]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = np.isfinite(quaternions).all(axis=1)
    known[known] = np.linalg.norm(quaternions[known].astype(np.float64), axis=1) > 0
    return known


def _combine_fields(values: NDArray[Any], match: Match, rules: FieldRules) -> NDArray[Any]:
    if values.dtype.names is None:
        return _combine(values, match, rules[WHOLE], WHOLE)
    result = np.zeros(len(match), values.dtype)
    for key, rule in rules.items():
        if isinstance(key, str):
            result[key] = _combine(values[key], match, rule, key)
            continue
        combined = _combine(np.stack([values[part] for part in key], axis=-1), match, rule, ", ".join(key))
        for column, part in enumerate(key):
            result[part] = combined[:, column]
    return result


def _combine(values: NDArray[Any], match: Match, rule: Rule, name: str) -> NDArray[Any]:
    """values: (n,), (n, c), ... of one field, or (n, 4) of four fields that are a quaternion."""
    if match.right is None or match.weight is None:
        raise UsageError("only a match by Interpolate knows two samples to combine")
    if not isinstance(rule, str):
        if values.shape[1:] != (len(rule),):
            raise UsageError(f"{name} has columns of shape {values.shape[1:]}, and {len(rule)} rules")
        return np.stack([_combine(values[:, k], match, one, name) for k, one in enumerate(rule)], axis=-1)
    left, right = np.maximum(match.index, 0), np.maximum(match.right, 0)
    if rule == "previous":
        return values[np.where(match.weight >= 1, right, left)]
    if rule == "nearest":
        return values[np.where(match.weight > 0.5, right, left)]
    if rule in QUATERNIONS:
        if values.shape[1:] != (4,):
            raise UsageError(f"{rule} takes four numbers, and {name} has shape {values.shape[1:]}")
        used = match.matched
        result = np.zeros((len(match), 4))
        result[used] = slerp(values[left[used]], values[right[used]], match.weight[used])
        return result
    if rule not in RULES:
        raise UsageError(f"{name} can be combined by {', '.join(RULES)}, not by {rule!r}")
    if values.dtype.kind not in "fiu":
        raise UsageError(f"{name} holds {values.dtype}, which has no line between two values")
    weight = match.weight.reshape(-1, *(1,) * (values.ndim - 1))
    if rule in _TURNS:
        line = _shorter_way(values, left, right, weight, _TURNS[rule])
    else:
        line = _line(values[left], values[right], weight)
    return np.rint(line).astype(values.dtype) if values.dtype.kind in "iu" else line.astype(values.dtype)


def _shorter_way(
    values: NDArray[Any], left: NDArray[np.int64], right: NDArray[np.int64], weight: NDArray[Any], turn: float
) -> NDArray[np.float64]:
    """Angles at `weight` of the shorter way around, in the range that the stream keeps to.

    That is -turn/2 to turn/2 where it has angles below zero, else 0 to turn. A stream that counts turns on keeps to no
    range: its angles are continued from the left one.
    """
    with np.errstate(invalid="ignore"):
        start, end = values[left].astype(np.float64), values[right].astype(np.float64)
        found = _line(start, start + np.remainder(end - start + turn / 2, turn) - turn / 2, weight)
        known = values[np.isfinite(values)].astype(np.float64)
        low = -turn / 2 if len(known) and known.min() < 0 else 0.0
        slack = turn * 1e-6  # pi in float32 is larger than pi
        if not len(known) or (known.min() >= low - slack and known.max() <= low + turn + slack):
            inside = np.remainder(found - low, turn) + low
            found = np.where((found < low - slack) | (found > low + turn + slack), inside, found)
    return found


def _line(left: NDArray[Any], right: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values at `weight` of the way; at 0 the left one itself, be it infinite. NaN where an end is no number.

    Sensors send NaN, signalling ones too, and infinities. These set the processor's invalid flag where they are widened
    or subtracted, and NaN is what comes out, as it should: here the flag says nothing that a caller could act on.
    """
    with np.errstate(invalid="ignore"):
        start, end = left.astype(np.float64), right.astype(np.float64)
        return np.where(weight == 0, start, start + (end - start) * weight)


def _blank(result: NDArray[Any], rows: NDArray[np.bool_]) -> NDArray[Any]:
    if not rows.any():
        return result
    for name in result.dtype.names or ():
        result[name][rows] = np.nan if result.dtype[name].base.kind == "f" else np.zeros((), result.dtype[name].base)
    if result.dtype.names is None:
        result[rows] = np.nan if result.dtype.kind == "f" else np.zeros((), result.dtype)
    return result
