"""Tables as .parquet, through pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from progcl.data.columns import Column, Text
from progcl.errors import InputError
from progcl.files import require_sized


class ParquetFile:
    """A table in a .parquet file, whose columns are read when asked for."""

    has_header = True

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow.parquet
        except ImportError:
            raise InputError("parquet needs pyarrow", 'pip install "progcl[parquet]"') from None
        self.path = path
        self.names: list[str] = pyarrow.parquet.read_schema(path).names

    def all_names(self) -> list[str]:
        """Names of all columns."""
        return self.names

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers."""
        import pyarrow.parquet

        kind = pyarrow.parquet.read_schema(self.path).field(name).type
        types = (pyarrow.types.is_integer, pyarrow.types.is_floating, pyarrow.types.is_decimal)
        return any(is_type(kind) for is_type in types)

    def read(self, names: Sequence[str], as_text: Sequence[str]) -> dict[str, Column]:
        """Read columns; those of types that are neither numbers, text nor lists of numbers are left out."""
        import pyarrow.parquet

        metadata, file_size = pyarrow.parquet.read_metadata(self.path), self.path.stat().st_size
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        chunks = (group.column(place) for group in groups for place in range(group.num_columns))
        wanted = set(names)
        read = (chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in wanted)
        sizes = (max(8.0 * chunk.num_values, chunk.total_uncompressed_size) for chunk in read)
        require_sized(sum(sizes), file_size, "its columns")
        schema = pyarrow.parquet.read_schema(self.path)
        texts = [name for name in names if _is_text(schema.field(name).type)]
        table = pyarrow.parquet.read_table(self.path, columns=list(names), read_dictionary=texts)
        require_sized(sum(_text_bytes(table[name]) for name in names), file_size, "its texts")
        columns = {name: from_arrow(table[name]) for name in names}
        return {name: column for name, column in columns.items() if column is not None}


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _text_bytes(column: Any) -> int:
    """Bytes of the texts of a dictionary-encoded column, of which the file may hold each once; 0 of other columns."""
    from pyarrow import compute, types

    if not types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return 0
    lengths = (compute.take(compute.binary_length(chunk.dictionary), chunk.indices) for chunk in column.chunks)
    return sum(compute.sum(each).as_py() or 0 for each in lengths)


def from_arrow(column: Any) -> Column | None:
    """A column of pyarrow's as one of ours; None for a type that has none."""
    import pyarrow
    import pyarrow.compute

    kind, types = column.type, pyarrow.types
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if _is_text(kind):
        coded = pyarrow.compute.utf8_trim_whitespace(column.fill_null("")).dictionary_encode().combine_chunks()
        return Text(coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary.to_pylist())
    if types.is_integer(kind) and not column.null_count:
        return column.to_numpy()
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        column = column.cast(pyarrow.int8()) if types.is_boolean(kind) else column
        return column.cast(pyarrow.float64()).to_numpy()
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_temporal(kind) and not types.is_duration(kind):
        seconds = column.cast(pyarrow.timestamp("s"), safe=False) if not types.is_time(kind) else column
        return seconds.cast(pyarrow.int64(), safe=False).cast(pyarrow.float64()).to_numpy()
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        return _from_lists(column)
    return None


def _from_lists(column: Any) -> Column | None:
    """Lists of numbers as a matrix [n, k]; a missing list is a row of NaN."""
    import pyarrow
    import pyarrow.compute

    kind = column.type.value_type
    if not (pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind)):
        return None
    lengths = pyarrow.compute.unique(pyarrow.compute.list_value_length(column).drop_null()).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise InputError(f"lists of {len(lengths)} lengths in a column", "every node needs as many numbers")
    present = column.is_valid().to_numpy()
    flat = pyarrow.compute.list_flatten(column.drop_null()).to_numpy()
    if present.all():
        return flat.reshape(-1, lengths[0])
    rows = np.full((len(present), lengths[0]), np.nan, dtype=np.float32)
    rows[present] = flat.reshape(-1, lengths[0])
    return rows
