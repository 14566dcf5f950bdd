"""Columns of every type of Arrow's that holds numbers, text, times or lists; others are left out."""

import datetime
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from progcl import InputError
from progcl.data.columns import Text
from progcl.data.parquet import ParquetFile, from_arrow

DAY = datetime.datetime(1970, 1, 2, tzinfo=datetime.timezone.utc)
NUMBERS: list[tuple[Any, list[float]]] = [
    (pyarrow.array([1, 2, None]), [1, 2, np.nan]),
    (pyarrow.array([3, 4]), [3, 4]),
    (pyarrow.array([True, False, None]), [1, 0, np.nan]),
    (pyarrow.array([Decimal("1.5"), Decimal("2.5")]), [1.5, 2.5]),
    (pyarrow.array([None, None]), [np.nan, np.nan]),
    (pyarrow.array([DAY, None]), [86400, np.nan]),
    (pyarrow.array([datetime.date(1970, 1, 3)]), [2 * 86400]),
]


@pytest.mark.parametrize(("array", "numbers"), NUMBERS)
def test_numbers_flags_and_times(array: Any, numbers: list[float]) -> None:
    column = from_arrow(pyarrow.chunked_array([array]))
    assert np.array_equal(np.asarray(column, dtype=float), numbers, equal_nan=True)


@pytest.mark.parametrize(
    "kind", [pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int8(), pyarrow.string())]
)
def test_text_is_trimmed_and_coded_once(kind: Any) -> None:
    column = from_arrow(pyarrow.chunked_array([pyarrow.array([" b", "a", None, "b"]).cast(kind)]))
    assert isinstance(column, Text)
    assert [column.values[code] for code in column.codes] == ["b", "a", "", "b"]
    assert len(column.values) == 3


def test_lists_are_rows_of_a_matrix_and_a_missing_one_is_nan() -> None:
    lists = pyarrow.chunked_array([pyarrow.array([[1.0, 2.0], [3.0, 4.0]])])
    assert from_arrow(lists).tolist() == [[1, 2], [3, 4]]  # type: ignore[union-attr]
    missing = from_arrow(pyarrow.chunked_array([pyarrow.array([[1.0, 2.0], None])]))
    np.testing.assert_array_equal(np.asarray(missing), np.array([[1, 2], [np.nan, np.nan]]))
    fixed = pyarrow.array([[1, 2], [3, 4]], pyarrow.list_(pyarrow.int32(), 2))
    assert from_arrow(pyarrow.chunked_array([fixed])).tolist() == [[1, 2], [3, 4]]  # type: ignore[union-attr]


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="lists of 2 lengths"):
        from_arrow(pyarrow.chunked_array([pyarrow.array([[1.0], [1.0, 2.0]])]))


@pytest.mark.parametrize("array", [pyarrow.array([{"a": 1}]), pyarrow.array([["a", "b"]]), pyarrow.array([b"\xff"])])
def test_other_types_are_left_out(array: Any, tmp_path: Path) -> None:
    assert from_arrow(pyarrow.chunked_array([array])) is None
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.0], "odd": array}), tmp_path / "t.parquet")
    file = ParquetFile(tmp_path / "t.parquet")
    assert list(file.read(file.all_names(), [])) == ["x"]


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"pip install .progcl\[parquet\]"):
        ParquetFile(tmp_path / "t.parquet")


@pytest.mark.parametrize("length", [10**4, 10**6])  # stored once in a dictionary, or again and again
@pytest.mark.parametrize("kind", [None, pyarrow.string(), pyarrow.large_string()], ids=str)
def test_texts_that_are_far_larger_than_the_file_are_refused_before_they_are_expanded(
    length: int, kind: Any, tmp_path: Path
) -> None:
    rows = 3 * 10**8 // length
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), ["a" * length])
    table = pyarrow.table({"source": texts if kind is None else texts.cast(kind), "target": list(range(rows))})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", compression="zstd")
    assert (tmp_path / "t.parquet").stat().st_size < 300_000
    with pytest.raises(InputError, match="times the file"):
        ParquetFile(tmp_path / "t.parquet").read(["source", "target"], [])


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()], ids=str)
def test_texts_come_back_in_the_order_of_their_first_row(kind: Any, tmp_path: Path) -> None:
    texts = pyarrow.array([" b", "a", None, "b", "c"], kind)
    pyarrow.parquet.write_table(pyarrow.table({"x": texts}), tmp_path / "t.parquet", row_group_size=2)
    column = ParquetFile(tmp_path / "t.parquet").read(["x"], [])["x"]
    assert isinstance(column, Text)
    assert [column.values[code] for code in column.codes] == ["b", "a", "", "b", "c"]
    assert column.values == ["b", "a", "", "c"]
