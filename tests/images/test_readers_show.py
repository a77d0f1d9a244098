"""A set in a terminal or a notebook says what it is, reads nothing for that, and trusts no text of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from dts_builder import DtsBuilder, pictures
from trainload.images.reading.describe import size_text
from trainload.images.reading.sample import Sample


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("ant", "<b>bee"):
        (tmp_path / "set" / name).mkdir(parents=True)
        (tmp_path / "set" / name / "1.jpg").write_bytes(bytes(500))
    return tmp_path / "set"


def test_a_packed_set_shows_samples_classes_level_and_size(tmp_path: Path) -> None:
    path = DtsBuilder([pictures(30)]).write(tmp_path / "a.dts")
    with tl.open_images(path) as ds:
        size = size_text(path.stat().st_size)
        assert repr(ds) == f"DtsReader('{path}', 30 samples, 3 classes, 1 blocks, LV0, {size})"
        assert size in ds._repr_html_() and "ant, bee, cat" in ds._repr_html_()


def test_a_folder_shows_its_size_once_it_is_known(folder: Path) -> None:
    ds = tl.FolderReader(folder)
    assert repr(ds) == f"FolderReader('{folder}', 2 samples, 2 classes)"
    assert int(ds.sizes.sum()) == 1000
    assert repr(ds) == f"FolderReader('{folder}', 2 samples, 2 classes, 1.0 kB)"


def test_names_from_files_are_text_in_a_notebook(folder: Path) -> None:
    html = tl.open_images(folder)._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;bee" in html


def test_a_sample_shows_its_size_and_no_bytes() -> None:
    assert repr(Sample(memoryview(bytes(104_222)), 1, 3)) == "Sample(104,222 bytes, label=1, id=3)"
    pixels = np.zeros((28, 28, 1), np.uint8)
    assert repr(Sample(pixels.data, 7, 0)) == "Sample(28 x 28 x 1, label=7, id=0)"


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (16 << 20, "16.8 MB")]
)
def test_a_size_has_the_unit_that_suits_it(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text
