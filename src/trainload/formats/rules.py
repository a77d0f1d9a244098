"""The rules that files are held to: what a Rule is, and those that both formats share.

Each format's own rules lie in its `format/` room. docs/errors.md lists all of them; a test holds both equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainload.errors import ChecksumError, FormatError, LimitError, TruncatedError


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a file format.

    id: stable, for programs. sentence: for people; parts in braces are filled in where it is broken. section: where the
    format's own text has it. error: the type that a broken rule raises.
    """

    id: str
    sentence: str
    section: str
    error: type[FormatError] = FormatError

    def broken(
        self, *, field: str, offset: int | None, found: object, expected: object, path: str = "", **parts: object
    ) -> FormatError:
        """The error to raise at one place (FormatError says what the arguments are). parts: those of the sentence."""
        sentence = self.sentence.format_map(parts)
        return self.error(
            sentence, rule_id=self.id, field=field, offset=offset, found=found, expected=expected, path=path
        )


LIMIT = Rule("number.limit", "a number exceeds its limit", "DTS 9, HFRM 7", LimitError)
SECTION_HEAD = Rule("section.head", "a section head must be whole", "DTS 8, HFRM 7", TruncatedError)
SECTION_END = Rule("section.end", "a section must end inside the section list", "DTS 8, HFRM 7", TruncatedError)
SECTION_CRC = Rule("section.crc", "a section's CRC-32 must match its body", "DTS 8, HFRM 7", ChecksumError)
FILE_MAGIC = Rule("file.magic", "a file must open with the magic of a known container", "DTS 1, HFRM 1")
MANIFEST = Rule("set.manifest", "the list of a set's volumes must be as docs/cluster.md has it", "")
FILE_END = Rule("file.end", "the file must hold every byte that is read", "", TruncatedError)
