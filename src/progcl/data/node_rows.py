"""Which row of a table belongs to which node: by the column that names the nodes, by `ids`, or by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from progcl.data.columns import (
    ID_HEADERS,
    Column,
    Text,
    drop_fraction,
    find_column,
    match_headers,
    normalize_name,
    quote_names,
    to_list,
    to_numbers,
    to_text,
    used_values,
)
from progcl.data.features import Feature
from progcl.data.long_form import match_long_form, widen
from progcl.data.tables import RawGraph, Table, prefix, promote_header, validate_names
from progcl.errors import InputError

ROW_NUMBERS = ("", "Unnamed: 0", "index", "row")  # names of columns that may number the rows


@dataclass(frozen=True)
class JoinOptions:
    """Which columns are meant, and what is done to features.

    Attributes:
        id_column: names the nodes
        label_column: holds their classes
        scale: scale numbers where columns have different scales
        plan: how another graph's columns became features, to read these alike
    """

    id_column: str | None = None
    label_column: str | None = None
    scale: bool = True
    plan: list[Feature] | None = None


@dataclass(frozen=True)
class NamedRows:
    """A table without its column of names, and the node of every row; None if row i belongs to node i."""

    table: Table
    names: list[str] | None


def name_rows(
    table: Table, graph: RawGraph, ids: Sequence[str] | None, options: JoinOptions, remarks: list[str]
) -> NamedRows:
    """Find the column that names the nodes, by name or as the one that names most of them."""
    if not table.names_nodes and ids is not None:
        if len(ids) != len(table):
            raise InputError(
                f"{prefix(table.file)}{len(table)} rows for {len(ids)} names of --ids", "one name for each"
            )
        return NamedRows(table, validate_names(list(ids), "--ids"))
    if not table.names_nodes:
        return NamedRows(table, None)
    known = set(graph.names)
    if table.has_header is None and to_list(_first_cell(table))[0] not in known:
        table = promote_header(table)
        remarks.append(f"{prefix(table.file)}the first line ({quote_names(table.columns)}) is read as a header")
    column = _choose_id_column(table, known, options.id_column)
    if ids is not None and len(ids) == len(table) and known.isdisjoint(used_values(to_text(table.columns[column]))):
        return NamedRows(table, validate_names(list(ids), "--ids"))
    if column != next(iter(table.columns)):
        remarks.append(f"{prefix(table.file)}nodes are named by the column `{column}`")
    long = match_long_form(table, column)
    table = widen(table, long, options.plan) if long else table
    names = to_list(_to_names(table.columns[column], known))
    if "" in names:
        message = f"{prefix(table.file)}{table.locate(names.index(''))} has an empty name in column `{column}`"
        raise InputError(message, "it names the node")
    if repeated := len(names) - len(set(names)):
        example = Counter(names).most_common(1)[0][0]
        hint = "a node needs one row; features in long form have the columns `node`, `feature`, `value`"
        raise InputError(f"{prefix(table.file)}{repeated} rows name a node again, such as `{example}`", hint)
    rest = {name: values for name, values in table.columns.items() if name != column}
    rest = _drop_row_numbers(rest, remarks) if options.plan is None else rest
    remarks += table.remarks
    return NamedRows(replace(table, columns=rest), names)


def _first_cell(table: Table) -> Text:
    column = to_text(next(iter(table.columns.values())))
    return Text(column.codes[:1], column.values)


def check_id_column(tables: Sequence[Table], wanted: str | None, has_ids: bool) -> None:
    """Raise `InputError` if no table has the column that --id-column names."""
    if wanted is None or has_ids or any(table.has_header is None for table in tables):
        return
    if not tables:
        message = f"--id-column names `{wanted}`, and there is no table of nodes"
        hint = "--features FILE or --labels FILE gives one; columns of edges are --source and --target"
        raise InputError(message, hint)
    if not any(match_headers(table.columns, [normalize_name(wanted)]) for table in tables):
        find_column(list(tables[0].columns), wanted, tables[0].file, "--id-column")


def _drop_row_numbers(columns: dict[str, Column], remarks: list[str]) -> dict[str, Column]:
    """Columns without those that number the rows, as pandas writes its index."""
    numbers = [name for name in columns if name in ROW_NUMBERS and _counts_rows(columns[name])]
    if numbers:
        remarks.append(f"left out, as they number the rows: column {quote_names(numbers)}")
    return {name: column for name, column in columns.items() if name not in numbers}


def _to_names(column: Column, known: set[str]) -> Text:
    """Names of nodes; 5.0 is 5 if no node is known by what is written."""
    text = to_text(column)
    return drop_fraction(text) if known.isdisjoint(text.values) else text


def _counts_rows(column: Column) -> bool:
    """Whether the values are 0, 1, 2, ..., or 1, 2, 3, ..."""
    numbers = to_numbers(column)
    if numbers is None or numbers.ndim != 1 or not len(numbers):
        return False
    return bool(numbers[0] in (0, 1) and (np.diff(numbers) == 1).all())


def _choose_id_column(table: Table, known: set[str], wanted: str | None) -> str:
    names = list(table.columns)
    if wanted is not None and match_headers(names, [normalize_name(wanted)]):
        return find_column(names, wanted, table.file, "--id-column")
    candidates = dict.fromkeys([*(match_headers(names, ID_HEADERS) if table.has_header else []), names[0]])
    scalar = [name for name in candidates if isinstance(table.columns[name], Text) or table.columns[name].ndim == 1]
    if not scalar:
        raise InputError(f"{prefix(table.file)}no column names the nodes", "--id-column names one, --ids a file")
    return max(
        scalar, key=lambda name: sum(text in known for text in used_values(_to_names(table.columns[name], known)))
    )
