"""How a long piece of work says how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What is called now and then with how much is done, and how much there is in all; the last time with all done.

    The function that takes it says what is counted: bytes, frames, messages. The total may change where a source does
    not know it at first. An exception that it raises ends the work as an error would.
    """

    def __call__(self, done: int, total: int, /) -> None: ...
