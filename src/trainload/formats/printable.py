"""Text from outside, such as a name or a path, as one line that a terminal neither hides nor acts on."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with what is not printable (escapes, bells, line ends, reversed writing, half characters) spelt out.

    Such a character becomes its Python escape: \\x1b.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
