"""A contender in a process of its own, so that no side runs in what another has left in memory or on threads."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any


class SideProcess:
    """Answers when it is asked, and otherwise waits. Ends with its `with` block.

    make(*args), called in the new process, gives the function that makes an answer of what was asked.
    """

    def __init__(self, make: Callable[..., Callable[[Any], Any]], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(make, args, other))

    def ask(self, question: Any) -> Any:
        """The answer, once it is there; a question is anything but None."""
        self._pipe.send(question)
        return self._pipe.recv()

    def __enter__(self) -> SideProcess:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join()


def _serve(make: Callable[..., Callable[[Any], Any]], args: tuple[Any, ...], pipe: Any) -> None:
    answer = make(*args)
    while (question := pipe.recv()) is not None:
        pipe.send(answer(question))
