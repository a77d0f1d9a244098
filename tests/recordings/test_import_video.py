"""Video comes in picture by picture, with the key frames marked, and decodes from the recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from present import present
from trainload.recordings.format.hyperframe import KEY_FRAME
from trainload.recordings.importers.folders.comma import open_comma
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.logs.messages.video_units import h265_pictures, is_key_frame

VPS, SPS, PPS, IDR, TRAIL = 32, 33, 34, 19, 1


def unit(kind: int, body: bytes = b"x", *, first: bool = True, long_start: bool = True) -> bytes:
    """A NAL unit: start code, two header bytes, then the byte whose top bit says "first slice of the picture"."""
    return (b"\0\0\0\1" if long_start else b"\0\0\1") + bytes((kind << 1, 1, 0x80 if first else 0)) + body


def test_pictures_of_raw_h265_are_found_with_their_parameter_sets(tmp_path):
    pictures = [
        unit(VPS) + unit(SPS) + unit(PPS) + unit(IDR, b"key" * 9),
        unit(TRAIL, b"a" * 30) + unit(TRAIL, b"b", first=False, long_start=False),
        unit(TRAIL, b"c" * 5),
        unit(VPS) + unit(SPS) + unit(PPS) + unit(IDR),
    ]
    path = tmp_path / "video.hevc"
    path.write_bytes(b"".join(pictures))
    found = h265_pictures(path)
    data = path.read_bytes()
    assert [data[u.offset : u.offset + u.size] for u in found] == pictures
    assert [u.key for u in found] == [True, False, False, True]
    assert [is_key_frame("h265", picture) for picture in pictures] == [True, False, False, True]


def test_a_start_code_across_the_reading_step_is_found_once(tmp_path, monkeypatch):
    pictures = [unit(TRAIL, bytes([k]) * (k % 7 + 1)) for k in range(1, 60)]
    path = tmp_path / "video.hevc"
    path.write_bytes(b"".join(pictures))
    for step in (7, 16, 33):
        monkeypatch.setattr("trainload.recordings.importers.logs.messages.video_units._STEP", step)
        assert [u.size for u in h265_pictures(path)] == [len(picture) for picture in pictures]


def test_h264_key_frames_and_pictures_of_other_encodings():
    assert is_key_frame("h264", b"\0\0\1\x67sps\0\0\1\x65idr")
    assert not is_key_frame("h264", b"\0\0\1\x41p")
    assert is_key_frame("jpeg", b"\xff\xd8")


def test_a_comma_segment_with_video_decodes_from_the_recording(tmp_path):
    av = pytest.importorskip("av")
    if "libx265" not in av.codecs_available:
        pytest.skip("this PyAV cannot encode H.265")
    root = tmp_path / "40"
    (root / "global_pose").mkdir(parents=True)
    encode(av, root / "video.hevc", 25)
    with (root / "global_pose" / "frame_times").open("wb") as file:
        np.save(file, 100 + np.arange(25) * 0.05)
    report = import_source(open_comma(root), tmp_path / "drive.hfr")
    assert not report.damage
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        assert drive.timestamps("camera")[1] == 100_050_000_000
        assert np.flatnonzero(drive.flags("camera") & KEY_FRAME).tolist() == [0, 10, 20]
        picture = present(drive.read_at_index("camera", 14, decode=True).decoded)
        assert picture.shape == (96, 128, 3)
        assert abs(float(picture.mean()) - 140) < 6


def encode(av, path: Path, count: int) -> None:
    with av.open(str(path), "w", format="hevc") as out:
        stream = out.add_stream("libx265", rate=20)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        stream.options = {"x265-params": "keyint=10:min-keyint=10:scenecut=0:bframes=0:log-level=none"}
        for k in range(count):
            frame = av.VideoFrame.from_ndarray(np.full((96, 128, 3), k * 10, np.uint8), format="rgb24")
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
