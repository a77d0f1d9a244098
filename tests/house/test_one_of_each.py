"""What has one place has no second one: the count of CPUs, the allocator of aligned memory, the pool."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainload

ROOT = Path(trainload.__file__).parent


@pytest.mark.parametrize(
    ("word", "places"),
    [
        ("cpu_count(", {"machine/cpus.py"}),
        ("sched_getaffinity(", {"machine/cpus.py"}),
        ("getrefcount", set()),
        ("ctypes.data %", set()),
        ("addressof", {"memory/aligned.py"}),
    ],
)
def test_one_file_does_it(word: str, places: set[str]) -> None:
    found = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if word in path.read_text()}
    assert found == places
