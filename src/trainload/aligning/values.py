"""The values that a match stands for: picked samples, or two samples combined field by field.

Fields without a rule of their own: floats are linear, whole numbers and text come from the nearer sample, and fields
that look like a unit quaternion (four wide and called orientation, rotation or quat..., or four named qx, qy, qz, qw)
are slerped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.aligning.match import Interpolate, Match, Method
from trainload.errors import UsageError

HOW = ("linear", "slerp", "nearest", "previous")
_ORIENTATION_NAMES = ("orientation", "rotation", "quat")
_QUATERNION_PARTS = ("qx", "qy", "qz", "qw")


def matched_values(values: NDArray[Any], match: Match, method: Method) -> NDArray[Any]:
    """One value per reference time; where nothing matched, NaN in float fields and zeros in others (see match.matched).

    values: (n,), (n, c) or structured, one per sample of the stream. Raises UsageError for a rule that does not fit.
    """
    if not len(values):
        return _blank(np.zeros((len(match), *values.shape[1:]), values.dtype), np.ones(len(match), np.bool_))
    if isinstance(method, Interpolate):
        if values.dtype.names is None:
            how = (method.fields or {}).get("value", _default("", values.dtype, values.shape[1:]))
            result = _combine(values, match, how, "value")
        else:
            result = _combine_fields(values, match, method.fields or {})
    else:
        result = values[np.maximum(match.index, 0)]
    return _blank(result, ~match.matched)


def slerp(left: NDArray[Any], right: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 (n, 4) unit quaternions (x, y, z, w) on the shorter arc from left to right, at `weight` of the way.

    Four zeros, which sensors send for "no orientation", NaN or an infinity on either side give four zeros. Raises
    UsageError without scipy (extra `robotics`).
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


def _combine_fields(values: NDArray[Any], match: Match, rules: Mapping[str | tuple[str, ...], str]) -> NDArray[Any]:
    names = values.dtype.names or ()
    chosen: dict[str | tuple[str, ...], str] = {}
    if set(_QUATERNION_PARTS) <= set(names) and not set(_QUATERNION_PARTS) & set(rules):
        chosen[_QUATERNION_PARTS] = "slerp"
    chosen |= rules
    result = np.zeros(len(match), values.dtype)
    grouped = {part for key in chosen if isinstance(key, tuple) for part in key}
    for key in [*chosen, *(name for name in names if name not in chosen and name not in grouped)]:
        parts = key if isinstance(key, tuple) else (key,)
        missing = set(parts) - set(names)
        if missing:
            raise UsageError(f"no field is called {', '.join(sorted(missing))}; there are {', '.join(names)}")
        if isinstance(key, tuple):
            stacked = np.stack([values[part] for part in key], axis=-1)
            combined = _combine(stacked, match, chosen[key], str(key))
            for column, part in enumerate(key):
                result[part] = combined[:, column]
        else:
            part_type = values.dtype[key]
            how = chosen.get(key) or _default(key, part_type.base, part_type.shape)
            result[key] = _combine(values[key], match, how, key)
    return result


def _default(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    if dtype.kind != "f":
        return "nearest"
    return "slerp" if shape == (4,) and name.lower().startswith(_ORIENTATION_NAMES) else "linear"


def _combine(values: NDArray[Any], match: Match, how: str, name: str) -> NDArray[Any]:
    if match.right is None or match.weight is None:
        raise UsageError("only a match by Interpolate knows two samples to combine")
    left, right = np.maximum(match.index, 0), np.maximum(match.right, 0)
    if how == "previous":
        return values[np.where(match.weight >= 1, right, left)]
    if how == "nearest":
        return values[np.where(match.weight > 0.5, right, left)]
    if how == "slerp":
        if values.shape[1:] != (4,):
            raise UsageError(f"slerp takes four numbers x, y, z, w, and {name} has shape {values.shape[1:]}")
        used = match.matched
        result = np.zeros((len(match), 4))
        result[used] = slerp(values[left[used]], values[right[used]], match.weight[used])
        return result
    if how != "linear":
        raise UsageError(f"{name} can be combined by {', '.join(HOW)}, not by {how!r}")
    if values.dtype.kind not in "fiu":
        raise UsageError(f"{name} holds {values.dtype}, which has no line between two values")
    line = _line(values[left], values[right], match.weight.reshape(-1, *(1,) * (values.ndim - 1)))
    return np.rint(line).astype(values.dtype) if values.dtype.kind in "iu" else line.astype(values.dtype)


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
