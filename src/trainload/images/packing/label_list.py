"""The classes of pictures that lie in no class folders, as a list gives them; parsed, and matched with the pictures.

A list has a line per picture: `name class`, a CSV, or the class alone, in the order of the pictures' names (as the
development kit of ILSVRC2012 has it). Every picture needs one label and every label a picture.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import UsageError
from trainload.formats.picture_kinds import PICTURE_ENDINGS
from trainload.formats.printable import printable
from trainload.images.classes.class_list import some
from trainload.images.packing.ilsvrc2012 import wordnet_ids
from trainload.storage.file import FileSource

MAX_LABEL_LIST_BYTES = 64 << 20
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"  # in the development kit: an ILSVRC2012_ID per line
_KIT_BYTES = 64 << 20  # unpacked, up to the ground truth; the genuine one has 6 MB
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_DIGITS = 9
_AMBIGUOUS = -2  # in the place of a picture's position
_NAME_COLUMNS = (
    "imageid",
    "image_id",
    "image",
    "image_name",
    "img",
    "filename",
    "file_name",
    "file",
    "path",
    "name",
    "id",
)
_CLASS_COLUMNS = ("predictionstring", "wnid", "synset", "class", "class_name", "category", "label", "target")
_ILSVRC_PICTURE = re.compile(r"ILSVRC2012_val_(\d{8})\.")


@dataclass(frozen=True, slots=True)
class LabelList:
    """names: of the pictures, None where the classes come in the order of the pictures. classes: as they are written.

    first_line: where the first of them stands in the file, for errors.
    """

    names: tuple[str, ...] | None
    classes: tuple[str, ...]
    first_line: int
    path: str

    def classes_of(self, pictures: Sequence[str], known: Sequence[str] | None) -> list[str]:
        """The class of each picture. pictures: file names in any order. known: all classes in label order, if given.

        Numbers are labels, from 0, of the known classes; without picture names they are ILSVRC2012_IDs. Raises
        UsageError for a picture without a label, a label without a picture, two of one, and an unknown class.
        """
        rows = self._rows_in_order(pictures) if self.names is None else self._rows_by_name(pictures, self.names)
        by_number = self._classes_by_number(pictures, known)
        names = None if known is None else set(known)
        class_of = {text: self._class(text, names, by_number) for text in dict.fromkeys(self.classes)}
        return [class_of[self.classes[row]] for row in rows]

    # ---- which line is which picture's ------------------------------------------------------------------------------

    def _rows_in_order(self, pictures: Sequence[str]) -> list[int]:
        order = sorted(range(len(pictures)), key=lambda n: os.fsencode(pictures[n]))
        numbers = [int(found[1]) for n in order if (found := _ILSVRC_PICTURE.match(pictures[n]))]
        gap = next((n for n, number in enumerate(numbers, 1) if number != n), None)
        if len(numbers) == len(pictures) and gap is not None and gap <= len(self.classes):
            raise UsageError(
                f"labels without names go by the pictures' order, and ILSVRC2012_val_{gap:08} is missing: {self.path}"
            )
        if len(self.classes) != len(pictures):
            raise UsageError(f"{len(self.classes):,} labels for {len(pictures):,} pictures: {self.path}")
        rows = [0] * len(pictures)
        for row, n in enumerate(order):
            rows[n] = row
        return rows

    def _rows_by_name(self, pictures: Sequence[str], names: Sequence[str]) -> list[int]:
        picture_of = _by_name(pictures)
        rows = [-1] * len(pictures)
        for row, name in enumerate(names):
            n = picture_of.get(name, picture_of.get(name.rpartition("/")[2], -1))
            if n < 0:
                told = "two pictures differ only by their endings from" if n == _AMBIGUOUS else "there is no picture"
                raise UsageError(f"line {self.first_line + row} of the labels: {told} {printable(name)}: {self.path}")
            if rows[n] >= 0:
                lines = f"lines {self.first_line + rows[n]} and {self.first_line + row}"
                raise UsageError(f"{lines} of the labels are of one picture, {printable(name)}: {self.path}")
            rows[n] = row
        unlabelled = [picture for picture, row in zip(pictures, rows) if row < 0]
        if unlabelled:
            raise UsageError(
                f"{len(unlabelled):,} of {len(pictures):,} pictures have no label ({some(unlabelled)}): {self.path}"
            )
        return rows

    # ---- which class a line means -----------------------------------------------------------------------------------

    def _classes_by_number(self, pictures: Sequence[str], known: Sequence[str] | None) -> dict[int, str] | str:
        """The class of each number that may stand for one; or why none may."""
        if self.names is not None:
            if known is not None:
                return dict(enumerate(known))
            return "a number needs all classes in label order: give them by classes= or --classes"
        if all(map(_ILSVRC_PICTURE.match, pictures)):
            return dict(enumerate(wordnet_ids(), 1))
        return (
            "a number without a picture's name is an ILSVRC2012_ID, and these are other pictures: "
            "give lines of picture name and class"
        )

    def _class(self, text: str, known: set[str] | None, by_number: dict[int, str] | str) -> str:
        name = text
        if text.isdecimal() and not (known and text in known):
            if isinstance(by_number, str):
                raise self._wrong(text, by_number)
            name = by_number.get(int(text) if len(text) <= _MAX_DIGITS else -1, "")
            if not name:
                numbers = f"{min(by_number):,} to {max(by_number):,}"
                raise self._wrong(text, f"{text} is no number of a class, which go from {numbers}")
        if known is not None and name not in known:
            raise self._wrong(text, f"{printable(name)} is none of the {len(known):,} classes")
        if not name or "/" in name:
            raise self._wrong(text, f"a class needs a name without slashes, not {name!r}")
        return name

    def _wrong(self, text: str, told: str) -> UsageError:
        return UsageError(f"line {self.first_line + self.classes.index(text)} of the labels: {told}: {self.path}")


def _by_name(pictures: Sequence[str]) -> dict[str, int]:
    """The position of each picture by its name, and by its name without the ending (_AMBIGUOUS where two share it)."""
    found: dict[str, int] = {}
    for n, picture in enumerate(pictures):
        stem, dot, ending = picture.rpartition(".")
        if dot + ending.lower() in PICTURE_ENDINGS:
            found[stem] = _AMBIGUOUS if stem in found else n
    return found | {picture: n for n, picture in enumerate(pictures)}


def read_label_list(path: str | os.PathLike[str]) -> LabelList:
    """The list of a file, or the ground truth in a tar of ILSVRC2012's development kit (.tar.gz).

    Raises UsageError for what is no such list, OSError.
    """
    name = os.fspath(path)
    with FileSource(name) as source:
        if source.read_at(0, min(2, source.size)) == _GZIP_MAGIC:
            data = _ground_truth(name)
        elif source.size > MAX_LABEL_LIST_BYTES:
            raise UsageError(f"a list of labels has at most {MAX_LABEL_LIST_BYTES:,} bytes: {name}")
        else:
            data = source.read_at(0, source.size)
    return label_list_from_text(data, name)


def _ground_truth(path: str) -> bytes:
    """GROUND_TRUTH of the development kit; unpacks no more than `_KIT_BYTES`."""
    try:
        with gzip.open(path) as file:
            kit = tarfile.TarFile(fileobj=io.BytesIO(file.read(_KIT_BYTES)))
        while member := kit.next():
            if member.size < 0:
                raise tarfile.TarError("a negative size")
            if member.isreg() and Path(member.name).name == GROUND_TRUTH:
                found = kit.extractfile(member)
                return b"" if found is None else found.read()
    except Exception as error:  # what tarfile makes of hostile numbers is of many types
        raise UsageError(f"no list of labels and no whole development kit ({error}): {path}") from error
    raise UsageError(f"the archive has no {GROUND_TRUTH}, give a list of labels: {path}")


def label_list_from_text(data: bytes, path: str) -> LabelList:
    """The list of a file's bytes, UTF-8. Raises UsageError where it is none."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = [line.removesuffix("\r") for line in text.rstrip("\r\n").split("\n")]
    if lines == [""] or "\0" in text:
        raise UsageError(f"a list of labels has a line of text for each picture: {path}")
    empty = next((n for n, line in enumerate(lines, 1) if not line.strip()), 0)
    if empty:
        raise UsageError(f"line {empty} of the labels is empty: {path}")
    rows = [[field.strip() for field in row] for row in _rows(lines, path)]
    odd = next((n for n, row in enumerate(rows, 1) if len(row) != len(rows[0])), 0)
    if odd:
        fields = f"{len(rows[odd - 1])} fields, the first has {len(rows[0])}"
        raise UsageError(f"line {odd} of the labels has {fields}: {path}")
    titles = [field.lower() for field in rows[0]] if _is_header(rows[0]) else []
    of_name, of_class = _columns(titles, len(rows[0]), path)
    rows = rows[bool(titles) :]
    if not rows:
        raise UsageError(f"the list of labels has titles and nothing more: {path}")
    classes = [row[of_class] for row in rows]
    if titles and titles[of_class] == _CLASS_COLUMNS[0]:  # class and box, any number of times
        classes = [text.partition(" ")[0] for text in classes]
    names = None if of_name is None else tuple(row[of_name] for row in rows)
    return LabelList(names, tuple(classes), 1 + bool(titles), path)


def _is_header(row: list[str]) -> bool:
    titles = {field.lower() for field in row}
    of_picture = any(field.lower().endswith(PICTURE_ENDINGS) for field in row)
    return len(row) > 1 and not of_picture and not titles.isdisjoint({*_NAME_COLUMNS, *_CLASS_COLUMNS})


def _rows(lines: list[str], path: str) -> Iterator[list[str]]:
    """The fields of each line: parted by commas, tabs, or the first space."""
    comma_first = re.match(r"[^\s,]+,", lines[0])
    if path.lower().endswith(".csv") or "\t" in lines[0] or comma_first:
        delimiter = "\t" if "\t" in lines[0] else ","
        try:
            yield from csv.reader(lines, delimiter=delimiter, strict=True)
        except csv.Error as error:
            raise UsageError(f"no CSV ({error}): {path}") from error
    else:
        yield from (line.split(maxsplit=1) for line in lines)


def _columns(header: list[str], count: int, path: str) -> tuple[int | None, int]:
    """Which column has the picture's name, None for none, and which one its class."""
    if count == 1:
        return None, 0
    name = next((n for n, title in enumerate(header) if title in _NAME_COLUMNS), None)
    label = next((n for n, title in enumerate(header) if title in _CLASS_COLUMNS), None)
    if count == 2:
        name = name if name is not None else 0 if label is None else 1 - label
        return name, 1 - name
    if name is None or label is None:
        raise UsageError(f"of {count} columns titles must say which are picture and class (image, class): {path}")
    return name, label
