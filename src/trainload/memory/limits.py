"""How much memory this process may use: the machine's, or less where a control group or a resource limit says so."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple

from trainload.machine.cgroups import CGROUPS, PROC, control_group_values

UNLIMITED = 1 << 62  # version 1 of the control groups writes "no limit" as a number near 2^63


class MemoryLimit(NamedTuple):
    """The bytes that this process may use, and who says so."""

    size_bytes: int
    reason: str


def memory_limit(proc: Path = PROC, cgroups: Path = CGROUPS) -> MemoryLimit:
    """The least of physical memory, RLIMIT_AS and the limits of this process's control group and those above (v1, v2).

    It does not depend on what is free at the moment, so the same machine gives the same answer every time.
    """
    limits = [MemoryLimit(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "physical memory")]
    names = {"version2": "memory.max", "version1": "memory.limit_in_bytes"}
    for group, text in control_group_values("memory", **names, proc=proc, cgroups=cgroups):
        if text.isdigit() and int(text) < UNLIMITED:
            limits.append(MemoryLimit(int(text), group))
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if address_space != resource.RLIM_INFINITY:
        limits.append(MemoryLimit(address_space, "RLIMIT_AS"))
    return min(limits)


def processes_on_this_machine() -> int:
    """How many processes of one training job share this machine's memory (torchrun's LOCAL_WORLD_SIZE), else 1."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(text)) if text.isdigit() else 1
