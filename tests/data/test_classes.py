"""Labels as class numbers: what is unknown, and what is a class."""

import numpy as np
import pytest

from progcl import InputError
from progcl.data.classes import code_classes, find_unknown
from progcl.data.columns import code_text


def test_unknown_labels_are_no_class() -> None:
    y, classes, remarks = code_classes(code_text(["b", "", "a", "-1", "NaN", "NA", "-1.0", "b"]), 8)
    assert y.tolist() == [1, -1, 0, -1, -1, -1, -1, 1]
    assert classes == ["a", "b"]
    assert remarks == ["5 of 8 nodes have no label (empty, -1 or NaN): only the others are scored"]
    y, classes, _ = code_classes(np.array([2.0, np.nan, 0.0, -1.0]), 4)
    assert y.tolist() == [1, -1, 0, -1]
    assert classes == ["0", "2"]


def test_words_for_unknown_are_no_class() -> None:
    y, classes, remarks = code_classes(code_text(["Unknown", "1", "2", "?", "1"]), 5)  # as in the Elliptic data set
    assert (y.tolist(), classes) == ([-1, 0, 1, -1, 0], ["1", "2"])
    assert remarks == ["2 of 5 nodes have no label (missing or `Unknown`): only the others are scored"]
    y, classes, _ = code_classes(code_text(["unknown", "known", "known"]), 3)
    assert (y.tolist(), classes) == ([1, 0, 0], ["known", "unknown"])


def test_of_two_numbers_minus_one_is_a_class() -> None:
    y, classes, remarks = code_classes(np.array([1, -1, -1, 1]), 4)
    assert y.tolist() == [1, 0, 0, 1]
    assert classes == ["-1", "1"]
    assert "two classes" in remarks[0]
    assert find_unknown(np.array([1, -1, -1])).tolist() == [1, 0, 0]


def test_labels_of_python() -> None:
    assert find_unknown(np.array([0.0, np.nan, 2.0])).tolist() == [0, -1, 2]
    assert find_unknown(np.array([0, -100, 2, 1])).tolist() == [0, -1, 2, 1]
    assert find_unknown(np.array([[1], [0]])).tolist() == [1, 0]
    with pytest.raises(InputError, match="labels of type"):
        find_unknown(np.array(["a", "b"]))


def test_one_hot_labels_and_several_classes_of_a_node() -> None:
    assert code_classes(np.array([[0, 1], [1, 0], [0, 0]]), 3)[0].tolist() == [1, 0, -1]
    assert code_classes(np.array([[1], [0], [7]]), 3)[0].tolist() == [1, 0, 2]
    with pytest.raises(InputError, match="a node has one class"):
        code_classes(np.array([[1, 1], [1, 0]]), 2)
