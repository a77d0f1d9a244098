"""Records become columns of numbers, whatever their layout is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.recfunctions import structured_to_unstructured

from trainload.recordings.format.streams import TIME_FIELD
from trainload.recordings.samples.values import plain_columns

FIELDS = st.lists(
    st.tuples(st.sampled_from(["<f4", "<f8", ">f4", "<i2", "<u1"]), st.sampled_from([(), (1,), (3,)])),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=80)
@given(FIELDS, st.booleans(), st.booleans(), st.integers(0, 5))
def test_columns_are_the_fields_side_by_side_without_the_time(
    fields: list[tuple[str, tuple[int, ...]]], timed: bool, spaced: bool, count: int
) -> None:
    named = [(f"f{n}", dtype, shape) for n, (dtype, shape) in enumerate(fields)]
    dtype = np.dtype([(TIME_FIELD, "<i8")] * timed + named, align=spaced)
    array = np.frombuffer(np.random.default_rng(0).bytes(count * dtype.itemsize), dtype)
    with np.errstate(invalid="ignore"):
        expected = structured_to_unstructured(array[[name for name, *_ in named]])
    found = plain_columns(array)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")


@pytest.mark.parametrize("dtype", [[("name", "S4"), ("x", "<f4")], "<f4", [(TIME_FIELD, "<i8")]])
def test_what_is_no_record_of_numbers_stays_as_it_is(dtype: Any) -> None:
    array = np.zeros(3, dtype)
    assert plain_columns(array) is array


def test_records_of_one_type_are_not_copied() -> None:
    array = np.zeros(3, [(TIME_FIELD, "<i8"), ("rate", "<f4", 3), ("pull", "<f4", 3)])
    assert np.shares_memory(plain_columns(array), array)
