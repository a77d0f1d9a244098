"""A file that is gone, hidden or changed is one picture: replaced and counted, or named; a dead disk is an error."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import trainload as tl
from loading_data import jpegs, write_dts, write_folder
from picture_folders import encoded, picture
from trainload.cli.app import app, import_module  # type: ignore[attr-defined]
from trainload.images.loading.replacing import default_limit
from trainload.images.packing import images, picture_stream
from trainload.storage import file as storage_file

COUNT, BATCH = 12, 4
OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip()]


def gone(path: Path) -> None:
    path.unlink()


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def endless_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


FAULTS: dict[Callable[[Path], None], str] = {
    gone: "No such file or directory",
    changed: "keep its size while it is in use",
    pipe: "a folder, a pipe or a device",
    folder: "a folder, a pipe or a device",
    endless_link: "symbolic links",
}


def loader_of(ds: Any, **options: Any) -> tl.ImageLoader:
    given: dict[str, Any] = {"batch_size": BATCH, "ops": OPS, "with_ids": True, "workers": 2, "shuffle": "none"}
    return tl.ImageLoader(ds, **{**given, **options})


def file_of(root: Path, n: int) -> Path:
    return root / "class000" / f"{n:05}.JPEG"


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("mode", ["fully", "partial"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_cannot_be_read_is_replaced_counted_and_warned_of(
    fault: Callable[[Path], None], mode: str, threads: int, tmp_path: Path
) -> None:
    root = write_folder(tmp_path, jpegs(COUNT), [0] * COUNT)
    loader = loader_of(root, mode=mode, workers=threads, on_error="replace")
    whole = list(loader_of(root))
    fault(file_of(root, 5))
    with pytest.warns(RuntimeWarning, match=rf"stands in for sample 5: .*{FAULTS[fault]}.*00005\.JPEG") as warned:
        for _ in range(2):
            for found, good in zip(loader, whole, strict=True):
                ids = [6 if i == 5 else i for i in good[2].tolist()]
                assert found[2].tolist() == ids
                rows = [good[2].tolist().index(i) for i in ids]
                if loader.epoch == 0:
                    assert np.array_equal(found[0], good[0][rows])
    assert len(warned) == 1
    assert loader.stats.replaced == 2
    last = loader.stats.last_replaced
    assert last is not None and FAULTS[fault] in last.reason


@pytest.mark.parametrize("mode", ["fully", "partial"])
@pytest.mark.parametrize("fault", FAULTS)
def test_by_default_it_is_an_error_that_names_file_and_cause(
    fault: Callable[[Path], None], mode: str, tmp_path: Path
) -> None:
    root = write_folder(tmp_path, jpegs(COUNT), [0] * COUNT)
    loader = loader_of(root, mode=mode)
    fault(file_of(root, 5))
    with pytest.raises(tl.SampleError, match=rf"sample 5: .*{FAULTS[fault]}.*00005\.JPEG"):
        list(loader)
    with pytest.raises(tl.SampleError, match=FAULTS[fault]):
        loader.batch([5])
    assert len(loader.batch([4])[0]) == 1


@pytest.mark.parametrize("ops", [None, OPS])
def test_the_dataset_names_it_too(ops: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import trainload.torch as tlt

    root = write_folder(tmp_path, jpegs(4), [0] * 4)
    dataset = tlt.ImageDataset(root, ops=ops)
    gone(file_of(root, 2))
    changed(file_of(root, 3))
    for n, reason in ((2, "No such file"), (3, "keep its size")):
        with pytest.raises(tl.SampleError, match=rf"sample {n}: .*{reason}.*{n}\.JPEG"):
            dataset[n]
    assert dataset[1][1] == 0


def test_a_file_that_goes_before_the_loader_is_made_is_replaced_as_well(tmp_path: Path) -> None:
    root = write_folder(tmp_path, jpegs(4), [0] * 4)
    ds = tl.open_images(root)
    gone(file_of(root, 1))
    with pytest.warns(RuntimeWarning, match="sample 1: .*No such file"):
        (batch,) = loader_of(ds, on_error="replace")
    assert batch[2].tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize("threads", [1, 8])
def test_more_replacements_than_the_limit_are_an_error_at_the_same_batch_always(threads: int, tmp_path: Path) -> None:
    root = write_folder(tmp_path, jpegs(20), [0] * 20)
    ds = tl.open_images(root)
    loader = loader_of(ds, on_error="replace", workers=threads, replace_limit=2, tuning=tl.Tuning(prefetch=4))
    for n in (1, 9, 13, 14, 19):
        gone(file_of(root, n))
    seen = []
    with (
        pytest.warns(RuntimeWarning, match=r"at most 2 in an epoch \(replace_limit\)"),
        pytest.raises(
            tl.SampleError,
            match=r"4 pictures of this epoch had to be replaced, more than replace_limit = 2"
            r".*give a higher.*sample 9: .*00009.*sample 13: .*sample 14: .*00014\.JPEG",
        ) as caught,
    ):
        for batch in loader:
            seen += batch[2].tolist()
    assert seen == [0, 2, 2, 3, 4, 5, 6, 7, 8, 10, 10, 11]
    assert caught.value.sample == 14
    more = loader_of(ds, on_error="replace", replace_limit=20)
    more.load_state_dict(loader.state_dict())
    with pytest.warns(RuntimeWarning):
        assert [batch[2].tolist() for batch in more] == [[12, 15, 15, 15], [16, 17, 18, 16]]


def test_the_limit_is_a_hundredth_of_an_epoch_and_at_least_16(tmp_path: Path) -> None:
    assert [default_limit(n) for n in (1, 1600, 1_281_167)] == [16, 16, 12_811]
    root = write_folder(tmp_path, jpegs(24), [0] * 24)
    for n in range(17):
        file_of(root, n).write_bytes(b"no picture")
    with pytest.raises(tl.SampleError, match=r"17 pictures .* replace_limit = 16"):
        list(loader_of(root, on_error="replace", batch_size=24))
    with pytest.warns(RuntimeWarning):
        assert len(list(loader_of(root, on_error="replace", batch_size=24, replace_limit=17))) == 1
    for limit in (-1, 0.5, "all"):
        with pytest.raises(tl.UsageError, match="replace_limit is"):
            loader_of(root, on_error="replace", replace_limit=limit)


def test_every_epoch_has_the_whole_limit(tmp_path: Path) -> None:
    root = write_folder(tmp_path, jpegs(8), [0] * 8)
    file_of(root, 3).write_bytes(b"no picture")
    loader = loader_of(root, on_error="replace", replace_limit=1)
    with pytest.warns(RuntimeWarning) as warned:
        for _ in range(4):
            assert sum(len(batch[2]) for batch in loader) == 8
    assert (loader.stats.replaced, len(warned)) == (4, 1)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_what_the_process_lacks_is_not_the_pictures_fault(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = loader_of(write_folder(tmp_path, jpegs(4), [0] * 4), on_error="replace")

    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(storage_file.os, "open", fail)  # type: ignore[attr-defined]
    with pytest.raises(OSError, match=os.strerror(code)):
        list(loader)


@pytest.mark.parametrize("on_error", ["raise", "replace"])
def test_a_disk_that_fails_under_a_packed_set_is_an_error_that_names_the_file(
    on_error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = loader_of(write_dts(tmp_path / "set.dts", jpegs(8), [0] * 8, 4), on_error=on_error)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for name in ("preadv", "pread"):
        monkeypatch.setattr(storage_file.os, name, fail)  # type: ignore[attr-defined]
    monkeypatch.setattr(storage_file, "read_at_once", lambda *_: 0)
    with pytest.raises(OSError, match=r"Input/output error: '.*set\.dts'"):
        list(loader)


# ---- pack ----------------------------------------------------------------------------------------------------------


def pictures_in(root: Path, count: int) -> Path:
    (root / "a").mkdir(parents=True)
    for n in range(count):
        (root / "a" / f"{n:03}.jpeg").write_bytes(encoded(picture(n)))
    return root


@pytest.fixture
def after_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Lets something happen to a source between the listing of its files and their reading."""
    listing = images.open_source  # type: ignore[attr-defined]

    def arrange(happen: Callable[[], None]) -> None:
        def open_source(*given: Any, **options: Any) -> object:
            tables = listing(*given, **options)
            happen()
            return tables

        monkeypatch.setattr(images, "open_source", open_source)

    return arrange


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("level", [0, 3])
def test_pack_skips_counts_and_lists_files_that_it_cannot_read(
    level: int, jobs: int, tmp_path: Path, after_listing: Callable[[Callable[[], None]], None]
) -> None:
    root, out = pictures_in(tmp_path / "src", len(FAULTS) + 3), tmp_path / "set.dts"

    def happen() -> None:
        for n, fault in enumerate(FAULTS):
            fault(root / "a" / f"{n:03}.jpeg")

    after_listing(happen)
    summary = tl.pack_images(root, out, level=level, jobs=jobs, on_error="skip").sets[0]
    assert (summary.pictures, summary.refused) == (3, len(FAULTS))
    assert summary.kinds["not readable"] == len(FAULTS)
    lines = {line["source"]: line for line in json.loads(Path(summary.report_path).read_text())["pictures"]}
    reasons = [lines[f"a/{n:03}.jpeg"]["refused"] for n in range(len(FAULTS))]
    wanted = ["No such file", "must not change while it is packed", "a pipe", "a folder", "symbolic links"]
    assert all(part in reason for part, reason in zip(wanted, reasons, strict=True))
    with tl.open_images(out) as ds:
        assert sorted(ds.source(i) for i in range(3)) == [f"a/{n:03}.jpeg" for n in range(len(FAULTS), len(FAULTS) + 3)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_by_default_pack_stops_with_what_the_system_says_of_the_file(
    jobs: int, tmp_path: Path, after_listing: Callable[[Callable[[], None]], None]
) -> None:
    root = pictures_in(tmp_path / "src", 3)
    after_listing((root / "a" / "001.jpeg").unlink)
    with pytest.raises(FileNotFoundError, match=r"src/a/001\.jpeg"):
        tl.pack_images(root, tmp_path / "set.dts", jobs=jobs)
    assert not (tmp_path / "set.dts").exists()


def test_a_source_that_is_gone_is_not_skipped_picture_by_picture(
    tmp_path: Path, after_listing: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture_stream, "MOST_UNREADABLE", 5)
    root = pictures_in(tmp_path / "src", 12)
    after_listing(lambda: shutil.rmtree(root))
    with pytest.raises(tl.SampleError, match="5 pictures in a row cannot be read: is the source still there"):
        tl.pack_images(root, tmp_path / "set.dts", level=0, jobs=1, on_error="skip")


# ---- what the command says after an error --------------------------------------------------------------------------


def packed_until(error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `trainload pack images` prints where the pack ends in an error and leaves a journal."""
    import_module("trainload.cli.pack_arrays")
    (tmp_path / "set.dts.journal").write_bytes(b"")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("trainload.cli.pack.pack_images", fail)
    return CliRunner().invoke(app, ["pack", "images", str(tmp_path), str(tmp_path / "set.dts")]).output


ON = "the same command with --resume goes on from there"


@pytest.mark.parametrize(
    ("error", "said", "unsaid"),
    [
        (tl.SampleError("damaged", sample=3), "with --resume --on-error skip goes on", ON),
        (PermissionError(errno.EACCES, "denied", "x"), f"once the cause is mended, {ON}", "packed anew"),
        (OSError(errno.ENOSPC, "full"), f"once the cause is mended, {ON}", "packed anew"),
        (tl.FormatError("r", field="f", offset=0, found=1, expected=2), "packed anew, without --resume", ON),
        (tl.UsageError("the unfinished pack differs in source"), "", "--resume"),
        (KeyboardInterrupt(), ON, "mended"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_after_an_error_the_hint_is_one_that_works(
    error: BaseException, said: str, unsaid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = " ".join(packed_until(error, tmp_path, monkeypatch).split())
    assert said in found and unsaid not in found


def test_resume_with_skip_goes_on_behind_a_damaged_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainload.images.format import dts
    from trainload.images.packing import block_cutting

    monkeypatch.setattr(dts, "BLOCK_SIZE", 1 << 20)
    monkeypatch.setattr(block_cutting, "MAX_BLOCK_HEADER_SIZE", 1 << 16)
    root, out = tmp_path / "src", tmp_path / "set.dts"
    (root / "a").mkdir(parents=True)
    for n in range(12):
        noise = np.random.default_rng(n).integers(0, 256, (300, 600, 3), np.uint8)
        (root / "a" / f"{n:03}.jpeg").write_bytes(encoded(Image.fromarray(noise), quality=97))
    last = int(images.arrange.random_order(12, 42)[-1])  # type: ignore[attr-defined]
    bad = root / "a" / f"{last:03}.jpeg"
    bad.write_bytes(bytes(bad.stat().st_size))
    with pytest.raises(tl.SampleError, match="no picture that Pillow reads"):
        tl.pack_images(root, out, level=0, jobs=1)
    resumed: list[int] = []
    summary = tl.pack_images(
        root,
        out,
        level=0,
        jobs=1,
        on_error="skip",
        resume=True,
        progress=lambda progress: resumed.append(progress.resumed),
    )
    assert resumed[-1] > 0 and (summary.pictures, summary.refused) == (11, 1)
