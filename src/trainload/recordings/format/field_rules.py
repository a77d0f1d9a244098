"""What the fields of a stream's records are, as far as a value between two samples goes: key `fields` of section STRM.

The law is docs/spec/hyperframe.md, section 7. A declaration comes from who knows the data, an importer or a recorder;
nothing here looks at the meaning of a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

RULES = ("linear", "angle", "angle_degrees", "quaternion_xyzw", "quaternion_wxyz", "nearest", "previous")
QUATERNIONS = ("quaternion_xyzw", "quaternion_wxyz", "slerp")  # "slerp": quaternion_xyzw, as it was called first
WHOLE = "value"  # the name of the one field of a type without fields
MAX_RULES = 1024
_NUMBERS = "biuf"

Fields = str | tuple[str, ...]
Rule = str | tuple[str, ...]
FieldRules = Mapping[Fields, Rule]
"""A field, or four fields that are a quaternion together, to its rule; or to one rule for each of its columns."""
GivenRules = Mapping[Any, Rule]
"""FieldRules as callers give them: a dict[str, str] is no Mapping[Fields, str] to type checkers."""


def rules_to_json(rules: FieldRules) -> list[list[Any]]:
    """`[[["yaw"], "angle"], [["qw", "qx", "qy", "qz"], "quaternion_wxyz"], [["fix"], ["linear", "angle_degrees"]]]`."""
    return [
        [[key] if isinstance(key, str) else list(key), rule if isinstance(rule, str) else list(rule)]
        for key, rule in rules.items()
    ]


def rules_from_json(value: Any) -> dict[Fields, Rule]:
    """The rules that `rules_to_json` wrote; rules of another name are kept. Raises ValueError for another form."""
    if not isinstance(value, list) or len(value) > MAX_RULES:
        raise ValueError(f"fields must be a list of at most {MAX_RULES} rules")
    found: dict[Fields, Rule] = {}
    for item in value:
        if not isinstance(item, list) or len(item) != 2 or not _texts(item[0]):
            raise ValueError(f"a rule is [names, rule], not {item!r}")
        names, rule = item
        if not isinstance(rule, str) and not _texts(rule):
            raise ValueError(f"a rule is a text, or one for each column, not {rule!r}")
        found[names[0] if len(names) == 1 else tuple(names)] = rule if isinstance(rule, str) else tuple(rule)
    return found


def check_rules(rules: FieldRules, dtype: np.dtype[Any] | None) -> None:
    """Raises ValueError, saying why, where a rule cannot hold for records (packed: samples) of `dtype`."""
    if not rules:
        return
    if dtype is None:
        raise ValueError("fields belong to a dtype")
    known = {WHOLE: dtype} if dtype.names is None else {name: dtype[name] for name in dtype.names}
    seen: set[str] = set()
    for key, rule in rules.items():
        names = (key,) if isinstance(key, str) else key
        for name in names:
            if name not in known or name in seen:
                raise ValueError(
                    f"{'a second rule for' if name in seen else 'no'} field {name!r} in {', '.join(known)}"
                )
            seen.add(name)
        _check_rule(names, rule, [known[name] for name in names], whole=dtype.names is None)


def _check_rule(names: tuple[str, ...], rule: Rule, parts: list[np.dtype[Any]], *, whole: bool) -> None:
    about = ", ".join(names)
    unknown = {rule} - set(RULES) if isinstance(rule, str) else set(rule) - set(RULES[:3]) - {"nearest", "previous"}
    if unknown:
        raise ValueError(f"{about}: a rule is one of {', '.join(RULES)}, not {', '.join(sorted(unknown))}")
    if len(names) not in (1, 4) or (len(names) == 4 and rule not in QUATERNIONS):
        raise ValueError(f"{about}: only four fields that are a quaternion have a rule together")
    if rule not in ("nearest", "previous") and any(part.base.kind not in _NUMBERS for part in parts):
        raise ValueError(f"{about}: {rule} needs numbers")
    if whole:
        return  # the shape of such frames is the stream's
    if rule in QUATERNIONS and any(part.shape != ((4,) if len(names) == 1 else ()) for part in parts):
        raise ValueError(f"{about}: a quaternion is one field of four numbers or four fields of one")
    if not isinstance(rule, str) and parts[0].shape != (len(rule),):
        raise ValueError(f"{about}: {len(rule)} rules for columns of shape {parts[0].shape}")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MAX_RULES and all(isinstance(text, str) for text in value)
