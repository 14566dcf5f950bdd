"""Features in long form become a row for each node."""

from pathlib import Path

import pytest

from progcl import InputError
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
