"""Where the links of a tar lead: hard and symbolic ones, chains, forward references, links to folders. Names only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cached_property

from trainload.images.classes import left_out as reasons
from trainload.images.format import rules

MAX_HOPS = 40  # links on one way, as in Linux
MAX_PATH_BYTES = 4096  # no system makes a longer link
MAX_COPIES = 8  # files by links to folders, for each member of the archive

Found = tuple[bytes, bytes | str]  # the link's path, and the path of its file, or the reason why it has none


class TarLinks:
    """The links of one archive. files, folders: the paths of its regular files and folders (those of paths may miss).

    symbolic: where each leads, from its own folder. hard: from the archive's top.
    """

    def __init__(
        self,
        files: Set[bytes],
        folders: Set[bytes],
        symbolic: Mapping[bytes, bytes],
        hard: Mapping[bytes, bytes],
        path: str,
    ) -> None:
        self._files = files
        self._symbolic = symbolic
        self._hard = hard
        self._folders = {*folders, *_parents([*files, *symbolic, *hard])}
        self._path = path
        self._left = MAX_COPIES * (len(files) + len(symbolic) + len(hard)) + 1000
        self.linked_folders: set[bytes] = set()

    def resolve(self) -> Iterator[Found]:
        """Every link, and every file that is reached by a link to a folder. `linked_folders` collects those links.

        Raises FormatError where such links multiply the archive's files.
        """
        for link in (*self._hard, *self._symbolic):
            yield from self._follow(link, link, ())

    def _follow(self, shown: bytes, link: bytes, way: tuple[bytes, ...]) -> Iterator[Found]:
        """What the link at `link`, which is seen at `shown`, leads to; `way`: the linked folders it lies in."""
        end = self._end_of(link)
        if isinstance(end, str) or end in self._files:
            yield shown, end
        elif end not in self._folders:
            yield shown, reasons.DANGLING
        elif len(way) >= MAX_HOPS or end in way or not end or link.startswith(end + b"/"):
            yield shown, reasons.LOOP
        else:
            self.linked_folders.add(shown)
            for inner in self._below(end):
                self._count_one()
                seen = shown + inner[len(end) :]
                if inner in self._files:
                    yield seen, inner
                else:
                    yield from self._follow(seen, inner, (*way, end))

    def _count_one(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise rules.TAR_LINKS.broken(
                field="tar links",
                offset=None,
                found=f"more than {MAX_COPIES} for each member",
                expected="fewer",
                path=self._path,
            )

    def _end_of(self, link: bytes) -> bytes | str:
        """The path that a link leads to in the end, no link itself; or a reason."""
        first = self._hard.get(link)
        folder, target = (b"", first) if first is not None else (link.rpartition(b"/")[0], self._symbolic[link])
        done = folder.split(b"/") if folder else []
        parts = target.split(b"/")[::-1]
        if target.startswith(b"/"):
            return reasons.OUTSIDE
        for _ in range(MAX_HOPS):
            if sum(map(len, done)) + sum(map(len, parts)) > MAX_PATH_BYTES:
                return reasons.DANGLING
            stop = self._to_next_link(done, parts)
            if stop is not None:
                return stop
            here = b"/".join(done)
            if here in self._hard:
                done, more = [], self._hard[here]
            elif here in self._symbolic:
                done.pop()
                more = self._symbolic[here]
            else:
                return here
            if more.startswith(b"/"):
                return reasons.OUTSIDE
            parts += more.split(b"/")[::-1]
        return reasons.LOOP

    def _to_next_link(self, done: list[bytes], parts: list[bytes]) -> str | None:
        """Move parts to `done` until that is a link or nothing is left. A reason where the way leaves the archive."""
        while parts:
            part = parts.pop()
            if part == b"..":
                if not done:
                    return reasons.OUTSIDE
                done.pop()
            elif part not in (b"", b"."):
                done.append(part)
                here = b"/".join(done)
                if here in self._symbolic or (here in self._hard and not parts):
                    return None
        return None

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted({*self._files, *self._symbolic, *self._hard})

    def _below(self, folder: bytes) -> list[bytes]:
        """The files and links below a folder."""
        start, end = bisect_left(self._sorted, folder + b"/"), bisect_left(self._sorted, folder + b"0")  # after "/"
        return self._sorted[start:end]


def _parents(paths: Iterable[bytes]) -> set[bytes]:
    """Every folder on the way to one of the paths."""
    found = {b""}
    for path in paths:
        while path := path.rpartition(b"/")[0]:
            if path in found:
                break
            found.add(path)
    return found
