"""Arithmetic on decimals beside Python's, which has as many digits as it is given."""

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.expressions.exact_numbers import as_real, decimals, literal, number, remainder, unscaled
from spark_jobs.expressions.terms import Cells

EXACT = Context(prec=90)


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Decimal | None], list[Decimal | None]]:
    digits = draw(st.integers(1, 38))
    kind = pa.decimal128(digits, draw(st.integers(0, digits)))
    largest = 10**digits - 1
    values = st.one_of(st.integers(-largest, largest), st.integers(-9, 9), st.just(0), st.none())
    pairs = draw(st.lists(st.tuples(values, values), max_size=6))
    numbers: Any = [
        [None if cell is None else Decimal(cell).scaleb(-kind.scale, EXACT) for cell in pair] for pair in pairs
    ]
    return kind, [left for left, _ in numbers], [right for _, right in numbers]


@given(columns())
def test_a_remainder_has_the_sign_of_what_is_divided(case: Any) -> None:
    kind, left, right = case
    expected = [None if a is None or not b else EXACT.remainder(a, b) for a, b in zip(left, right, strict=True)]
    assert remainder(pa.array(left, kind), pa.array(right, kind)).to_pylist() == expected


@given(columns(), st.integers(0, 2))
def test_numbers_without_their_point_and_back(case: Any, first: int) -> None:
    kind, left, _ = case
    values = pa.array([Decimal(0)] * first + left, kind).slice(first)
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    assert decimals(unscaled(values, kind.precision), kind, is_null).to_pylist() == left


@given(columns())
def test_a_number_as_double_is_rounded_once(case: Any) -> None:
    kind, left, _ = case
    term = number(lambda _: Cells(pa.array(left, kind)), kind.precision, kind.scale)
    expected = [None if cell is None else float(cell) for cell in left]
    assert as_real(term)({}).over(len(left)).to_pylist() == expected


def test_literals_are_exact() -> None:
    assert [(literal(text).digits, literal(text).scale) for text in ("7", "007", ".50", "3.", "0")] == [
        *((1, 0), (1, 0), (2, 2), (1, 0), (1, 0)),
    ]
    assert literal("1.50").evaluate({}).over(1).to_pylist() == [Decimal("1.50")]
