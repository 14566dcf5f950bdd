"""Features in long form become a row for each node."""

from pathlib import Path

import pytest
import torch

from progcl import InputError
from progcl.data.features import Feature
from progcl.data.formats import read_graph
from support.graphs import write_files

EDGES = "a,b\nb,c\n"


@pytest.mark.parametrize("head", ["node,feature,value\n", "id,word,count\n", ""])
def test_node_feature_value(head: str, tmp_path: Path) -> None:
    rows = "a,red,2\na,blue,1\nb,red,3\nc,green,5\n"
    edges, x = write_files(tmp_path, g_csv=EDGES, x_csv=head + rows)
    data = read_graph(edges, x)
    assert data.ids == ["a", "b", "c"]
    assert data.x.tolist() == [[2, 1, 0], [3, 0, 0], [0, 0, 5]]
    assert any("features in long form" in remark for remark in data.remarks)


def test_features_that_are_there_or_not(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv=EDGES, x_csv="node_id,feature_id\na,7\na,8\nb,7\nc,9\n")
    assert read_graph(edges, x).x.tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_of_dense_features_absent_values_are_missing(tmp_path: Path) -> None:
    rows = "a,age,20\na,size,5\nb,age,30\nb,size,7\nc,age,40\n"
    edges, x = write_files(tmp_path, g_csv=EDGES, x_csv="node,feature,value\n" + rows)
    assert read_graph(edges, x).x.tolist() == [[20, 5], [30, 7], [40, 6]]


def test_many_features_are_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("progcl.data.long_form.MAX_BYTES", 10)
    edges, x = write_files(tmp_path, g_csv=EDGES, x_csv="node,word\na,red\na,blue\nb,red\nc,green\n")
    data = read_graph(edges, x)
    assert data.x.shape == (3, 1024)
    assert data.x.abs().sum(dim=1).tolist() == [2, 1, 1]


def test_a_value_that_is_no_number_is_named_by_its_line(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv=EDGES, x_csv="node,feature,value\na,red,2\na,blue,much\nb,red,3\n")
    with pytest.raises(InputError, match="line 3 holds `much` in column `value`"):
        read_graph(edges, x)


@pytest.mark.parametrize("limit", [4e9, 10])
@pytest.mark.parametrize(
    "rows", ["a,red,2\na,blue,1\nb,red,3\nc,green,5\n", "a,red,2\na,blue,1\nb,red,3\nb,blue,4\nc,red,1\n"]
)
def test_another_table_gets_the_same_columns(
    rows: str, limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever order its features come in, and whichever it lacks: sparse, dense, or hashed."""
    monkeypatch.setattr("progcl.data.long_form.MAX_BYTES", limit)
    head = "node,feature,value\n"
    later = "c,pink,9\na,blue,1\na,red,2\nb,red,3\nb,blue,4\n"
    edges, x, y = write_files(tmp_path, g_csv=EDGES, x_csv=head + rows, y_csv=head + later)
    before = read_graph(edges, x)
    plan = [Feature(**feature) for feature in before.plan]
    again = read_graph(edges, x, plan=plan)
    assert torch.equal(again.x, before.x)
    other = read_graph(edges, y, plan=plan)
    assert other.x.size(1) == before.x.size(1)
    row = other.ids.index("a")
    assert torch.equal(other.x[row], before.x[before.ids.index("a")])
    if limit > 10:
        assert any("1 features of the long form were not there before" in remark for remark in other.remarks)


def test_a_cell_of_several_lines_is_named_in_one(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv="a,b\nb,c\n", x_csv='node,feature,value\na,f,1\nb,f,2\nc,g,"3\n4"\n')
    with pytest.raises(InputError, match=r"line 4 holds `3\\n4` in column `value`"):
        read_graph(edges, x)
