"""The public names: lazy when imported, typed for editors, the same list everywhere."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import trainload as tl

ROOT = Path(__file__).resolve().parents[2]

USER_SCRIPT = """
import trainload as tl

ds = tl.open_images("train.dts")
loader = tl.ImageLoader(ds, batch_size=8, ops=[tl.RandomResizedCrop(16), tl.Normalize.imagenet()])
rows: int = len(loader)
drive: tl.HyperframeReader = tl.open_recording("drive.hfr")
pairs: tl.Pairs = tl.align(drive, to="lidar", using={"imu": tl.Interpolate()})
report: tl.Report = pairs.report()
reveal_type(tl.ImageLoader)
reveal_type(tl.open("train.dts"))
"""


def test_type_checkers_see_the_names_where_they_live() -> None:
    tree = ast.parse(Path(tl.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {name.name: one.module for one in block.body if isinstance(one, ast.ImportFrom) for name in one.names}
    assert seen == tl._HOMES
    errors = {name for name, value in vars(tl).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert sorted({*tl._HOMES, *errors, "__version__"}) == sorted(tl.__all__)


def test_no_module_takes_the_place_of_a_public_name() -> None:
    modules = {path.stem for path in Path(tl.__file__).parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(tl.__all__)


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in tl.__all__:
        assert name == "__version__" or getattr(tl, name).__doc__, name
    assert dir(tl) == sorted(tl.__all__)


def test_a_user_script_is_checked_strictly(tmp_path: Path) -> None:
    script = tmp_path / "user.py"
    script.write_text(USER_SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*command, str(script)], capture_output=True, text=True, cwd=ROOT / "src", check=False)
    if "No module named mypy" in done.stderr:
        return  # `make lint` brings it
    text = done.stdout
    assert "ImageLoader" in text and "HyperframeReader" in text
    assert [line for line in text.splitlines() if "user.py" in line and ": error:" in line] == []
