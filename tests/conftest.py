"""What every test finds: Ctrl-C as a program in the foreground has it, and the shared folder where it is at hand."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from trainload.machine.cpus import usable_cpus

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).resolve().parents[2] / "shared"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background; what tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: the CPUs that a control group leaves us; eight processes at most, since each may import torch."""
    return min(usable_cpus(), 8)


@pytest.fixture(scope="session")
def at_hand() -> Callable[[str], Path]:
    """The file or folder of tests/data of a name; of the shared folder, if the name begins with `shared/`.

    The shared folder lies beside the checkouts of those who may use its data, which may not lie in the project.
    Tests that ask for it skip elsewhere.
    """

    def find(name: str) -> Path:
        if not name.startswith("shared/"):
            return DATA / name
        if not (path := SHARED / name.removeprefix("shared/")).exists():
            pytest.skip(f"real data that may not lie in the project: there is no ../{name}")
        return path

    return find


@pytest.fixture(
    scope="session",
    params=["pictures", "shared/data/imagenet-sample/train"],
    ids=["ten-pictures", "imagenet-sample"],
)
def photos(request: pytest.FixtureRequest, at_hand: Callable[[str], Path]) -> Path:
    """Class folders of photographs: the ten of tests/data, and the thousand of ImageNet where they are at hand."""
    return at_hand(request.param)
