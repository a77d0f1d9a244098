"""Replaced pictures as the consumer meets them: counted, the first one warned of, and no more of them than a limit."""

from __future__ import annotations

import warnings
from collections import deque

from trainload.errors import SampleError
from trainload.running.slices import BatchJob
from trainload.running.stats import LoaderStats

LEAST_LIMIT = 16  # pictures: below this a share says little
LIMIT_SHARE = 100  # one in so many
_CAUSES_NAMED = 3
_STACK = 6  # warn, count, next_step, next_job, __next__, the loop


def default_limit(samples: int) -> int:
    """How many of an epoch's samples may be replaced where nobody says: a hundredth, at least LEAST_LIMIT."""
    return max(LEAST_LIMIT, samples // LIMIT_SHARE)


class Replacements:
    """Those of one pass over an epoch, counted as batches are handed out: in their order, whatever the threads did.

    limit: None is no limit.
    """

    def __init__(self, stats: LoaderStats, limit: int | None) -> None:
        self._stats = stats
        self._limit = limit
        self._count = 0
        self._causes: deque[SampleError] = deque(maxlen=_CAUSES_NAMED)

    def count(self, job: BatchJob) -> None:
        """Take in a batch that is about to be handed out. Raises SampleError where it goes beyond the limit."""
        damage = job.items.damage
        if not damage:
            return
        self._count += len(damage)
        self._causes.extend(damage)
        first = self._stats.replaced == 0
        self._stats.count_replaced(len(damage), damage[-1])
        if self._limit is not None and self._count > self._limit:
            raise self._beyond()
        if first:
            most = "" if self._limit is None else f", at most {self._limit:,} in an epoch (replace_limit)"
            warnings.warn(
                f"another picture stands in for {damage[0]}; loader.stats.replaced counts such pictures{most}",
                RuntimeWarning,
                stacklevel=_STACK,
            )

    def _beyond(self) -> SampleError:
        last = self._causes[-1]
        causes = "; ".join(str(cause) for cause in self._causes)
        return SampleError(
            f"{self._count:,} pictures of this epoch had to be replaced, more than replace_limit = {self._limit:,}: "
            f"repair the set or its disk, or give a higher replace_limit. The last: {causes}",
            sample=last.sample,
            block=last.block,
            source=last.source,
            path=last.path,
        )
