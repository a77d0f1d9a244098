"""docs/walkthrough.md does what it says: its commands, run here on the same recording, print what is printed there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sensor_folders import comma

pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).resolve().parents[2]
WALKTHROUGH = ROOT / "docs/walkthrough.md"
PROGRAMS = {"trainload": str(Path(sys.executable).with_name("trainload")), "python": sys.executable}
NOT_ONE_FOR_ALL = "epoch"  # what torch learns differs in the last digit between processors


def steps() -> list[tuple[list[str], list[str]]]:
    """(command, lines that it printed) of every console block."""
    found = []
    for block in re.findall(r"```console\n\$ (.*?)```", WALKTHROUGH.read_text(), re.DOTALL):
        command, _, output = block.replace("\\\n", " ").partition("\n")
        found.append((shlex.split(command), output.splitlines()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("real", [False, True], ids=["made", "real"])
def test_the_commands_of_the_walkthrough_print_what_it_shows(
    real: bool, at_hand: Callable[[str], Path], tmp_path: Path
) -> None:
    """Of a made recording the commands end alike; what they print is another drive's."""
    if real:
        [segment] = at_hand("shared/data/sensors/comma2k19/Example_1").glob("*/40")
        (tmp_path / "segment").symlink_to(segment)
    else:
        comma(tmp_path / "segment")
    codes = []
    for (program, *arguments), shown in steps():
        arguments = [str(ROOT / word) if word.startswith("examples/") else word for word in arguments]
        done = subprocess.run(
            [PROGRAMS[program], *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "COLUMNS": "96"},
        )
        codes.append(done.returncode)
        printed = (done.stdout + done.stderr).splitlines()
        missing = [line for line in shown if real and line != "[...]" and line not in printed]
        assert [line for line in missing if not line.startswith(NOT_ONE_FOR_ALL)] == []
        if program == "python":
            error, mean = map(float, re.findall(r"(\d\.\d+)", printed[-1]))
            assert error < 0.8 * mean
    assert codes == [0, 0, 2, 0, 0]  # the third is refused: host and hardware clocks


def test_the_walkthrough_shows_the_example_as_it_is() -> None:
    shown = re.findall(r"```python\n(.*?)```", WALKTHROUGH.read_text(), re.DOTALL)
    assert shown and all(part.strip() in (ROOT / "examples/train_recording.py").read_text() for part in shown)
