"""Many requests become few reads: as one loop over them would cut, whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainload.storage.read_plan import JoinedReads, join_requests

Request = tuple[int, int, int]  # file, offset, size

requests = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 60)), max_size=40)
gaps = st.integers(0, 50)


def one_by_one(asked: list[Request], max_gap: int, max_read: int | None) -> list[Request]:
    """(file, start, end) of the reads, by the rule as docs and reader have it."""
    reads: list[Request] = []
    for file, offset, size in sorted(asked, key=lambda request: request[:2]):
        end = offset + size
        if reads and reads[-1][0] == file:
            _, start, last = reads[-1]
            fits = max_read is None or end - start <= max_read or offset < last
            if offset <= last + max_gap and fits:
                reads[-1] = file, start, max(last, end)
                continue
        reads.append((file, offset, end))
    return reads


def join(asked: list[Request], **limits: Any) -> JoinedReads:
    columns = np.array(asked, np.int64).reshape(-1, 3)
    return join_requests(columns[:, 1], columns[:, 2], files=columns[:, 0], **limits)


@given(asked=requests, max_gap=gaps, max_read=st.none() | st.integers(0, 200))
def test_reads_are_cut_as_one_loop_over_the_requests_cuts_them(
    asked: list[Request], max_gap: int, max_read: int | None
) -> None:
    reads = join(asked, max_gap=max_gap, max_read=max_read)
    files = [asked[reads.order[at]][0] for at in reads.bounds[:-1].tolist()]
    assert list(zip(files, reads.starts.tolist(), reads.ends.tolist())) == one_by_one(asked, max_gap, max_read)


@given(asked=requests, max_gap=gaps, max_read=st.integers(0, 200))
def test_every_request_lies_in_the_read_that_is_said_to_bring_it(
    asked: list[Request], max_gap: int, max_read: int
) -> None:
    reads = join(asked, max_gap=max_gap, max_read=max_read)
    assert sorted(reads.order.tolist()) == list(range(len(asked))) and len(reads.bounds) == len(reads) + 1
    for k, (start, end) in enumerate(zip(reads.starts.tolist(), reads.ends.tolist())):
        served = [asked[n] for n in reads.order[reads.bounds[k] : reads.bounds[k + 1]].tolist()]
        assert len({file for file, _, _ in served}) == 1
        assert min(offset for _, offset, _ in served) == start
        assert max(offset + size for _, offset, size in served) == end


@given(asked=requests, max_gap=gaps, max_read=st.integers(0, 200))
def test_without_files_all_requests_lie_in_one(asked: list[Request], max_gap: int, max_read: int) -> None:
    columns = np.array(asked, np.int64).reshape(-1, 3)
    reads = join_requests(columns[:, 1], columns[:, 2], max_gap=max_gap, max_read=max_read)
    found = list(zip(reads.starts.tolist(), reads.ends.tolist()))
    expected = one_by_one([(0, *request[1:]) for request in asked], max_gap, max_read)
    assert found == [(start, end) for _, start, end in expected]


def test_far_places_and_large_sizes_stay_exact() -> None:
    offsets = np.array([1 << 61, 5, (1 << 61) + (1 << 32)], np.int64)
    reads = join_requests(offsets, np.array([(1 << 32) - 1] * 3, np.uint32), max_gap=1, max_read=1 << 40)
    assert list(zip(reads.starts.tolist(), reads.ends.tolist())) == [
        (5, (1 << 32) + 4),
        (1 << 61, (1 << 61) + (1 << 33) - 1),
    ]
