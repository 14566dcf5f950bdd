"""Edges from columns: by name, by flag, or the first two, and what is said about it."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from progcl import InputError
from progcl.data.formats import read_graph
from support.graphs import write_files

ROWS = [(f"p{index}", f"p{(index * 7 + 1) % 30}") for index in range(30)]


def write_rows(path: Path, head: str, *columns: int) -> str:
    """Columns 0 and 1 are the ends of an edge, 2 is a weight."""
    cells = [(source, target, f"0.{index}") for index, (source, target) in enumerate(ROWS)]
    path.write_text(
        "".join([f"{head}\n" if head else "", *(",".join(row[i] for i in columns) + "\n" for row in cells)])
    )
    return str(path)


@pytest.mark.parametrize("head", ["weight,Source,Target", "w,FROM,to", "w,src,dst", "w,follower,followee"])
def test_columns_are_found_by_name(head: str, tmp_path: Path) -> None:
    data = read_graph(write_rows(tmp_path / "g.csv", head, 2, 0, 1))
    assert set(data.ids) == {f"p{index}" for index in range(30)}
    assert data.edge_index.size(1) == 30
    unused = head.split(",")[0]
    assert data.remarks == [f"the column `{unused}` is not used: --weight {unused} makes it the weights of edges"]


def test_columns_are_named_by_flags(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "g.csv", "weight,who,whom", 2, 0, 1)
    data = read_graph(path, source="who", target="WHOM")
    assert set(data.ids) == {f"p{index}" for index in range(30)}
    bare = write_rows(tmp_path / "b.csv", "", 2, 0, 1)
    assert set(read_graph(bare, source="2", target="3").ids) == set(data.ids)
    with pytest.raises(InputError, match=r"no column `wo`, which --source names\n\nhint: did you mean `who`"):
        read_graph(path, source="wo", target="whom")
    with pytest.raises(InputError, match="go together"):
        read_graph(path, source="who")
    table = pyarrow.table({"a": [1.5, 2.5], "who": ["x", "y"], "whom": ["y", "z"]})
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet")
    assert read_graph(str(tmp_path / "g.parquet"), source="who", target="whom").ids == ["x", "y", "z"]


def test_a_header_of_any_words_is_no_edge_and_this_is_said(tmp_path: Path) -> None:
    data = read_graph(write_rows(tmp_path / "g.csv", "package,depends_on", 0, 1))
    assert "package" not in data.ids
    assert data.edge_index.size(1) == 30
    assert "the first line (`package`, `depends_on`) is read as a header" in data.remarks[0]
    plain = read_graph(write_rows(tmp_path / "p.csv", "", 0, 1))
    assert plain.edge_index.size(1) == 30
    assert plain.remarks == []
    two_nodes = read_graph(*write_files(tmp_path, t_csv="ann,bob\ncid,dan\n"))
    assert two_nodes.edge_index.size(1) == 2  # too short to tell


def test_the_first_two_columns_are_taken_with_a_sentence(tmp_path: Path) -> None:
    data = read_graph(write_rows(tmp_path / "g.csv", "package,needs,weight", 0, 1, 2))
    assert data.remarks[0].startswith("edges are read from the columns `package`, `needs`, the first two of 3")
    with pytest.raises(InputError, match="the header of a table of nodes"):
        read_graph(write_rows(tmp_path / "n.csv", "id,friend,weight", 0, 1, 2))
    data = read_graph(str(tmp_path / "n.csv"), source="id", target="friend")
    assert data.edge_index.size(1) == 30


def test_a_missing_name_is_named_by_its_row(tmp_path: Path) -> None:
    table = pyarrow.table({"source": ["a", None, "c"], "target": ["b", "c", "a"]})
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet")
    with pytest.raises(InputError, match="1 values are missing in column `source`, the first in row 1"):
        read_graph(str(tmp_path / "g.parquet"))


def test_weights_are_proposed_by_their_names(tmp_path: Path) -> None:
    rows = "".join(f"{index},p{index},p{index + 1},Undirected,{index},,0.{index}\n" for index in range(12))
    (gephi,) = write_files(tmp_path, g_csv=f",Source,Target,Type,Id,Label,Weight\n{rows}")
    assert read_graph(gephi).remarks == [
        "further columns are not read: `Type`, `Id`, `Label`",
        "the column `Weight` is not used: --weight Weight makes it the weights of edges",
    ]
    titled = write_rows(tmp_path / "t.csv", "who,whom,grade", 0, 1, 1)
    assert read_graph(titled).remarks[1:] == ["further columns are not read: `grade`"]  # by its name, not its number


def test_weights_of_an_edgelist(tmp_path: Path) -> None:
    plain, dicts = write_files(
        tmp_path, a_edgelist="a b 2.0\nb c 3.0\n", b_edgelist="a b {'tie': 2.0}\nb c {'tie': 3.0}\n"
    )
    assert read_graph(plain, weight="weight").edge_weight.tolist() == [2, 3]
    assert read_graph(dicts).remarks == ["the attribute `tie` is not used: --weight tie makes it the weights of edges"]
    with pytest.raises(InputError, match=r"no edge has the attribute `tie`(.|\n)*--weight 3 is the third column"):
        read_graph(plain, weight="tie")


def test_names_that_may_be_meant_otherwise(tmp_path: Path) -> None:
    films, papers, gaps = write_files(
        tmp_path,
        f_csv="user_id,movie_id\n1,2\n2,3\n",
        p_csv="citing_paper,cited_paper\n1,2\n2,3\n",
        n_csv="source,target\na,b\nb,NA\n",
    )
    assert "`2` in `user_id` and in `movie_id` is the same node" in read_graph(films).remarks[-1]
    assert len(read_graph(papers).remarks) == 1
    assert read_graph(gaps).remarks == [
        "`NA` is read as the name of a node: leave its edges out if it means a missing value"
    ]
