"""What a tar holds, as class folders: links resolved, replaced members and shared top folders left off."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from trainload.errors import UsageError
from trainload.images.classes import left_out as reasons
from trainload.images.classes.class_list import CLASSES_FILE, MAX_CLASS_LIST_BYTES, ClassList, class_list_from_json
from trainload.images.classes.folder_rules import SPLITS, find_splits, is_hidden
from trainload.images.classes.left_out import LeftOut
from trainload.images.classes.picture_rows import PictureRows, has_ending
from trainload.images.packing.source_files import ObjectFiles, TarFiles
from trainload.images.packing.source_tar import Member, MemberKind, tar_members
from trainload.images.packing.tar_links import TarLinks


class TarRows:
    """The files of one archive, and of the tars in it, links among them. Raises as `tar_members` does.

    objects: read these objects of a bucket in place of an archive, each a member.
    """

    def __init__(
        self, path: str | os.PathLike[str], asked: ClassList | None, objects: ObjectFiles | None = None
    ) -> None:
        self.path = os.fspath(path)
        self.files: TarFiles | ObjectFiles = objects or TarFiles(self.path)
        self._asked = asked
        self._all = PictureRows()
        self._dropped: set[int] = set()  # rows
        self._folders: set[bytes] = set()
        self._links: dict[bytes, tuple[Member, int]] = {}  # and the number of files before it
        self._broken: list[tuple[bytes, str]] = []  # links, and why they lead nowhere
        self._unused: list[tuple[bytes, str]] = []  # members that are neither files nor links, and replaced ones
        self._prefix = b""
        self._splits: tuple[str, ...] = ()
        for member in _object_members(objects) if objects else tar_members(path):
            self._take(member)
        self._drop_replaced()
        if self._links:
            self._resolve()

    def _take(self, member: Member) -> None:
        name = os.fsencode(member.name)
        if member.kind is MemberKind.FILE:
            self._all.add(name, member.size, member.place)
        elif member.kind is MemberKind.FOLDER:
            self._folders.add(name)
        elif member.kind in (MemberKind.SYMBOLIC_LINK, MemberKind.HARD_LINK):
            self._links[name] = (member, len(self._all))
        else:
            sparse = member.kind is MemberKind.SPARSE
            self._unused.append((name, reasons.SPARSE if sparse else reasons.SPECIAL))

    def _drop_replaced(self) -> None:
        """Of members with one name the last one counts, as it does when an archive is unpacked."""
        names = self._all.names
        if len(set(names)) == len(names) and not self._links:
            return
        last = {name: n for n, name in enumerate(names)}
        for name, (_, before) in [*self._links.items()]:
            if last.get(name, -1) >= before:
                del self._links[name]
                self._unused.append((name, reasons.REPLACED))
            else:
                last.pop(name, None)
        kept = set(last.values())
        self._dropped = {n for n in range(len(names)) if n not in kept}
        self._unused += [(names[n], reasons.REPLACED) for n in sorted(self._dropped)]

    def _resolve(self) -> None:
        row_of = {name: n for n, name in enumerate(self._all.names) if n not in self._dropped}
        hard: dict[bytes, bytes] = {}
        symbolic: dict[bytes, bytes] = {}
        for name, (member, _) in self._links.items():
            targets = hard if member.kind is MemberKind.HARD_LINK else symbolic
            targets[name] = os.fsencode(member.target)
        links = TarLinks(row_of.keys(), self._folders, symbolic, hard, self.path)
        for shown, end in links.resolve():
            if isinstance(end, str):
                self._broken.append((shown, end))
            else:
                self._all.add(shown, self._all.sizes[row_of[end]], self._all.places[row_of[end]])
        self._folders |= links.linked_folders

    # ---- the top ----------------------------------------------------------------------------------------------------

    def find_top(self, endings: Sequence[str], *, as_is: bool) -> tuple[str, ...]:
        """Take off the folders that all pictures share; the splits that then lie there, () where it is classes.

        Raises UsageError for splits in the place of classes.
        """
        pictures = [name for name in self._names() if b"/" in name and self._is_picture(name, endings)]
        while tops := {name[len(self._prefix) :].partition(b"/")[0] for name in pictures}:
            shared = len(tops) == 1 and all(name.count(b"/", len(self._prefix)) >= 2 for name in pictures)
            names = {os.fsdecode(top) for top in tops}
            if not shared or (names <= set(SPLITS) and not as_is):
                where = os.path.join(self.path, os.fsdecode(self._prefix)).rstrip("/")  # noqa: PTH118
                self._splits = find_splits(where, names, self._holds_folders, self._list_at(self._prefix), as_is)
                break
            self._prefix += tops.pop() + b"/"
        return self._splits

    def _names(self) -> Iterator[bytes]:
        return (name for n, name in enumerate(self._all.names) if n not in self._dropped)

    def _is_picture(self, name: bytes, endings: Sequence[str]) -> bool:
        return not _hidden_part(name, set()) and has_ending(os.fsdecode(name), endings)

    def _holds_folders(self, folder: str) -> bool:
        start = self._prefix + os.fsencode(folder) + b"/"
        return any(name.startswith(start) and b"/" in name[len(start) :] for name in self._names())

    def _list_at(self, prefix: bytes) -> ClassList | None:
        """The classes as the caller or the archive's own CLASSES_FILE there lists them."""
        wanted = prefix + CLASSES_FILE.encode()
        for n, name in enumerate(self._all.names):
            if name == wanted and n not in self._dropped and self._all.sizes[n] <= MAX_CLASS_LIST_BYTES:
                data = self.files.read((name, self._all.places[n], self._all.sizes[n]))
                own = class_list_from_json(data, f"{self.path}/{os.fsdecode(wanted)}")
                return own if self._asked is None else own.in_order_of(self._asked)
        return self._asked

    # ---- what lies below it -----------------------------------------------------------------------------------------

    def below(self, split: str, endings: Sequence[str]) -> tuple[PictureRows, list[str], LeftOut, ClassList | None]:
        """The pictures of a split ("": of all), its class folders, what is not used, and the list of classes.

        What lies in no split is counted for the first one.
        """
        prefix = self._prefix + (os.fsencode(split) + b"/" if split else b"")
        given = self._list_at(prefix)
        listed = set() if given is None else {os.fsencode(folder) for folder in given.folders}
        rows, left_out, hidden = PictureRows(), LeftOut(), set()
        for n, name in enumerate(self._all.names):
            if n in self._dropped or not self._counts_for(split, name):
                continue
            path = name[len(prefix) :] if name.startswith(prefix) else name
            part = _hidden_part(path, listed)
            if part:
                if part not in hidden:
                    left_out.add(reasons.HIDDEN, os.fsdecode(part))
                hidden.add(part)
            elif path == CLASSES_FILE.encode():
                continue
            elif b"/" not in path or not name.startswith(prefix):
                left_out.add(reasons.NO_CLASS, os.fsdecode(path))
            elif not has_ending(os.fsdecode(path), endings):
                left_out.add(reasons.NO_PICTURE_NAME, os.fsdecode(path))
            else:
                rows.add(path, self._all.sizes[n], self._all.places[n])
        for name, reason in [*self._unused, *self._broken]:
            if self._counts_for(split, name):
                self._leave_out(name, prefix, reason, left_out)
        return rows, self._folders_below(prefix, listed, hidden, left_out), left_out, given

    def files_below(self, split: str) -> TarFiles | ObjectFiles:
        """What reads the pictures that `below` gives."""
        if isinstance(self.files, TarFiles):
            return self.files
        return self.files.below(os.fsdecode(self._prefix) + (f"{split}/" if split else ""))

    def flat_below(self, split: str, endings: Sequence[str]) -> tuple[PictureRows, LeftOut]:
        """The pictures of a split that has no class folders, by their names alone, and what is not used.

        Raises UsageError where they lie in more than one folder.
        """
        rows, left_out = PictureRows(), LeftOut()
        folders = set()
        for n, path in enumerate(self._all.names):
            if n in self._dropped or not self._counts_for(split, path):
                continue
            folder, _, name = path.rpartition(b"/")
            if self._is_picture(path, endings):
                folders.add(folder)
                rows.add(name, self._all.sizes[n], self._all.places[n])
            else:
                hidden = _hidden_part(path, set())
                left_out.add(reasons.HIDDEN if hidden else reasons.NO_PICTURE_NAME, os.fsdecode(hidden or path))
        for path, reason in [*self._unused, *self._broken]:
            if self._counts_for(split, path):
                left_out.add(reason, os.fsdecode(path))
        if len(folders) > 1:
            raise in_class_folders(self.path)
        return rows, left_out

    def _counts_for(self, split: str, name: bytes) -> bool:
        """Whether an entry belongs to that split, or to none and the split is the first."""
        if not split:
            return True
        inside = [each for each in self._splits if name.startswith(self._prefix + os.fsencode(each) + b"/")]
        return split == (inside or self._splits)[0]

    def _leave_out(self, name: bytes, prefix: bytes, reason: str, left_out: LeftOut) -> None:
        top = name[len(prefix) :]
        is_link = reason in (reasons.DANGLING, reasons.OUTSIDE)
        if is_link and name.startswith(prefix) and b"/" not in top and b"." not in top:
            raise UsageError(
                f"a link in the place of a class folder leads to nothing in the archive: {os.fsdecode(name)}: put what "
                f"it leads to into the archive, or leave the link out: {self.path}"
            )
        left_out.add(reason, os.fsdecode(name))

    def _folders_below(self, prefix: bytes, listed: set[bytes], hidden: set[bytes], left_out: LeftOut) -> list[str]:
        """The class folders: also those without files."""
        tops = {name[len(prefix) :].partition(b"/")[0] for name in self._folders if name.startswith(prefix)}
        for top in sorted(tops - hidden):
            if _hidden_part(top, listed):
                left_out.add(reasons.HIDDEN, os.fsdecode(top))
        return [os.fsdecode(top) for top in tops if top and not _hidden_part(top, listed)]


def _object_members(objects: ObjectFiles) -> Iterator[Member]:
    from trainload.storage.objects import below  # the extra trainload[remote]

    for name, size in below(objects.path):
        yield Member(name, MemberKind.FILE, size)


def in_class_folders(path: str) -> UsageError:
    """What a list of labels beside class folders is refused with."""
    return UsageError(f"a list of labels is for pictures that lie in no class folders, here they do: {path}")


def _hidden_part(path: bytes, listed: set[bytes]) -> bytes:
    """The path down to its first hidden folder or file, b"" where nothing is hidden; a listed class is not."""
    parts = path.split(b"/")
    for n, part in enumerate(parts):
        if is_hidden(os.fsdecode(part)) and not (n == 0 and part in listed):
            return b"/".join(parts[: n + 1])
    return b""
