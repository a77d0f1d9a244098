"""The parts of the core one by one (cpp/testing). Where they are not built, who asks for one skips and says why."""

from __future__ import annotations

from typing import Any

import pytest


class _Absent:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # pytest looks at every name of a test file
            raise AttributeError(name)
        pytest.skip(f"_core_testing.{name} is built by an editable install (make venv), and this is none")


try:
    import _core_testing
except ImportError:
    _core_testing = _Absent()  # type: ignore[assignment]
    KERNEL_NAMES = [""]
else:
    KERNEL_NAMES = _core_testing.kernel_names()

core_testing = _core_testing
