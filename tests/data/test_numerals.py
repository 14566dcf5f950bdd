"""Numbers as people write them are numbers, in the same form for another graph, and said to be."""

from pathlib import Path

import numpy as np
import pytest

from progcl import InputError
from progcl.data.columns import code_text
from progcl.data.features import Feature, encode_features
from progcl.data.formats import read_graph
from progcl.data.numerals import COMMAS, DATES, SIGNED, THOUSANDS, find_form, is_amount, read_form
from progcl.data.tables import Table
from support.graphs import write_files

DAY = 24 * 60 * 60.0


@pytest.mark.parametrize(
    ("texts", "form", "numbers"),
    [
        (["1,234", "950", "-12,345,678.5", ""], THOUSANDS, [1234, 950, -12345678.5, np.nan]),
        (["1'234", "5"], THOUSANDS, [1234, 5]),
        (["$1,234.50", "$7"], THOUSANDS, [1234.5, 7]),
        (["0,5", "12", "1.234,75", "NA"], COMMAS, [0.5, 12, 1234.75, np.nan]),
        (["3,25 €", "4 €"], COMMAS, [3.25, 4]),
        (["30%", "7.5 %", "?"], SIGNED, [30, 7.5, np.nan]),
        (["1970-01-02", "1970-01-03 12:00", "1970-01-01T00:00:30Z"], DATES, [DAY, 2.5 * DAY, 30]),
    ],
)
def test_each_form(texts: list[str], form: str, numbers: list[float]) -> None:
    column = code_text(texts)
    assert find_form(column) == form
    assert read_form(column, form) == pytest.approx(numbers, nan_ok=True)


@pytest.mark.parametrize(
    "texts", [["1,2,3"], ["12,34,567"], ["30%", "7"], ["$1", "1 €"], ["2020-13-01"], ["0,5", "0.5"], ["a"], ["", "NA"]]
)
def test_what_is_no_number(texts: list[str]) -> None:
    assert find_form(code_text(texts)) is None
    assert read_form(code_text(["1,5", "a"]), COMMAS) is None
    assert not is_amount("2020-01-01")


def test_columns_of_features_are_numbers_and_this_is_said() -> None:
    columns = {
        "income": ["1,200", "950", "3,000"],
        "day": ["2020-01-01", "2020-01-03", ""],
        "share": ["5%", "6%", "9%"],
    }
    x, plan, remarks = encode_features(Table({name: code_text(texts) for name, texts in columns.items()}), scale=False)
    assert x[:, 0].tolist() == [1200, 950, 3000]
    assert np.diff(x[:2, 1]) == 2 * DAY
    assert x[2, 1] == x[:2, 1].mean()  # the median
    assert x[:, 2].tolist() == [5, 6, 9]
    assert "read as numbers, written with separators of thousands: column `income`" in remarks
    assert "read as numbers, written as dates: column `day`" in remarks
    assert [feature.form for feature in plan] == [THOUSANDS, DATES, SIGNED]


def test_another_graph_is_read_in_the_same_form() -> None:
    commas = Feature("a", "numbers", fill=[0.0], form=COMMAS)
    assert commas.transform(code_text(["1,234", "2"])).tolist() == [[pytest.approx(1.234)], [2.0]]  # not 1234
    with pytest.raises(InputError, match="column `a` holds text"):
        commas.transform(code_text(["1.5x"]))


def test_weights_are_read_in_any_form_but_dates(tmp_path: Path) -> None:
    rows = ["a;b;0,50", "b;c;1,25", "c;a;2,00"]
    edges, dated = write_files(
        tmp_path, g_csv="\n".join(["from;to;w", *rows]), d_csv="from,to,w\na,b,2020-01-01\nb,c,2020-01-02\n"
    )
    assert read_graph(edges, weight="w").edge_weight.tolist() == [0.5, 1.25, 2.0]
    assert "--weight w makes it the weights of edges" in read_graph(edges).remarks[-1]
    with pytest.raises(InputError, match="line 2 holds `2020-01-01` in `w`, which is no weight"):
        read_graph(dated, weight="w")
