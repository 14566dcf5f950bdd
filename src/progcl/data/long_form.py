"""Features in long form: a row for each node and feature, with or without a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from progcl.data.columns import FEATURE_HEADERS, VALUE_HEADERS, Array, Column, Text, match_headers, to_numbers, to_text
from progcl.data.features import Feature
from progcl.data.tables import Table, prefix
from progcl.errors import InputError

MAX_BYTES = 4e9  # of the features as a dense matrix; more columns are hashed
HASH_WIDTH = 1024
MATRIX = "features"  # the column that holds all features where most pairs have no value
DENSE_SHARE = 0.5  # of pairs with a value, from which on those without one are missing rather than zero


@dataclass(frozen=True)
class LongColumns:
    """The columns of a table in long form; without `value`, a feature is there (1) or not (0)."""

    node: str
    feature: str
    value: str | None


def match_long_form(table: Table, node: str) -> LongColumns | None:
    """The columns of a table in long form: named so, or names that repeat beside text, or text and a number."""
    others = [name for name in table.columns if name != node]
    nodes = to_text(table.columns[node])
    if not 1 <= len(others) <= 2 or len(np.unique(nodes.codes)) == len(nodes.codes):
        return None
    feature = next(iter(match_headers(others, FEATURE_HEADERS)), None)
    rest = [name for name in others if name != feature]
    if feature is not None:
        value = (
            rest[0] if rest and (match_headers(rest, VALUE_HEADERS) or _are_numbers(table.columns[rest[0]])) else None
        )
        return LongColumns(node, feature, value) if value is not None or not rest else None
    if len(others) == 2 and _are_numbers(table.columns[others[1]]) and not _are_numbers(table.columns[others[0]]):
        return LongColumns(node, others[0], others[1])
    return None


def widen(table: Table, columns: LongColumns, plan: Sequence[Feature] | None = None) -> Table:
    """A row for each node, a column for each feature; values of a pair that comes twice are summed.

    By the `plan` of another table, it gets the columns that this one had, and others are left out.

    Raises:
        InputError: if a value is no number; it names column and row
    """
    node, feature = to_text(table.columns[columns.node]), to_text(table.columns[columns.feature])
    values = np.ones(len(node.codes)) if columns.value is None else _to_values(table, columns.value)
    remarks = [f"`{columns.node}`, `{columns.feature}`, `{columns.value or 'present or not'}`: features in long form"]
    names, vocabulary = Text(np.arange(len(node.values)), node.values), None
    if plan is not None:
        feature, vocabulary = _match_plan(feature, plan, remarks)
        used = feature.codes >= 0
        node, feature = node._replace(codes=node.codes[used]), feature._replace(codes=feature.codes[used])
        values = values[used]
    shape = (len(node.values), len(feature.values))
    if vocabulary == [] or (plan is None and 4.0 * shape[0] * shape[1] > MAX_BYTES):
        matrix: dict[str, Column] = {MATRIX: _hash(node, feature, values, shape)}
        remarks.append(f"{shape[1]:,} features of {shape[0]:,} nodes are hashed to {HASH_WIDTH:,}")
        vocabulary = []
    else:
        matrix = _spread(node, feature, values, shape, None if plan is None else vocabulary is not None)
        vocabulary = feature.values
    wide = {columns.node: names, **matrix}
    return Table(wide, True, True, None, table.file, (*table.remarks, *remarks), tuple(vocabulary))


def name_matrix(plan: list[Feature], table: Table) -> list[Feature]:
    """The plan with the names of the matrix' columns, if features in long form have become one."""
    return [
        replace(feature, values=list(table.vocabulary)) if feature.column == MATRIX else feature for feature in plan
    ]


def _match_plan(feature: Text, plan: Sequence[Feature], remarks: list[str]) -> tuple[Text, list[str] | None]:
    """Features numbered as planned, -1 if they are not; and the names of the matrix' columns: empty if hashed."""
    matrix = next((each.values for each in plan if each.column == MATRIX), None)
    if matrix == []:
        return feature, []
    known = [each.column for each in plan] if matrix is None else matrix
    place = {name: index for index, name in enumerate(known)}
    codes = np.array([place.get(name, -1) for name in feature.values] or [-1])[feature.codes]
    if new := len(set(feature.values) - set(known)):
        remarks.append(f"{new:,} features of the long form were not there before and are not used")
    return Text(codes, known), matrix


def _hash(node: Text, feature: Text, values: Array, shape: tuple[int, int]) -> Column:
    from sklearn.feature_extraction import FeatureHasher

    words = FeatureHasher(HASH_WIDTH, input_type="string").transform([[text] for text in feature.values])
    pairs = scipy.sparse.csr_matrix((values, (node.codes, feature.codes)), shape)
    return scipy.sparse.csr_array(pairs @ words)


def _spread(
    node: Text, feature: Text, values: Array, shape: tuple[int, int], as_matrix: bool | None
) -> dict[str, Column]:
    """One sparse matrix, or columns of a dense one, where pairs without a value are missing; None chooses."""
    sparse = scipy.sparse.csr_matrix((values, (node.codes, feature.codes)), shape)
    known = scipy.sparse.csr_matrix((np.ones(len(values)), (node.codes, feature.codes)), shape)
    if as_matrix or (as_matrix is None and known.nnz <= DENSE_SHARE * shape[0] * shape[1]):
        return {MATRIX: sparse}
    dense = np.where(known.toarray() > 0, sparse.toarray(), np.nan)
    return {name: dense[:, place] for place, name in enumerate(feature.values)}


def _are_numbers(column: Column) -> bool:
    return to_numbers(column) is not None


def _to_values(table: Table, name: str) -> Array:
    numbers = to_numbers(table.columns[name])
    if numbers is None or not np.isfinite(numbers).all():
        column = to_text(table.columns[name])
        bad = [to_numbers(Text(np.zeros(1, np.int64), [text])) for text in column.values]
        wrong = [code for code, number in enumerate(bad) if number is None or not np.isfinite(number).all()]
        row = int(np.flatnonzero(np.isin(column.codes, wrong))[0])
        message = (
            f"{prefix(table.file)}{table.locate(row)} holds `{column.values[column.codes[row]]}` in column `{name}`"
        )
        raise InputError(message, "a value needs to be a finite number; leave out rows without one")
    return numbers
