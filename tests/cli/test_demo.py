"""The demo runs on pictures of its own and on the user's folder, and its facts add up."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from trainload.cli import demo as _demo  # noqa: F401  registers the verb
from trainload.cli.app import app
from trainload.demo.pictures import CLASSES, make_pictures


def test_demo_pictures_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_pictures(tmp_path / name, per_class=1, seed=5)
    one, two = (sorted((tmp_path / name).rglob("*.jpeg")) for name in ("one", "two"))
    assert len(one) == len(CLASSES)
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]


def test_demo_measures_the_users_own_folder(tmp_path: Path) -> None:
    make_pictures(tmp_path / "mine", per_class=3)
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["demo", "--data", str(tmp_path / "mine"), "--out", str(out), "--epochs", "1", "--json"]
    )
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert [row["name"] for row in facts["rows"]] == ["folder, Pillow", "folder, trainload", "DTS LV0", "DTS LV3"]
    assert {row["pictures"] for row in facts["rows"]} == {3 * len(CLASSES)}
    assert all(row["pictures_per_s"] > 0 and row["cpu_ms_per_picture"] > 0 for row in facts["rows"])
    assert (out / "demo.png").stat().st_size > 1000
    assert (out / "batch.png").stat().st_size > 1000


def test_sensor_demo_measures_the_drift_it_made_and_learns(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--sensors", "--seconds", "30", "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    streams = {stream["name"]: stream for stream in facts["alignment"]["streams"]}
    drift = {name: streams[name]["drift_ppm"] for name in ("camera/0", "imu")}
    assert abs(drift["camera/0"] + 20) < 10 and abs(drift["imu"] - 20) < 10  # 80 ppm spread over five clocks
    assert facts["training"]["last_error"] < facts["training"]["still"] / 2
    assert (tmp_path / "alignment.png").stat().st_size > 1000
    assert "<html" in (tmp_path / "alignment.html").read_text()[:200].lower()
