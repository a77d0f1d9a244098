"""Where the command line prints. Names, paths and messages are text: no markup, no emoji, no control characters."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from trainload.formats.printable import printable


class Terminal(Console):
    """A console on stdout, or with `errors` on stderr, that shows every string as it is."""

    def __init__(self, *, errors: bool = False) -> None:
        super().__init__(stderr=errors, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """`text` without markup; cells and titles of tables come through here as well as lines."""
        return super().render_str(plain(text), **{**options, "markup": False, "emoji": False, "highlight": False})

    def complain(self, kind: str, error: object) -> None:
        """One line: what kind of trouble, in red, and the message."""
        self.print(Text.assemble((f"{kind}:", "red"), " ", printable(str(error))), soft_wrap=True)


def plain(text: str) -> str:
    """`text`, whose line ends stay, with everything else that is not printable spelt out."""
    return "\n".join(map(printable, text.split("\n")))
