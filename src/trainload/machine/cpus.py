"""Which CPUs this process may use, and how many threads can really run at once in it."""

from __future__ import annotations

import math
import os
from pathlib import Path

from trainload.machine.cgroups import CGROUPS, PROC, control_group_values


def cpu_numbers() -> set[int]:
    """The CPUs that the calling thread may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def usable_cpus(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """The CPUs that this process may run on, or fewer where its control group has a quota (rounded up)."""
    count = len(cpu_numbers())
    names = {"version2": "cpu.max", "version1": "cpu.cfs_quota_us"}
    for _, text in control_group_values("cpu", **names, proc=proc, cgroups=cgroups):
        quota, _, period = text.partition(" ")  # version 2: both, or "max"; version 1: a quota per 100 ms, or -1
        if quota.isdigit() and int(quota):
            count = min(count, math.ceil(int(quota) / int(period or 100_000)))
    return max(1, count)
