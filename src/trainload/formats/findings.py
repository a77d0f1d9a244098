"""What a verification found: one Finding per damaged place, one Report per file or set. Knows no format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from trainload.errors import FormatError
from trainload.formats.rules import Rule


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule at one place.

    rule, rule_id, field, offset, found, expected, path: as in FormatError. end: exclusive end of the damaged byte
    range, where it is known. block, sample: numbers in the named file, from 0. source: the path the sample was packed
    from.
    """

    rule: str
    field: str
    offset: int | None
    found: str
    expected: str
    path: str
    end: int | None = None
    block: int | None = None
    sample: int | None = None
    source: str = ""
    rule_id: str = ""

    @staticmethod
    def of(
        rule: Rule,
        field: str,
        offset: int | None,
        found: object,
        expected: object,
        path: str,
        *,
        end: int | None = None,
        block: int | None = None,
        sample: int | None = None,
        source: str = "",
    ) -> Finding:
        """The finding of a broken rule."""
        return Finding(
            rule.sentence,
            field,
            offset,
            str(found),
            str(expected),
            path,
            end=end,
            block=block,
            sample=sample,
            source=source,
            rule_id=rule.id,
        )

    @staticmethod
    def from_error(error: FormatError, *, block: int | None = None, end: int | None = None) -> Finding:
        """The finding that says what a FormatError says."""
        return Finding(
            error.rule,
            error.field,
            error.offset,
            error.found,
            error.expected,
            error.path,
            end=end,
            block=block,
            rule_id=error.rule_id,
        )

    def __str__(self) -> str:
        places = [] if self.block is None else [f"block {self.block:,}"]
        if self.sample is not None:
            places.append(f"sample {self.sample:,}" + (f" ({self.source})" if self.source else ""))
        if self.offset is not None:
            places.append(f"byte {self.offset:,}" if self.end is None else f"bytes {self.offset:,} to {self.end:,}")
        values = f"({self.field}: found {self.found}, expected {self.expected})"
        return f"{self.path}: {', '.join(places)}{': ' if places else ''}{self.rule} {values}"


@dataclass(slots=True)
class Report:
    """The outcome of a verification: what was checked (counts by name) and what was found. `good` without findings.

    sets: where several sets or recordings were verified, the Report of each.
    """

    path: str
    checked: dict[str, int | str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    sets: list[Report] = field(default_factory=list)

    @staticmethod
    def of_sets(reports: Sequence[Report]) -> Report:
        """The Reports of several sets as one: counts are summed, findings follow each other."""
        total = Report(", ".join(report.path for report in reports), sets=list(reports))
        for report in reports:
            total.findings += report.findings
            for name, value in report.checked.items():
                known = total.checked.get(name)
                if isinstance(known, int) and isinstance(value, int):
                    total.checked[name] = known + value
                elif known is None or known == value:
                    total.checked[name] = value
                else:
                    total.checked[name] = "differs"
        return total

    @property
    def good(self) -> bool:
        """True where nothing was found."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        facts: dict[str, Any] = {
            "path": self.path,
            "good": self.good,
            "checked": self.checked,
            "findings": [asdict(finding) for finding in self.findings],
        }
        return facts | ({"sets": [each.to_dict() for each in self.sets]} if self.sets else {})
