"""Rows find their nodes: whole numbers with a fraction, numbers of rows, names with spaces, missing columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from progcl import InputError
from progcl.data.formats import read_graph
from support.graphs import write_files

EDGES = "a,b\nb,c\nc,a\n"


def test_whole_numbers_with_a_fraction_are_the_same_names(tmp_path: Path) -> None:
    edges, x = write_files(
        tmp_path, g_csv="source,target\n0,1.0\n1,2.0\n2,0.0\n", x_csv="id,a,b\n0.0,1,2\n1.0,3,4\n2.0,5,7\n"
    )
    data = read_graph(edges, x)
    assert data.ids == ["0", "1", "2"]
    assert data.x.tolist() == [[1, 2], [3, 4], [5, 7]]
    (versions,) = write_files(tmp_path, v_csv="source,target\n1.0,1.1\n1.1,2.0\n")
    assert read_graph(versions).ids == ["1.0", "1.1", "2.0"]


def test_numbers_of_rows_are_no_feature(tmp_path: Path) -> None:
    edges, x, y = write_files(
        tmp_path, g_csv=EDGES, x_csv=",name,age\n0,a,5\n1,b,9\n2,c,7\n", y_csv="index,id,kind\n0,a,p\n1,b,q\n2,c,p\n"
    )
    data = read_graph(edges, x, y)
    assert data.x.tolist() == [[5], [9], [7]]
    assert "left out, as they number the rows: column ``" in data.remarks
    assert data.classes == ["p", "q"]


def test_the_same_number_for_all_is_no_feature(tmp_path: Path) -> None:
    edges, x, same = write_files(
        tmp_path, g_csv=EDGES, x_csv="id,a,b\na,5,1\nb,5,2\nc,5,3\n", s_csv="id,a\na,5\nb,5\nc,5\n"
    )
    data = read_graph(edges, x)
    assert data.x.tolist() == [[1], [2], [3]]
    assert "left out, with the same number for all nodes: column `a`" in data.remarks
    with pytest.raises(InputError, match="there are no features: left out, with the same number"):
        read_graph(edges, same)


@pytest.mark.parametrize(
    "lines",
    [
        ["node number 0", "Smith, Ann", "key of 2"],
        ["name", "node number 0", "Smith, Ann", "key of 2"],
        ["people of this graph", "node number 0", "Smith, Ann", "key of 2"],
        ["node number 0", '"Smith, Ann"', "key of 2"],
        ["rank,name", "1,node number 0", '2,"Smith, Ann"', "3,key of 2"],
    ],
)
def test_ids_are_whole_lines(lines: list[str], tmp_path: Path) -> None:
    (ids,) = write_files(tmp_path, ids_txt="\n".join(lines) + "\n")
    np.save(tmp_path / "g.npy", np.array([[0, 1, 2], [1, 2, 0]]))
    data = read_graph(str(tmp_path / "g.npy"), ids_from=ids)
    assert data.ids == ["node number 0", "Smith, Ann", "key of 2"]


def test_columns_that_nothing_has(tmp_path: Path) -> None:
    edges, x = write_files(tmp_path, g_csv=EDGES, x_csv="id,age\na,1\nb,2\nc,3\n")
    for flag in ("id_column", "label_column"):
        wanted: dict[str, Any] = {flag: "foo"}
        name = flag.replace("_", "-")
        with pytest.raises(InputError, match=rf"--{name} names `foo`, and there is no table of nodes\n\nhint: --"):
            read_graph(edges, **wanted)
        with pytest.raises(InputError, match=rf"`{x}` has no column `foo`, which --{name} names"):
            read_graph(edges, x, **wanted)


def test_an_error_names_the_file_that_it_is_about(tmp_path: Path) -> None:
    edges, y = write_files(tmp_path, g_csv=EDGES, y_csv="id,label\na,1\na,2\n")
    with pytest.raises(InputError) as caught:
        read_graph(edges, labels_from=y)
    assert str(caught.value).startswith(f"`{y}`: 1 rows name a node again, such as `a`\n\nhint: ")
