"""Weights of edges as files and users give them: numbers that are finite and not negative."""

from __future__ import annotations

import ast
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from progcl.data.columns import WEIGHT_HEADERS, Array, Column, Text, is_number, quote_names, to_numbers
from progcl.data.numerals import DATES, find_form, read_form
from progcl.errors import InputError, suggest

NO_WEIGHTS = "none"  # as `data.weight`: edges are used without the weights that a file has
LARGEST = 1e30  # sums of more would not be finite in single precision
HINT = "weights are finite numbers from 0: the larger, the closer are the two nodes"


def read_weights(column: Column, name: str, locate: Callable[[int], str]) -> Array:
    """Weights [E] from the column of a table; `locate` tells where a row is.

    Raises:
        InputError: if a value is no number, missing, negative or infinite; it names column and row
    """
    weights = to_numbers(column)
    if weights is None:
        assert isinstance(column, Text)
        form = find_form(column)
        weights = read_form(column, form) if form is not None and form != DATES else None
    if weights is None:
        row = next(row for row, code in enumerate(column.codes.tolist()) if not _is_weight(column.values[code]))
        text = column.values[column.codes[row]]
        raise InputError(f"{locate(row)} holds `{text}` in `{name}`, which is no weight", HINT)
    if weights.ndim != 1:
        raise InputError(f"`{name}` holds {weights.shape[1]} numbers for an edge", "a weight is one")
    validate_weights(weights, lambda row: f"{locate(row)} holds {weights[row]:g} in `{name}`")
    return weights.astype(np.float64)


def read_attribute(column: Text, name: str) -> Text:
    """One attribute of edges from a column of Python's dicts, as networkx writes them into .edgelist.

    Raises:
        InputError: if no edge has it
    """
    texts = [attributes.get(name) for attributes in map(_to_dict, column.values)]
    if all(text is None for text in texts):
        known = {str(key) for attributes in map(_to_dict, column.values) for key in attributes}
        if not known and name in WEIGHT_HEADERS:  # as networkx' `write_weighted_edgelist` has them
            return column
        hint = (
            suggest(name, known) if known else "attributes are written {'weight': 2.0}; --weight 3 is the third column"
        )
        raise InputError(f"no edge has the attribute `{name}`, which --weight names", hint)
    return Text(column.codes, ["" if text is None else str(text) for text in texts])


def find_attributes(text: str) -> list[str]:
    """The attributes of an edge that are numbers, from Python's dict."""
    return [str(name) for name, value in _to_dict(text).items() if isinstance(value, Real)]


def _to_dict(text: str) -> dict[str, Any]:
    try:
        content = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def to_weights(values: Any, edges: int, name: str) -> Array:
    """Weights [E] from an array; raise `InputError` unless there is a number for every edge."""
    if hasattr(values, "toarray"):
        raise InputError(f"`{name}` is a sparse matrix", "weights are an array [E], a number for each edge")
    array = np.asarray(values)
    if array.dtype.kind not in "iufb":
        raise InputError(f"weights of type {array.dtype} in `{name}`", HINT)
    if array.size != edges or array.ndim > 2:
        shape = f"`{name}` is {list(array.shape)}"
        raise InputError(f"{shape}, there are {edges} edges", "weights are an array [E], a number for each edge")
    return array.reshape(-1).astype(np.float64)


def validate_weights(weights: Array, describe: Callable[[int], str]) -> None:
    """Raise `InputError` if a weight is missing, negative or infinite; `describe` says which, from its row."""
    wrong = ~((weights >= 0) & (weights <= LARGEST))
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong)[0])
    others = int(wrong.sum()) - 1
    more = f" ({others:,} more are wrong)" if others else ""
    kind = "is missing" if np.isnan(weights[row]) else "is negative" if weights[row] < 0 else "is too large"
    raise InputError(f"{describe(row)}: a weight {kind}{more}", HINT)


def refuse_name(weight: str | None, what: str) -> None:
    """Raise `InputError` if weights are asked for by a name that nothing here has."""
    if weight not in (None, NO_WEIGHTS):
        raise InputError(f"{what} has no weights by the name `{weight}`", "tables, attributes and .npz have names")


class UnusedWeights(str):
    """A remark on numbers of edges that could be weights, and how to use them: first those that are named so."""

    def __new__(cls, names: list[str], of: str = "column") -> UnusedWeights:
        """Of the columns, attributes or arrays `names`."""
        names = sorted(names, key=lambda name: name.lower() not in WEIGHT_HEADERS)
        flag = names[0] if names[0].replace("_", "").isalnum() else f'"{names[0]}"'
        what = f"the {of} {quote_names(names)} is" if len(names) == 1 else f"the {of}s {quote_names(names)} are"
        return super().__new__(cls, f"{what} not used: --weight {flag} makes it the weights of edges")


def _is_weight(text: str) -> bool:
    return not text or is_number(text)
