"""The few checks that every record needs, with the error that names the place."""

from __future__ import annotations

from trainload.errors import FormatError


class Checker:
    """Raises FormatErrors for one file: `require` for a rule, `limit` for a number with an upper bound."""

    def __init__(self, path: str, base_offset: int = 0) -> None:
        self.path = path
        self.base_offset = base_offset

    def require(
        self, good: bool, rule: str, *, field: str, offset: int | None, found: object, expected: object
    ) -> None:
        """Raise FormatError unless `good`. `offset` counts from this checker's base offset."""
        if not good:
            at = None if offset is None else self.base_offset + offset
            raise FormatError(rule, field=field, offset=at, found=found, expected=expected, path=self.path)

    def limit(self, value: int, most: int, *, field: str, offset: int | None) -> None:
        """Raise FormatError where a number read from the file exceeds what its kind may be."""
        self.require(
            value <= most,
            "a number exceeds its limit",
            field=field,
            offset=offset,
            found=f"{value:,}",
            expected=f"at most {most:,}",
        )
