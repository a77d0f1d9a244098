"""How much memory this process may use: the machine's, or less where a control group or a resource limit says so."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple

UNLIMITED = 1 << 62  # cgroup v1 writes "no limit" as a number near 2^63


class MemoryLimit(NamedTuple):
    """The bytes that this process may use, and who says so."""

    size_bytes: int
    reason: str


def memory_limit(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> MemoryLimit:
    """The least of physical memory, RLIMIT_AS and the limits of this process's control group and those above (v1, v2).

    It does not depend on what is free at the moment, so the same machine gives the same answer every time.
    """
    limits = [MemoryLimit(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "physical memory")]
    limits += _cgroup_limits(proc, cgroups)
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if address_space != resource.RLIM_INFINITY:
        limits.append(MemoryLimit(address_space, "RLIMIT_AS"))
    return min(limits)


def _cgroup_limits(proc: Path, cgroups: Path) -> list[MemoryLimit]:
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:  # no Linux, no control groups
        return []
    found = []
    for line in lines:
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":  # version 2, at the root or (beside version 1) below "unified"
            found += _limits_upwards(cgroups, path, "memory.max")
            found += _limits_upwards(cgroups / "unified", path, "memory.max")
        elif "memory" in controllers.split(","):
            found += _limits_upwards(cgroups / "memory", path, "memory.limit_in_bytes")
    return found


def _limits_upwards(mount: Path, path: str, name: str) -> list[MemoryLimit]:
    """The limits of one group and all groups above it. In a container the path may lie outside of what is mounted."""
    group = Path(os.path.normpath(path.lstrip("/") or "."))
    found = []
    for folder in (group, *group.parents):
        try:
            text = (mount / folder / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < UNLIMITED:
            found.append(MemoryLimit(int(text), f"control group /{folder}" if str(folder) != "." else "control group"))
    return found


def processes_on_this_machine() -> int:
    """How many processes of one training job share this machine's memory (torchrun's LOCAL_WORLD_SIZE), else 1."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(text)) if text.isdigit() else 1


def usable_cpus() -> int:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
