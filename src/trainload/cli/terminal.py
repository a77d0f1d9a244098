"""Where the command line prints. Names, paths and messages are text: no markup, no emoji, no control characters."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text


class Terminal(Console):
    """A console on stdout, or with `errors` on stderr, that shows every string as it is."""

    def __init__(self, *, errors: bool = False) -> None:
        super().__init__(stderr=errors, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """`text` without markup; cells and titles of tables come through here as well as lines."""
        return super().render_str(plain(text), **{**options, "markup": False, "emoji": False, "highlight": False})

    def complain(self, kind: str, error: object) -> None:
        """One line: what kind of trouble, in red, and the message."""
        self.print(Text.assemble((f"{kind}:", "red"), " ", one_line(str(error))), soft_wrap=True)


def plain(text: str) -> str:
    """`text` with what a terminal would act on (escapes, bells, reversed writing, half characters) spelt out.

    Line ends stay; everything else that is not printable becomes its Python escape, such as \\x1b.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def one_line(text: str) -> str:
    """As `plain`, with line ends spelt out too: a name cannot pretend to be the next message."""
    return plain(text).replace("\n", "\\n")
