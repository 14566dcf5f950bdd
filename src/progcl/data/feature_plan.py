"""Whether the columns of a table are those that features were made of before."""

from __future__ import annotations

from collections.abc import Sequence

from progcl.data.columns import MISSING, Text, is_missing, quote_names, used_values
from progcl.data.features import Feature
from progcl.data.tables import Table, prefix
from progcl.errors import InputError


def check_columns(plan: Sequence[Feature], table: Table, ignored: str | None, remarks: list[str]) -> None:
    """Remark on columns and categories that were not there before, and on missing values.

    Args:
        plan: how columns became features before
        table: the columns now
        ignored: the column of node types, if it is no feature
        remarks: are added to

    Raises:
        InputError: if columns are missing
    """
    wanted, given = list(dict.fromkeys(feature.column for feature in plan)), list(table.columns)
    if missing := [name for name in wanted if name not in table.columns]:
        hint = f"there are {quote_names(given)}" if given else "--features FILE names a table or an array"
        what = "an array of features" if missing == ["x"] else f"column {quote_names(missing)}"
        raise InputError(f"{prefix(table.file)}the embedding was made of {what}, which is missing here", hint)
    where = prefix(table.file)
    if others := [name for name in given if name not in wanted and name != ignored]:
        remarks.append(f"{where}not used, as the embedding was made without: column {quote_names(others)}")
    for feature in plan:
        column = table.columns[feature.column]
        if feature.kind == "category" and isinstance(column, Text):
            new = [text for text in used_values(column) if text not in MISSING and text not in feature.values]
            what = f"values of column `{feature.column}` that were not there before count as none"
            remarks += [f"{where}{what}: {quote_names(new)}"] if new else []
        elif feature.kind == "numbers" and is_missing(column).any():
            remarks.append(f"{where}missing values of column `{feature.column}` are filled with the earlier median")
