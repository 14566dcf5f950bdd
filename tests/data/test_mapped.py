"""Features in a memory-mapped file."""

from pathlib import Path

import pytest
import torch

from progcl import InputError
from progcl.data.datasets import load_dataset
from progcl.graph.sparse import scale_features


def test_mapped_features_are_written_once_and_recognized(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.npy"
    first = load_dataset("csbm", mapped=str(path), nodes=100)
    content = path.read_bytes()
    again = load_dataset("csbm", mapped=str(path), nodes=100)
    assert torch.equal(first.x, again.x)
    assert path.read_bytes() == content
    plain = load_dataset("csbm", nodes=100)
    torch.testing.assert_close(scale_features(first), plain.x)
    assert torch.equal(first.edge_index, plain.edge_index)
    for nodes, degree in ((101, 10), (100, 4)):
        with pytest.raises(InputError, match="other features"):
            load_dataset("csbm", mapped=str(path), nodes=nodes, degree=degree)
    assert {file.name for file in path.parent.iterdir()} == {"x.npy", "x.npy.json"}
