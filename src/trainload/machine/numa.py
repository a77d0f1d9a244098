"""Which CPUs belong together, and the binding of threads to them (Linux)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from trainload.errors import UsageError
from trainload.machine.cpus import cpu_numbers

NODES = Path("/sys/devices/system/node")

AskedCpus = Literal["numa"] | Sequence[int] | None
CpuSets = tuple[frozenset[int], ...]


def cpu_sets(asked: AskedCpus, *, nodes: Path = NODES) -> CpuSets:
    """The CPUs that threads are to run on: the n-th thread on the n-th of these sets, in turn. None: anywhere, ().

    asked: numbers of CPUs, all for all threads; "numa": a set for each NUMA node, and where there is one node, or
    nothing is known of them, (). Raises UsageError for CPUs that this process may not use, and on other systems.
    """
    if asked is None:
        return ()
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("cpus= binds threads on Linux alone: leave it out")
    usable = cpu_numbers()
    if asked == "numa":
        found = [cpus & usable for cpus in numa_nodes(nodes)]
        sets = tuple(frozenset(cpus) for cpus in found if cpus)
        return sets if len(sets) > 1 else ()
    if isinstance(asked, str) or not asked or not all(isinstance(cpu, int) for cpu in asked):
        raise UsageError(f"cpus is {asked!r}; give numbers of CPUs, or 'numa'")
    if not usable.issuperset(asked):
        wrong = ", ".join(map(str, sorted(set(asked) - usable)))
        raise UsageError(f"cpus holds {wrong}; this process may use {', '.join(map(str, sorted(usable)))}")
    return (frozenset(asked),)


def numa_nodes(nodes: Path = NODES) -> list[set[int]]:
    """The CPUs of each NUMA node, by the node's number; [] where the system does not say."""
    folders = [path for path in nodes.glob("node[0-9]*") if path.name.removeprefix("node").isdecimal()]
    folders.sort(key=lambda path: int(path.name.removeprefix("node")))
    try:
        return [_cpus_of((folder / "cpulist").read_text()) for folder in folders]
    except (OSError, ValueError):
        return []


def _cpus_of(text: str) -> set[int]:
    """A list as Linux writes it: "0-3,8"; a node of memory alone has none."""
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def bind_thread(sets: CpuSets, n: int) -> None:
    """Let the calling thread, the n-th of its kind, run on its set alone; () changes nothing."""
    if sets:
        os.sched_setaffinity(0, sets[n % len(sets)])
