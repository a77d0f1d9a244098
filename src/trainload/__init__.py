"""trainload: training data packed once, fed to training at the speed of the machine.

Public names load when they are first used: `import trainload` brings numpy and the core, nothing else.
"""

from __future__ import annotations

from importlib import import_module

import numpy  # noqa: F401

from trainload import _core  # noqa: F401
from trainload.errors import FormatError, SampleError, TrainloadError, UsageError

__version__ = "0.1.0"

# Where each lazily loaded public name lives.
_HOMES: dict[str, str] = {
    "ArrayStreams": "trainload.aligning.streams",
    "Interpolate": "trainload.aligning.match",
    "Interval": "trainload.aligning.match",
    "Nearest": "trainload.aligning.match",
    "Previous": "trainload.aligning.match",
    "align": "trainload.aligning.pairs",
    "open": "trainload.reading.open",
}

__all__ = ["FormatError", "SampleError", "TrainloadError", "UsageError", "__version__"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'trainload' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES})
