"""Matrices of every kind are what SciPy reads and writes; broken ones are refused."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from progcl.data.matrix_market import read_matrix_market

RANDOM = np.random.default_rng(0)
DENSE = RANDOM.normal(size=(5, 3))
SQUARE = RANDOM.integers(-3, 4, size=(4, 4)).astype(float)
MATRICES = {
    "array": (DENSE, "general"),
    "integer array": (SQUARE.astype(int), "general"),
    "symmetric array": (SQUARE + SQUARE.T, "symmetric"),
    "skew array": (SQUARE - SQUARE.T, "skew-symmetric"),
    "coordinates": (scipy.sparse.coo_matrix(DENSE * (DENSE > 0)), "general"),
    "symmetric": (scipy.sparse.coo_matrix(SQUARE + SQUARE.T), "symmetric"),
    "skew": (scipy.sparse.coo_matrix(SQUARE - SQUARE.T), "skew-symmetric"),
    "empty": (scipy.sparse.coo_matrix((3, 2)), "general"),
}


def to_dense(matrix: object) -> np.ndarray:
    return matrix.toarray() if scipy.sparse.issparse(matrix) else np.asarray(matrix)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", MATRICES)
def test_it_reads_what_scipy_writes_as_scipy_reads_it(kind: str, tmp_path: Path) -> None:
    matrix, symmetry = MATRICES[kind]
    scipy.io.mmwrite(tmp_path / "m.mtx", matrix, comment="two\nlines", symmetry=symmetry)
    ours, theirs = read_matrix_market(tmp_path / "m.mtx"), scipy.io.mmread(tmp_path / "m.mtx")
    assert scipy.sparse.issparse(ours) == scipy.sparse.issparse(theirs)
    assert np.array_equal(to_dense(ours), to_dense(theirs))
    assert np.array_equal(to_dense(ours), to_dense(matrix))


def test_a_pattern_is_ones(tmp_path: Path) -> None:
    text = "%%MatrixMarket matrix coordinate pattern symmetric\n% comment\n\n3 3 2\n2 1\n3 3\n"
    (tmp_path / "m.mtx").write_text(text)
    assert to_dense(read_matrix_market(tmp_path / "m.mtx")).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line"),
        ("%%MatrixMarket matrix array pattern general\n1 1\n1\n", "first line"),
        ("%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "first line"),
        ("%%MatrixMarket vector coordinate real general\n1 1\n1 1\n", "first line"),
        ("%%MatrixMarket matrix array real general\n0 2\n1\n", "no rows and columns"),
        ("%%MatrixMarket matrix array real general\n", "no rows and columns"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 -1\n", "no rows and columns"),
        ("%%MatrixMarket matrix coordinate real general\n2 2\n1 1 1\n", "2 sizes"),
        ("%%MatrixMarket matrix array real general\n1 1 1\n1\n", "3 sizes"),
        ("%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 1 1\n", "symmetry"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n", "outside"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1\n", "outside"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1.5 1 1\n", "outside"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\nnan 1 1\n", "outside"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n2 2 1\n", "2 lines of 3 numbers, 1 of 3"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n", "1 lines of 3 numbers, 2 of 3"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1\n", "1 lines of 2 numbers, 1 of 3"),
        ("%%MatrixMarket matrix array real general\n2 1\n1\nx\n", "could not convert"),
    ],
)
def test_what_is_broken_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.mtx").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_matrix_market(tmp_path / "m.mtx")
