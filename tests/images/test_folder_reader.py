"""A folder of class folders reads like a packed set, and a packed set goes back into one."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

import trainload as tl
from dts_builder import DtsBuilder, Picture, pictures
from picture_folders import encoded, picture
from test_arrays import FILES, as_folder
from trainload.cli.app import VERBS, app, main
from trainload.codecs.compression import zstd_compress
from trainload.errors import FormatError, UsageError
from trainload.formats.picture_kinds import PICTURE_ENDINGS
from trainload.images.extract import class_folders, extract, is_safe
from trainload.images.format import dts
from trainload.images.packing.arrays import pack_arrays
from trainload.images.packing.sources import open_source
from trainload.images.reading.class_folders import FolderReader
from trainload.images.reading.dts import DtsReader
from trainload.verify_any import verify

FLAT = pictures(14)


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_labels_follow_the_folder_names_and_samples_the_file_names(tmp_path: Path) -> None:
    files = {
        "b/2.JPEG": b"b2",
        "a/3.png": b"a3",
        "b/sub/1.jpg": b"b1",
        "a/notes.txt": b"",
        "c/x.heic": b"",
        "top.jpg": b"",
    }
    with tl.open_images(fill(tmp_path, files)) as ds:
        assert isinstance(ds, FolderReader)
        assert ds.class_names == ("a", "b", "c")
        assert [(bytes(s.data), s.label, s.id) for s in ds.samples(range(3))] == [
            (b"b1", 1, 0),
            (b"b2", 1, 1),
            (b"a3", 0, 2),
        ]
        assert ds.sizes.tolist() == [2, 2, 2]
        assert [ds.source(i) for i in range(3)] == ["b/sub/1.jpg", "b/2.JPEG", "a/3.png"]
        assert ds[-1].id == 2
        assert ds.facts()["samples_per_class"] == [1, 2, 0]
        assert ds.labels.dtype == np.int32


def test_folders_that_are_no_classes_are_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no class folder"):
        tl.open(tmp_path)
    fill(tmp_path, {"train/a/1.jpg": b"x", "val/a/1.jpg": b"x"})
    with pytest.raises(UsageError, match=r"open .*train"):
        tl.open(tmp_path)
    with pytest.raises(UsageError, match="no checksums"):
        verify(tmp_path)


def test_level_0_extracts_to_the_source_bytes_under_the_source_names(tmp_path: Path) -> None:
    source = {path: data for data, _, path in FLAT}
    with DtsReader(DtsBuilder([FLAT[:9], FLAT[9:]]).write(tmp_path / "a.dts")) as ds:
        result = extract(ds, tmp_path / "out")
    assert tree(tmp_path / "out") == source
    assert result.to_dict() == {
        "path": str(tmp_path / "out"),
        "samples": 14,
        "bytes": sum(map(len, source.values())),
        "renamed": [],
        "renamed_classes": {},
    }
    with tl.open_images(tmp_path / "out") as again:
        assert isinstance(again, FolderReader)
        assert again.class_names == ("ant", "bee", "cat")


def test_real_pictures_come_back_from_two_volumes(photos: Path, tmp_path: Path) -> None:
    tl.pack_images(photos, tmp_path / "set.dts", level=0, volumes=2)
    with tl.open_images(str(tmp_path / "set-*.dts")) as ds, tl.open(photos) as folder:
        assert isinstance(ds, DtsReader) and isinstance(folder, FolderReader)
        assert ds.class_names == folder.class_names
        label_of = {folder.source(i): int(folder.labels[i]) for i in range(len(folder))}
        assert {ds.source(i): int(ds.labels[i]) for i in range(len(ds))} == label_of
        extract(ds, tmp_path / "out")
        assert ds.verify().good
    assert tree(tmp_path / "out") == tree(photos)


def test_the_folder_may_be_the_empty_one_we_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = DtsBuilder([FLAT[:1]]).write(tmp_path / "a.dts")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with DtsReader(path) as ds:
        assert extract(ds, ".").path == str(tmp_path / "here")
    assert tree(tmp_path / "here") == {FLAT[0][2]: FLAT[0][0]}


def test_a_genuine_file_extracts_under_numbers(tmp_path: Path) -> None:
    png = (b"\x89PNG and more", 2, "")
    path = DtsBuilder([[*FLAT[:2], png]], extension=False).write(tmp_path / "a.dts")
    with DtsReader(path) as ds:
        extract(ds, tmp_path / "out")
    assert tree(tmp_path / "out") == {
        "0/00000000.JPEG": FLAT[0][0],
        "1/00000001.JPEG": FLAT[1][0],
        "2/00000002.png": png[0],
    }


def test_classes_without_pictures_keep_their_folders(tmp_path: Path) -> None:
    with DtsReader(DtsBuilder([FLAT[:1]]).write(tmp_path / "a.dts")) as ds:
        extract(ds, tmp_path / "out")
    assert sorted(folder.name for folder in (tmp_path / "out").iterdir()) == ["ant", "bee", "cat"]


HOSTILE_PATHS = [
    "../escaped.JPEG",
    "ant/../../escaped.JPEG",
    "/tmp/escaped.JPEG",
    "ant//x.JPEG",
    "ant/./x.JPEG",
    "ant/",
    "ant",
    "",
    "ant\\..\\x.JPEG",
    "C:/x.JPEG",
    "ant/" + "x" * 300,
    "..",
    "ant/x\n.JPEG/..",
]


def test_no_path_in_a_file_leads_out_of_the_folder(tmp_path: Path) -> None:
    hostile: list[Picture] = [(b"\xff\xd8 %d" % n, 0, path) for n, path in enumerate(HOSTILE_PATHS)]
    (tmp_path / "inside").mkdir()
    with DtsReader(DtsBuilder([hostile]).write(tmp_path / "inside" / "a.dts")) as ds:
        result = extract(ds, tmp_path / "inside" / "out")
    assert sorted(tree(tmp_path / "inside" / "out").values()) == sorted(data for data, _, _ in hostile)
    assert {p.name for p in tmp_path.iterdir()} == {"inside"}
    assert {p.name for p in (tmp_path / "inside").iterdir()} == {"a.dts", "out"}
    assert len(result.renamed) == len([path for path in HOSTILE_PATHS if path])


def test_two_samples_of_one_name_are_both_written(tmp_path: Path) -> None:
    same: list[Picture] = [
        (b"first", 0, "ant/x.JPEG"),
        (b"second", 0, "ant/x.JPEG"),
        (b"third", 0, "ant/x.JPEG/y.JPEG"),
    ]
    with DtsReader(DtsBuilder([same]).write(tmp_path / "a.dts")) as ds:
        result = extract(ds, tmp_path / "out")
    assert sorted(tree(tmp_path / "out").values()) == [b"first", b"second", b"third"]
    assert result.renamed == [1, 2]


@given(path=st.text(alphabet=st.sampled_from("ab./\\:\0 é"), max_size=12))
def test_a_safe_path_stays_below(path: str) -> None:
    if is_safe(path):
        assert os.path.normpath(f"/root/{path}") == f"/root/{path}"


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        (("a", "b"), ["a", "b"]),
        (("a", ".."), ["a", "%2E%2E"]),
        (("a", "a"), ["a", "a%1"]),
        (("a", "b/c"), ["a", "b%2Fc"]),
        (("", "b"), ["%", "b"]),
        (("a:b", "a%3Ab"), ["a%3Ab%0", "a%3Ab"]),
        (("a:b", "a\\b", "c"), ["a%3Ab", "a%5Cb", "c"]),
        (("x" * 300, "b"), ["x" * 200 + "%0", "b"]),
        (("trainload-classes.json", "b"), ["trainload-classes%2Ejson", "b"]),
        ((), ["0", "1"]),
    ],
)
def test_an_unsafe_class_name_renames_only_itself(names: tuple[str, ...], folders: list[str]) -> None:
    assert class_folders(names, 2) == folders
    assert class_folders((), 1000)[7] == "007"


@pytest.mark.parametrize(
    "names",
    [("a:b", "c", "d"), ("zebra", "ant", "bee"), ("train", "val", "test"), (".cat", "b/c", ".."), ("", "x", "y")],
)
def test_an_extracted_set_opens_and_packs_to_the_same_classes_and_labels(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    flat = [(encoded(picture(n)), n % 3, f"{names[n % 3]}/p{n}.jpg") for n in range(9)]
    section = {dts.TAG_CLASSES: zstd_compress(dts.names_to_bytes(list(names)))}
    with DtsReader(DtsBuilder([flat], sections=section).write(tmp_path / "a.dts")) as ds:
        result = extract(ds, tmp_path / "out")
        assert ds.class_names == names
    assert result.renamed == []
    tl.pack_images(tmp_path / "out", tmp_path / "b.dts", level=0, jobs=1)
    for again in (tl.open(tmp_path / "out"), tl.open(tmp_path / "b.dts")):
        assert again.class_names == names  # type: ignore[union-attr]
        label_of = {bytes(again[i].data): again[i].label for i in range(9)}  # type: ignore[index]
        assert label_of == {data: label for data, label, _ in flat}


def test_a_carried_path_below_another_class_does_not_change_the_label(tmp_path: Path) -> None:
    odd: list[Picture] = [(b"first", 0, "bee/x.JPEG"), (b"second", 1, "bee/._x.JPEG"), (b"third", 2, "cat/y.JPEG")]
    with DtsReader(DtsBuilder([odd]).write(tmp_path / "a.dts")) as ds:
        assert extract(ds, tmp_path / "out").renamed == [0, 1]
    assert tree(tmp_path / "out") == {
        "ant/00000000.JPEG": b"first",
        "bee/00000001.JPEG": b"second",
        "cat/y.JPEG": b"third",
    }


def test_extract_refuses_a_folder_with_something_in_it_and_a_damaged_block(tmp_path: Path) -> None:
    path = DtsBuilder([FLAT]).write(tmp_path / "a.dts")
    fill(tmp_path / "full", {"x": b""})
    with DtsReader(path) as ds, pytest.raises(UsageError, match="new or empty"):
        extract(ds, tmp_path / "full")
    with path.open("r+b") as file:
        file.seek((16 << 20) + 5000)
        file.write(b"\xaa")
    with DtsReader(path) as ds, pytest.raises(FormatError, match="block 0"):
        extract(ds, tmp_path / "out")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.dts", "full"]  # nothing is in the next run's way


def test_arrays_extract_as_png(tmp_path: Path) -> None:
    written = pack_arrays("mnist", as_folder(FILES["mnist"], tmp_path), tmp_path)
    with tl.open_images(written[1]["path"]) as ds:
        extract(ds, tmp_path / "out")  # type: ignore[arg-type]
        for i in range(len(ds)):
            with Image.open(tmp_path / "out" / str(ds.labels[i]) / f"{i:08}.png") as picture:
                assert (np.array(picture)[..., None] == ds.pixels[i]).all()  # type: ignore[union-attr]


def run(*args: object) -> tuple[int, str]:
    for verb in VERBS.values():
        import_module(f"trainload.cli.{verb}")
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    return result.exit_code, result.stdout


def test_info_verify_and_extract_print_their_facts_as_json(tmp_path: Path) -> None:
    path = DtsBuilder([FLAT]).write(tmp_path / "a.dts")
    code, out = run("info", path, "--json")
    assert (code, json.loads(out)["samples"]) == (0, 14)
    code, out = run("verify", path, "--json")
    assert (code, json.loads(out)["good"]) == (0, True)
    code, out = run("extract", path, tmp_path / "out", "--json")
    assert (code, json.loads(out)["samples"]) == (0, 14)
    code, out = run("info", tmp_path / "out", "--json")
    assert (code, json.loads(out)["samples"]) == (0, 14)
    assert "bee" in run("info", path)[1]


def test_verify_exits_1_and_shows_where_the_damage_is(tmp_path: Path) -> None:
    path = DtsBuilder([FLAT]).write(tmp_path / "a.dts")
    with path.open("r+b") as file:
        file.seek((16 << 20) + 4100)
        file.write(b"\xaa")
    code, out = run("verify", path, "--jobs", 1)
    assert code == 1
    assert "ant/000000.JPEG" in out and "block 0" in out
    code, out = run("verify", path, "--jobs", 1, "--json")
    assert code == 1
    assert {"ant/000000.JPEG"} <= {finding["source"] for finding in json.loads(out)["findings"]}


def test_pack_verbs_of_arrays_print_json(tmp_path: Path) -> None:
    src = as_folder(FILES["cifar100"], tmp_path)
    code, out = run("pack", "cifar100", src, tmp_path / "out", "--json")
    assert code == 0
    assert [entry["samples"] for entry in json.loads(out)["written"]] == [9, 4]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["info", "{good}"], 0),
        (["verify", "{good}"], 0),
        (["verify", "{bad}"], 1),
        (["info", "{bad}"], 1),
        (["extract", "{good}", "{folder}"], 2),
        (["info", "{folder}/none*"], 2),
        (["verify", "{folder}"], 2),
        (["info", "{folder}/absent"], 3),
        (["verify", "{folder}/absent"], 3),
    ],
)
def test_exit_codes_are_0_good_1_bad_data_2_usage_3_system(
    args: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"good": DtsBuilder([FLAT]).write(tmp_path / "a.dts"), "folder": tmp_path, "bad": tmp_path / "bad.dts"}
    places["bad"].write_bytes(b".DTS and nothing more")
    monkeypatch.setattr("sys.argv", ["trainload", *(arg.format(**places) for arg in args)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert (caught.value.code or 0) == code


def test_a_folder_has_the_pictures_and_the_ids_that_pack_takes_from_it(tmp_path: Path) -> None:
    files = {f"{'ab'[n % 2]}/{n:02}{ending}": b"x" for n, ending in enumerate(PICTURE_ENDINGS)}
    files |= {f"{'ba'[n % 2]}/{n:02}{ending.upper()}": b"y" for n, ending in enumerate(PICTURE_ENDINGS)}
    fill(tmp_path, files | {"a/notes.txt": b"", "b/x.heic": b""})
    table = open_source(tmp_path)[""]
    with tl.open_images(tmp_path) as ds:
        assert isinstance(ds, FolderReader) and len(ds) == 2 * len(PICTURE_ENDINGS)
        assert [ds.source(i) for i in range(len(ds))] == [table.name(n) for n in range(len(table))]
        assert ds.labels.tolist() == table.labels.tolist()
