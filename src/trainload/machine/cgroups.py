"""What the control groups of this process say (Linux, versions 1 and 2): the group itself and all groups above it."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def control_group_values(
    controller: str, *, version2: str, version1: str, proc: Path = PROC, cgroups: Path = CGROUPS
) -> list[tuple[str, str]]:
    """(group, text of its file) for every group that counts; none where there are no control groups.

    controller: "memory" or "cpu". version2, version1: the name of the file in either version.
    """
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":  # version 2, at the root or (beside version 1) below "unified"
            found += _values_upwards(cgroups, path, version2)
            found += _values_upwards(cgroups / "unified", path, version2)
        elif controller in controllers.split(","):
            found += _values_upwards(cgroups / controller, path, version1)
    return found


def _values_upwards(mount: Path, path: str, name: str) -> list[tuple[str, str]]:
    """From one group up to the mount. In a container the path may lie outside of what is mounted."""
    group = Path(os.path.normpath(path.lstrip("/") or "."))
    found = []
    for folder in (group, *group.parents):
        try:
            text = (mount / folder / name).read_text().strip()
        except OSError:
            continue
        found.append((f"control group /{folder}" if str(folder) != "." else "control group", text))
    return found
