"""Tables as text (.csv, .tsv, .txt, .edgelist, each perhaps .gz): delimiter, header, columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from progcl.data.columns import ID_HEADERS, MISSING, Column, Text, is_number, match_edge_headers, match_headers
from progcl.data.numerals import is_amount
from progcl.data.tables import unique_names
from progcl.errors import InputError
from progcl.files import is_compressed, open_binary, open_text

ARROW_BYTES = 2**20  # smaller files are read before pyarrow is imported
WHOLE_LINE = "\0"  # delimiter of a list: a line is one value
FREE_TEXT = "free text"  # delimiter of .edgelist: white space, and the rest of a line is one value


@dataclass(frozen=True)
class TextFile:
    """A table in a text file, whose rows are read when asked for.

    Attributes:
        path: of the file
        delimiter: between two values; None for any white space
        skipped: lines before the first row
        first: values of the first row
        has_header: whether the first row is a header; None if it may be one
    """

    path: Path
    delimiter: str | None
    skipped: int
    first: list[str]
    has_header: bool | None

    @classmethod
    def detect(cls, path: Path) -> TextFile:
        """Detect delimiter and header from the first two rows."""
        lines, skipped = _first_rows(path)
        whole = FREE_TEXT if ".edgelist" in path.suffixes else None
        for delimiter in ("\t", ";", ",", whole):
            sample = [_split(line, delimiter) for line in lines]
            if len(sample[0]) > 1:
                return cls(path, delimiter, skipped, sample[0], _detect_header(sample))
        message = f"`{path}`: line {skipped + 1} has one value, at least two are needed"
        raise InputError(message, "separate them by a comma")

    @classmethod
    def detect_list(cls, path: Path, column: str | None = None) -> TextFile:
        """A file with one name a line, which may have spaces and commas; or a table with a header that has `column`.

        Without `column`, one of `ID_HEADERS` makes it a table.
        """
        lines, skipped = _first_rows(path)
        for delimiter in ("\t", ";", ","):
            head = _split(lines[0], delimiter)
            if len(head) > 1 and (column in head if column is not None else match_headers(head, ID_HEADERS)):
                return cls(path, delimiter, skipped, head, True)
        first = _split(lines[0], WHOLE_LINE)
        return cls(path, WHOLE_LINE, skipped, first, first[0].lower() in ID_HEADERS)

    @property
    def names(self) -> list[str]:
        """Names of the columns: of the header, or `1`, `2`, ..."""
        numbered = [str(number + 1) for number in range(len(self.first))]
        return unique_names(self.first) if self.has_header else numbered

    def read(self, names: Sequence[str], as_text: Sequence[str]) -> dict[str, Column]:
        """Read columns; those `as_text` as they are written, others as numbers where all values are numbers."""
        width, columns = self._width(), self.names
        if len(columns) != width:  # row names without a name in the header, as R writes them
            columns = ["", *columns]
        if len(columns) != width:
            message = f"`{self.path}`: the header has {len(self.first)} values, the first row {width}"
            raise InputError(message, "every line needs as many")
        places = [columns.index(name) for name in names]
        text_places = [columns.index(name) for name in as_text]
        found = self._read_with_arrow(places, text_places, width) if self._is_large() else None
        return dict(zip(names, found or self._read_rows(places), strict=True))

    def is_numeric(self, name: str) -> bool:
        """Whether the first row below the header has a number in a column."""
        row, columns = next(self._rows(), (0, self.first))[1], self.all_names()
        return len(row) == len(columns) and is_amount(row[columns.index(name)])

    def all_names(self) -> list[str]:
        """Names of all columns, with an empty one for row names that the header lacks."""
        return ["", *self.names] if self.has_header and self._width() == len(self.first) + 1 else self.names

    def find_line(self, row: int) -> int:
        """Line of a row, both counted as a reader would: rows from 0, lines from 1."""
        return next(islice(self._rows(), row, None))[0]

    def _width(self) -> int:
        return len(next(self._rows(), (0, self.first))[1])

    def _is_large(self) -> bool:
        size = self.path.stat().st_size * (4 if is_compressed(self.path) else 1)
        return (
            size >= ARROW_BYTES and self.delimiter not in (FREE_TEXT, WHOLE_LINE) and find_spec("pyarrow") is not None
        )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and values of every row below the header."""
        delimiter, width = self.delimiter, None
        with open_text(self.path, newline="") as file:
            lines: Iterator[list[str]]
            if delimiter is None or delimiter in (FREE_TEXT, WHOLE_LINE):
                lines = (_split(line, delimiter) for line in file)
            else:
                lines = csv.reader(file, delimiter=delimiter)
            for number, cells in enumerate(lines, 1):
                if number <= self.skipped + bool(self.has_header) or not _is_row((delimiter or " ").join(cells)):
                    continue
                width = width or len(cells)
                if len(cells) != width and delimiter != FREE_TEXT:
                    message = f"`{self.path}`: line {number} has {len(cells)} values, the lines before it {width}"
                    raise InputError(message, "every line needs as many")
                yield number, [cell.strip() for cell in cells]

    def _read_rows(self, places: Sequence[int]) -> list[Column]:
        indices: list[dict[str, int]] = [{} for _ in places]
        codes: list[list[int]] = [[] for _ in places]
        slots = list(zip(places, indices, codes, strict=True))
        for number, cells in self._rows():
            for place, index, column in slots:
                if place >= len(cells):
                    raise InputError(
                        f"`{self.path}`: line {number} lacks a node name", "an edge is two names in a line"
                    )
                column.append(index.setdefault(cells[place], len(index)))
        return [Text(np.array(column, np.int64), list(index)) for index, column in zip(indices, codes, strict=True)]

    def _read_with_arrow(self, places: Sequence[int], as_text: Sequence[int], width: int) -> list[Column] | None:
        """The columns as `_read_rows` has them, numbers read as such; None where its line-by-line reading is needed."""
        import pyarrow

        try:
            table = _read_csv(self, places, dict.fromkeys(as_text, "string"), width)
            kinds = {place: _kind(table[str(place)].type) for place in places}
            again = {place: "string" for place, kind in kinds.items() if kind == "other"}
            if again:
                table = _read_csv(self, places, {**again, **dict.fromkeys(as_text, "string")}, width)
        except pyarrow.ArrowInvalid:  # ragged lines, comments: the other reader knows what to do or to say
            return None
        columns = [_from_arrow(table[str(place)]) for place in places]
        return None if any(isinstance(column, Text) and _holds_comments(column) for column in columns) else columns


def _read_csv(file: TextFile, places: Sequence[int], types: dict[int, str], width: int) -> Any:
    import pyarrow
    import pyarrow.csv

    names = [str(place) for place in range(width)]
    delimiter = file.delimiter or ("\t" if file.first and "\t" in _first_line(file) else " ")
    reading = pyarrow.csv.ReadOptions(
        column_names=names, skip_rows=file.skipped + bool(file.has_header), block_size=2**23
    )
    parsing = pyarrow.csv.ParseOptions(delimiter=delimiter, quote_char='"' if file.delimiter else False)
    wanted = [str(place) for place in dict.fromkeys(places)]
    converting = pyarrow.csv.ConvertOptions(
        include_columns=wanted,
        column_types={str(place): pyarrow.string() for place in types if str(place) in wanted},
        null_values=sorted(MISSING),
        strings_can_be_null=False,
    )
    with open_binary(file.path) as opened:
        return pyarrow.csv.read_csv(opened, reading, parsing, converting)


def _first_line(file: TextFile) -> str:
    with open_text(file.path) as opened:
        return next(islice(opened, file.skipped, None))


def _kind(kind: Any) -> str:
    import pyarrow

    if pyarrow.types.is_string(kind):
        return "text"
    is_numeric = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_null(kind)
    return "number" if is_numeric else "other"


def _from_arrow(column: Any) -> Column:
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_string(column.type):
        return column.cast(pyarrow.float64()).to_numpy()
    coded = pyarrow.compute.utf8_trim_whitespace(column).dictionary_encode().combine_chunks()
    return Text(coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary.to_pylist())


def _holds_comments(column: Text) -> bool:
    return any(text in ("#", "%") or text.startswith(("# ", "% ")) for text in column.values)


def _first_rows(path: Path) -> tuple[list[str], int]:
    """The first two rows, and the number of lines before them."""
    with open_text(path) as file:
        lines = list(islice(((number, line) for number, line in enumerate(file) if _is_row(line)), 2))
    if not lines:
        raise InputError(f"`{path}` is empty", "an edge is two names in a line")
    return [line for _, line in lines], lines[0][0]


def _detect_header(sample: list[list[str]]) -> bool | None:
    """Whether the first row is a header: by its words, by words above numbers; None if it may be one."""
    first, *others = sample
    if match_edge_headers(first) or first[0].lower() in ID_HEADERS:
        return True
    if any(map(is_number, first)) or not others or not all(first) or len(set(first)) < len(first):
        return False
    numbers = [is_number(cell) for cell in others[0]]
    return True if all(numbers[:2]) or any(numbers[2:]) else None


def _is_row(line: str) -> bool:
    """Whether a line is neither blank nor a comment: `#` or `%`, alone or before a space, as names may begin so."""
    text = line.strip().strip("\0")
    return bool(text) and text not in ("#", "%") and not text.startswith(("# ", "% ", "%%"))


def _split(line: str, delimiter: str | None) -> list[str]:
    if delimiter == FREE_TEXT:
        return line.split(None, 2)
    if delimiter == WHOLE_LINE:
        cells = next(csv.reader([line.strip()]), [])  # a name in quotes may hold commas
        return [cells[0].strip()] if len(cells) == 1 else [line.strip()] if cells else []
    cells = next(csv.reader([line], delimiter=delimiter), []) if delimiter else line.split()
    return [cell.strip() for cell in cells]
