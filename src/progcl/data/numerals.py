"""Numbers as people write them: 1,234.50, 12,5, 30 %, € 7, and dates such as 2024-05-31."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from progcl.data.columns import MISSING, Array, Column, Text, is_number, quote_names, to_numbers, used_values

SIGN = re.compile(r"^[$€£¥]\s*|\s*[%€$£¥]$")
THOUSANDS_SEPARATED = re.compile(r"[-+]?\d{1,3}([,'\u00a0\u202f]\d{3})+(\.\d+)?")
DECIMAL_COMMA = re.compile(r"[-+]?\d{1,3}((\.\d{3})+|\d*),\d+")
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?Z?")


def read_numerals(
    columns: Mapping[str, Column], ignored: str | None = None
) -> tuple[dict[str, Column], dict[str, str], list[str]]:
    """Columns with numbers where text is numbers in another way of writing; in which, by column; and remarks."""
    texts = {name: column for name, column in columns.items() if isinstance(column, Text) and name != ignored}
    forms = {name: find_form(column) for name, column in texts.items() if to_numbers(column) is None}
    found = {name: form for name, form in forms.items() if form is not None}
    remarks = []
    for form in dict.fromkeys(found.values()):
        names = [name for name, each in found.items() if each == form]
        remarks.append(f"read as numbers, written {FORMS[form]}: column {quote_names(names)}")
    return {**columns, **{name: read_form(texts[name], form) for name, form in found.items()}}, found, remarks


def find_form(column: Text) -> str | None:
    """The first of `FORMS` in which all values of a column are numbers; None if there is none, or no value."""
    texts = [text for text in used_values(column) if text not in MISSING]
    return next((form for form in FORMS if texts and _parse(texts, form) is not None), None)


def is_amount(text: str) -> bool:
    """Whether a text is a number in any form but that of a date."""
    return any(_parse([text], form) is not None for form in PARSERS)


def read_form(column: Text, form: str) -> Array | None:
    """A column as float64 [n] with NaN where a value is missing; None if a text is no number in this form."""
    texts = [text for text in used_values(column) if text not in MISSING]
    numbers = _parse(texts, form)
    if numbers is None:
        return None
    number = dict(zip(texts, numbers, strict=True))
    return np.array([number.get(text, np.nan) for text in column.values] or [np.nan])[column.codes]


def _parse(texts: Sequence[str], form: str) -> list[float] | None:
    """Texts as numbers; None unless all are."""
    if form == DATES:
        return _parse_dates(texts)
    parse, signs, numbers = PARSERS[form], set(), []
    for text in texts:
        number = parse(SIGN.sub("", text))
        signs.add("".join(SIGN.findall(text)).strip())
        if number is None or len(signs) > 1:  # dollars beside euros, or a percent sign that some lack
            return None
        numbers.append(number)
    return numbers


def _parse_plain(text: str) -> float | None:
    return float(text) if is_number(text) else None


def _parse_thousands(text: str) -> float | None:
    if is_number(text):
        return float(text)
    return float(re.sub(r"[,'\u00a0\u202f]", "", text)) if THOUSANDS_SEPARATED.fullmatch(text) else None


def _parse_decimal_comma(text: str) -> float | None:
    if text.lstrip("+-").isdecimal():
        return float(text)
    return float(text.replace(".", "").replace(",", ".")) if DECIMAL_COMMA.fullmatch(text) else None


def _parse_dates(texts: Sequence[str]) -> list[float] | None:
    """Seconds since 1970, as dates in .parquet are read."""
    if not all(map(DATE.fullmatch, texts)):
        return None
    try:
        moments = np.array([text.removesuffix("Z").replace(" ", "T") for text in texts], dtype="datetime64[s]")
    except ValueError:  # month 13
        return None
    return [float(seconds) for seconds in moments.astype(np.int64).tolist()]


SIGNED, THOUSANDS, COMMAS, DATES = "signed", "thousands", "commas", "dates"
PARSERS: dict[str, Callable[[str], float | None]] = {
    SIGNED: _parse_plain,
    THOUSANDS: _parse_thousands,
    COMMAS: _parse_decimal_comma,
}
FORMS = {
    SIGNED: "with signs such as % and €",
    THOUSANDS: "with separators of thousands",
    COMMAS: "with decimal commas",
    DATES: "as dates",
}
