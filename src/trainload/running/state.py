"""Where a loader stands, exact to the sample: what `state_dict()` gives and `load_state_dict()` takes."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.running.cursor import Cursor
from trainload.running.order import (
    DRAWS_SINCE,
    LANES_VERSION,
    LAW_VERSION,
    REPEAT_VERSION,
    SHUFFLES,
    OrderRule,
    Shuffle,
)


@dataclass(frozen=True, slots=True)
class LoaderState:
    """The next sample of all ranks together, and everything that the order after it depends on.

    epoch, position: samples of the global order that all ranks have consumed in this epoch. seed, shuffle,
    group_blocks: the order's rule. samples: "set" of the samples, by fingerprint. Says nothing of ranks, threads, batch
    size or mode: these may change. version: of the order's law; that of an older one still holds. repeat: how often
    each position comes in a row; an entry from version 3 on. lanes: of the order "lanes"; an entry of version 4 alone.
    """

    epoch: int
    position: int
    seed: int
    shuffle: Shuffle
    group_blocks: int
    samples: str
    version: int = LAW_VERSION
    repeat: int = 1
    lanes: int = 0

    @property
    def rule(self) -> OrderRule:
        return OrderRule(self.seed, self.shuffle, self.group_blocks, min(self.version, LAW_VERSION), self.lanes)

    @staticmethod
    def of(cursor: Cursor, rule: OrderRule, samples: str, repeat: int = 1) -> LoaderState:
        """The state of a loader that stands there."""
        version = rule.version if repeat == 1 else REPEAT_VERSION
        return LoaderState(
            epoch=cursor.epoch,
            position=cursor.position,
            seed=rule.seed,
            shuffle=rule.shuffle,
            group_blocks=rule.group_blocks,
            samples=samples,
            version=LANES_VERSION if rule.lanes else version,
            repeat=repeat,
            lanes=rule.lanes,
        )

    def to_dict(self) -> dict[str, int | str]:
        """Plain numbers and strings (JSON), under 1 KB."""
        entries = asdict(self)
        return {name: entries[name] for name in _names_of(self.version)}

    @staticmethod
    def from_dict(state: Mapping[str, Any], *, samples: str, total: int, repeat: int = 1) -> LoaderState:
        """Check a state against the set that it must belong to. Raises UsageError, naming the entry that is wrong."""
        version = state.get("version")
        if "version" in state and (not isinstance(version, int) or not 1 <= version <= LANES_VERSION):
            raise UsageError(
                f"this version of trainload reads loader states of the versions 1 to {LANES_VERSION}, not {version!r}"
            )
        names = _names_of(version or LAW_VERSION)
        if set(state) != set(names):
            raise UsageError(f"a loader's state has the entries {', '.join(names)}, not {', '.join(map(str, state))}")
        if state["samples"] != samples:
            raise UsageError(f"the state belongs to another set of samples ({state['samples']}, this one is {samples})")
        if state.get("repeat", 1) != repeat:
            raise UsageError(f"the state is of a loader with repeat={state.get('repeat', 1)}, this one has {repeat}")
        limits = {"epoch": 2**32 - 1, "position": total, "seed": 2**64 - 1, "group_blocks": 2**31 - 1}
        limits |= {"lanes": 2**31 - 1} if version == LANES_VERSION else {}
        for name, most in limits.items():
            value = state[name]
            if not isinstance(value, int) or not 0 <= value <= most:
                raise UsageError(f"{name} in a loader's state must be an integer in 0 .. {most}, not {value!r}")
        if state["shuffle"] not in SHUFFLES:
            raise UsageError(
                f"shuffle in a loader's state must be one of {', '.join(SHUFFLES)}, not {state['shuffle']!r}"
            )
        is_lanes = state["shuffle"] == "lanes"
        if is_lanes != (version == LANES_VERSION) or is_lanes != bool(state.get("lanes")):
            raise UsageError(
                f"a loader's state of version {LANES_VERSION} has shuffle 'lanes' and lanes above 0, and no other has; "
                f"this one is of version {version} with {state['shuffle']!r}"
            )
        if is_lanes and state["position"] % repeat:
            raise UsageError(f"position in a loader's state must be a multiple of repeat={repeat} under 'lanes'")
        return LoaderState(**state)


def _names_of(version: int) -> tuple[str, ...]:
    """The entries of a state of this version."""
    names = tuple(LoaderState.__dataclass_fields__)
    return names if version >= LANES_VERSION else names[:-1] if version == REPEAT_VERSION else names[:-2]


def warn_of_equal_repeats(rule: OrderRule, repeats: bool) -> None:
    """Warn of a run that goes on under a law by which a sample comes equal each time that an epoch repeats it."""
    if repeats and rule.version < DRAWS_SINCE:
        warnings.warn(
            f"the loader's state is of version {rule.version}: the run goes on as it began, and a sample that an epoch "
            f"repeats comes with the same augmentation each time; load {{**state, 'version': {LAW_VERSION}}} to give "
            "every repeat its own from here on",
            stacklevel=3,
        )


def fingerprint(*tables: NDArray[np.generic] | None) -> str:
    """16 hexadecimal digits that stand for the values of some arrays."""
    digest = hashlib.sha256()
    for table in tables:
        digest.update(b"none" if table is None else np.ascontiguousarray(table).tobytes())
        digest.update(b"|")
    return digest.hexdigest()[:16]
