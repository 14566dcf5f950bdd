"""Columns of tables: as text, as numbers, in another order."""

import numpy as np
import pytest
import scipy.sparse

from progcl import InputError
from progcl.data.columns import Text, code_text, is_missing, take_rows, to_numbers, to_text, used_values

ROWS = np.array([2, -1, 0])


def texts(column: Text) -> list[str]:
    return [column.values[code] for code in column.codes]


def test_anything_that_names_nodes_becomes_text() -> None:
    assert texts(to_text(np.array([3.0, 1.5, np.nan]))) == ["3", "1.5", ""]
    assert texts(to_text(np.array([7, -1]))) == ["7", "-1"]
    assert texts(to_text(np.array(["a", None, 3], dtype=object))) == ["a", "", "3"]
    assert texts(to_text(np.array([b"caf\xc3\xa9"]))) == ["café"]
    with pytest.raises(InputError, match="a column of complex128 holds no names"):
        to_text(np.array([1j]))


def test_numbers_of_a_column() -> None:
    assert np.array_equal(to_numbers(code_text(["1", "NA", "-2e3"])), [1, np.nan, -2000], equal_nan=True)  # type: ignore[arg-type]
    assert to_numbers(code_text(["1", "one"])) is None
    assert to_numbers(np.array([True, False])).tolist() == [1, 0]  # type: ignore[union-attr]
    assert to_numbers(np.array(["a"])) is None


def test_only_texts_that_occur_are_used() -> None:
    assert used_values(Text(np.array([2, 2]), ["a", "b", "c"])) == ["c"]
    assert used_values(Text(np.array([], int), ["a"])) == []


def test_missing_values() -> None:
    assert is_missing(code_text(["a", "", "NaN"])).tolist() == [False, True, True]
    assert is_missing(np.array([[1.0, np.nan], [np.nan, np.nan]])).tolist() == [False, True]
    assert is_missing(scipy.sparse.csr_matrix(np.eye(2))).tolist() == [False, False]
    assert is_missing(np.array([1, 2])).tolist() == [False, False]


def test_rows_in_another_order_and_rows_that_are_absent() -> None:
    assert texts(take_rows(code_text("abc"), ROWS)) == ["c", "", "a"]
    assert texts(take_rows(Text(np.array([], int), []), ROWS)) == ["", "", ""]
    assert np.array_equal(take_rows(np.array([1, 2, 3]), ROWS), [3, np.nan, 1], equal_nan=True)
    assert take_rows(np.array([1, 2, 3]), np.array([2, 0])).tolist() == [3, 1]
    assert take_rows(np.array(["x", "y", "z"]), ROWS).tolist() == ["z", None, "x"]
    sparse = take_rows(scipy.sparse.csr_matrix(np.diag([1.0, 2.0, 3.0])), ROWS)
    assert sparse.toarray().tolist() == [[0, 0, 3], [0, 0, 0], [1, 0, 0]]
