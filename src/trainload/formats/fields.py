"""The few checks that every record needs, with the error that names the place."""

from __future__ import annotations

from trainload.formats.rules import LIMIT, Rule


class Checker:
    """Raises the errors of rules for one file: `require` for a rule, `limit` for a number with an upper bound."""

    def __init__(self, path: str, base_offset: int = 0) -> None:
        self.path = path
        self.base_offset = base_offset

    def require(
        self,
        good: bool,
        rule: Rule,
        *,
        field: str,
        offset: int | None,
        found: object,
        expected: object,
        **parts: object,
    ) -> None:
        """Raise the rule's error unless `good`. `offset` counts from this checker's base offset. parts: as in Rule."""
        if not good:
            at = None if offset is None else self.base_offset + offset
            raise rule.broken(field=field, offset=at, found=found, expected=expected, path=self.path, **parts)

    def limit(self, value: int, most: int, *, field: str, offset: int | None) -> None:
        """Raise LimitError where a number read from the file exceeds what its kind may be."""
        self.require(
            value <= most,
            LIMIT,
            field=field,
            offset=offset,
            found=f"{value:,}",
            expected=f"at most {most:,}",
        )
