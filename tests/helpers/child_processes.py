"""Programs that a test starts, which end with the test however it ends."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def running(*arguments: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`python -c` with `arguments`, text in its pipes; killed and waited for when the block ends or fails."""
    command = [sys.executable, "-c", *map(str, arguments)]
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()  # nothing happens to one that has ended and was waited for
