"""A bar while large files are read: shown where it is asked for, and without an effect on what is read."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from progcl import progress
from progcl.data.formats import read_node_data
from progcl.progress import open_bytes, show_reading

LINES = "".join(f"node {number % 997},node {number * 7 % 1009}\n" for number in range(60_000))


@pytest.mark.parametrize("name", ["edges.csv", "edges.csv.gz", "edges.edgelist"])
def test_large_files_are_read_with_a_bar(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    text = LINES.replace("node ", "n").replace(",", " ") if name.endswith("edgelist") else LINES
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    before = read_node_data(path)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "LARGE_FILE", 1000)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert read_node_data(path).ids == before.ids
    assert capsys.readouterr().err == ""
    with show_reading():
        data = read_node_data(path)
    assert f"reading {name}: " in capsys.readouterr().err
    assert data.ids == before.ids
    np.testing.assert_array_equal(data.edges, before.edges)


def test_a_small_file_is_opened_as_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with show_reading(), open_bytes(tmp_path / "a") as file:
        assert file.read() == b"abc"
    assert capsys.readouterr().err == ""
