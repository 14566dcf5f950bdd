"""Columns become features: imputed, scaled, one-hot and hashed as scikit-learn does it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, RobustScaler

from progcl import InputError
from progcl.data.columns import code_text
from progcl.data.features import encode_features, transform_features
from progcl.data.formats import read_graph
from progcl.data.tables import Table
from support.graphs import write_files

AGES = np.array([20.0, 30, np.nan, 80, 45, 50])
INCOMES = np.array([1e4, 2e4, 5e4, np.nan, 3e4, 1e5])
CITIES = ["Rome", "Oslo", "Rome", "", "Oslo", "Rome"]
TEXTS = [f"likes {word} and number {index}" for index, word in enumerate(["tea", "cats", "tea", "dogs", "tea", "cats"])]


def encode(scale: bool = True, kind: str | None = None, **columns: Any) -> Any:
    coded = {name: code_text(values) if isinstance(values, list) else values for name, values in columns.items()}
    return encode_features(Table(coded, file="x.csv"), kind, scale)


def test_numbers_of_different_scales_are_those_of_scikit_learn() -> None:
    x, _, remarks = encode(age=AGES, income=INCOMES)
    rows = np.stack([AGES, INCOMES], axis=1)
    expected = RobustScaler().fit(rows).transform(SimpleImputer(strategy="median").fit_transform(rows))
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    assert "missing values are filled with the median: column `age` 1, column `income` 1" in remarks
    assert any("scaled by median and quartiles" in remark for remark in remarks)
    x, _, remarks = encode(scale=False, age=AGES, income=INCOMES)
    np.testing.assert_allclose(x, SimpleImputer(strategy="median").fit_transform(rows))


def test_numbers_of_one_scale_and_counts_of_words_are_used_as_they_are() -> None:
    x, _, remarks = encode(first=AGES[3:], second=2 * AGES[3:])
    assert x.tolist() == [[80, 160], [45, 90], [50, 100]]
    assert remarks == []
    counts = np.zeros((50, 30))
    counts[np.arange(50), np.arange(50) % 30] = 1
    counts[0, 0] = 90
    assert np.array_equal(encode(x=counts)[0], counts)
    assert np.array_equal(encode(x=scipy.sparse.csr_matrix(counts))[0].toarray(), counts)


def test_outliers_are_cut_off_and_columns_that_are_mostly_zero_keep_their_zeros() -> None:
    wealth = np.r_[np.arange(1.0, 100), 1e9]
    flags, visits = np.r_[np.zeros(90), np.ones(10)], np.r_[np.zeros(90), np.full(10, 4e5)]
    x, _, _ = encode(wealth=wealth, flag=flags, visits=visits)
    assert x[-1, 0] == 10
    assert np.array_equal(x[:, 1], flags)
    assert x[0, 2] == 0
    assert 0 < x[-1, 2] <= 10


def test_categories_flags_and_text() -> None:
    x, plan, remarks = encode(city=CITIES, member=["yes", "no", "", "yes", "no", "no"], bio=TEXTS)
    one_hot = OneHotEncoder(categories=[["Oslo", "Rome"]], handle_unknown="ignore", sparse_output=False)
    np.testing.assert_array_equal(x[:, :2], one_hot.fit_transform(np.array(CITIES)[:, None]))
    assert x[:, 2].tolist() == [1, 0, 0.5, 1, 0, 0]
    np.testing.assert_allclose(x[:, 3:], HashingVectorizer(n_features=256).transform(TEXTS).toarray(), rtol=1e-6)
    assert [feature.kind for feature in plan] == ["category", "flag", "text"]
    assert any("one-hot: column `city`" in remark for remark in remarks)
    again = {"city": code_text(["Rome", "Kyiv"]), "member": code_text(["no", "yes"]), "bio": code_text(TEXTS[:2])}
    other = transform_features(plan, again)
    assert other[:, :3].tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(InputError, match="no column `member`"):
        transform_features(plan, {"city": again["city"]})


def test_columns_without_information_are_left_out_with_a_note() -> None:
    x, _, remarks = encode(age=AGES, uuid=list("abcdef"), country=["IT"] * 6, empty=[""] * 6, none=np.full(6, np.nan))
    assert x.shape == (6, 1)
    said = "; ".join(remarks)
    for text in ("another name for every node: column `uuid`", "the same text for all nodes: column `country`"):
        assert text in said
    assert "without any value: column `empty`, `none`" in said


def test_a_mistake_is_named_by_column_and_row() -> None:
    with pytest.raises(InputError, match=r"`x.csv`: row 1 holds `2o` in column `age`, whose other values are numbers"):
        encode(age=["1", "2o", "3", "4"])
    with pytest.raises(InputError, match=r"row 2 holds inf in column `age`"):
        encode(age=np.array([1.0, 2, np.inf]))
    with pytest.raises(InputError, match=r"row 1 holds -inf in column 2"):
        encode(x=np.array([[1.0, 2], [3, -np.inf]]))


def test_nodes_of_each_type_have_features_of_their_own(tmp_path: Path) -> None:
    edges, x = write_files(
        tmp_path,
        g_csv="a1,p1\na2,p1\na1,p2\na2,p2\n",
        x_csv="id,type,age,pages\na1,author,20,\na2,author,40,\np1,paper,,3\np2,paper,,9\n",
    )
    data = read_graph(edges, x)
    assert data.x.tolist() == [[20, 0, 1, 0], [40, 0, 1, 0], [0, 3, 0, 1], [0, 9, 0, 1]]
    assert any("nodes of 2 types have features of their own" in remark for remark in data.remarks)
    (shared,) = write_files(tmp_path, s_csv="id,type,age\na1,u,20\na2,u,40\np1,v,5\np2,v,9\n")
    assert read_graph(edges, shared).x.shape == (4, 3)  # one age for all, and the type one-hot
