"""Edge lists and tables as text: headers, delimiters, quotes, names."""

from pathlib import Path

import pytest

from progcl.data.formats import read_graph
from support.graphs import EDGES, NAMES, PAIRS, pairs, write_files


@pytest.mark.parametrize("header", ["", "source,target\n", "# a comment\n", "SRC,DST\n"])
@pytest.mark.parametrize(("extension", "delimiter"), [("csv", ","), ("tsv", "\t"), ("txt", " "), ("csv", ";")])
@pytest.mark.parametrize("named", [False, True])
def test_edge_lists(header: str, extension: str, delimiter: str, named: bool, tmp_path: Path) -> None:
    lines = [delimiter.join([NAMES[a], NAMES[b]] if named else [str(a), str(b)]) for a, b in EDGES.T]
    (tmp_path / f"g.{extension}").write_text(header.replace(",", delimiter) + "\n".join(lines) + "\n")
    data = read_graph(str(tmp_path / f"g.{extension}"))
    assert data.ids == (NAMES if named else ["0", "1", "2", "3"])
    assert pairs(data) == PAIRS


def test_further_columns_quotes_and_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text('"Ann, A.",bob,0.5\n\nbob,cid,1\n')
    data = read_graph(str(tmp_path / "g.csv"))
    assert data.ids == ["Ann, A.", "bob", "cid"]
    assert data.edge_index.size(1) == 2


def test_names_with_commas_in_a_tsv_and_numbers_with_commas_in_a_csv(tmp_path: Path) -> None:
    (tsv,) = write_files(tmp_path, g_tsv="Smith, J\tDoe, A\nDoe, A\tRoe, R\n")
    assert read_graph(tsv).ids == ["Smith, J", "Doe, A", "Roe, R"]
    (path,) = write_files(tmp_path, g_csv="a;b;0,5\nb;c;0,1\n")
    assert read_graph(path).ids == ["a", "b", "c"]


def test_headers_as_pandas_writes_them(tmp_path: Path) -> None:
    rows = "ann,1\nbob,2\ncid,3\n"
    edges, named, unnamed = write_files(
        tmp_path, g_csv="ann,bob\nbob,cid\n", x_csv=f"user,f0\n{rows}", z_csv=f",0\n{rows}"
    )
    for table in (named, unnamed):
        data = read_graph(edges, table)
        assert data.ids == ["ann", "bob", "cid"]
        assert data.x.tolist() == [[1], [2], [3]]
    (mixed,) = write_files(tmp_path, m_csv="alice,3\n4,bob\n")
    assert read_graph(mixed).edge_index.size(1) == 2


def test_a_long_name_does_not_widen_the_others(tmp_path: Path) -> None:
    lines = "".join(f"n{index},n{index + 1}\n" for index in range(20_000))
    (path,) = write_files(tmp_path, g_csv=f"{lines}n0,{'x' * 5000}\n")
    assert max(map(len, read_graph(path).ids)) == 5000
