"""Edge lists and tables as text: headers, delimiters, quotes, names."""

import gzip
from pathlib import Path

import pytest
import torch

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


TEXTS = {
    "names": "source,target,w\n" + "".join(f" n{i % 50} ,n{i * 7 % 61},{i}\n" for i in range(400)),
    "numbers": "".join(f"{i % 50} {i * 7 % 61}\n" for i in range(400)),
    "tabs": "".join(f"{i % 50:03d}\t{i * 7 % 61}\n" for i in range(400)),
    "several spaces": "".join(f"{i % 50}  {i * 7 % 61}\n" for i in range(400)),
    "comments": "# head\na,b\n# between, these\nb,c\n\nc,a\n",
    "quotes": '"Ann, A.",bob\nbob,"c ""x"" d"\n' * 9,
    "semicolons": "\ufeffa;b;0,5\nb;c;0,1\n",
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("extension", ["csv", "csv.gz"])
def test_pyarrow_reads_what_python_reads(
    kind: str, extension: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = TEXTS[kind].encode()
    path = tmp_path / f"g.{extension}"
    path.write_bytes(gzip.compress(content) if extension.endswith("gz") else content)
    slow = read_graph(str(path))
    monkeypatch.setattr("progcl.data.delimited.ARROW_BYTES", 0)
    fast = read_graph(str(path))
    assert fast.ids == slow.ids
    assert torch.equal(fast.edge_index, slow.edge_index)
    assert fast.remarks == slow.remarks


def test_pyarrow_reads_the_same_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        f"00{i},{i},{'' if i % 5 else 2.5 * i},{'yes' if i % 2 else 'no'},2020-01-0{i % 7 + 1},{i % 3}"
        for i in range(40)
    ]
    edges, x = write_files(
        tmp_path,
        g_csv="".join(f"00{i},00{i + 1}\n" for i in range(39)),
        x_csv="id,age,size,member,day,label\n" + "\n".join(rows) + "\n",
    )
    slow = read_graph(edges, x)
    monkeypatch.setattr("progcl.data.delimited.ARROW_BYTES", 0)
    fast = read_graph(edges, x)
    assert slow.x.shape == (40, 3 + 1)
    assert torch.equal(fast.x, slow.x)
    assert torch.equal(fast.y, slow.y)
    assert fast.ids == slow.ids
    assert fast.remarks == slow.remarks


def test_row_names_without_a_header_of_their_own(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv="a,b\nb,c\n", x_txt="age size\na 1 2\nb 3 4\nc 5 6\n")
    assert read_graph(edges, x).x.tolist() == [[1, 2], [3, 4], [5, 6]]
