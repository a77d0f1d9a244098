"""What a benchmark's JSON says about where and how it ran."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Processor, usable cores, memory in GiB, system, Python and the command line of this run."""
    model = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    command = " ".join(["python", *(Path(arg).name if arg == sys.argv[0] else arg for arg in sys.argv)])
    return {
        "processor": model,
        "cores": cores,
        "memory_gib": round(memory, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "command": command,
    }
