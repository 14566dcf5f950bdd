"""Features in a memory-mapped file."""

from pathlib import Path

import numpy as np
import pytest
import torch

from progcl import InputError, fit, load_config
from progcl.data.datasets import load_data, load_dataset
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


def test_mapped_features_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    load_dataset("csbm", mapped=str(path), nodes=100)
    np.save(path, np.zeros((60, 16), dtype=np.float32))
    with pytest.raises(InputError, match=r"holds features \[60, 16\], not \[100, "):
        load_dataset("csbm", mapped=str(path), nodes=100)


def test_mapped_features_are_written_below_the_run_or_the_data_root_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PROGCL_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    small = {"data.nodes": 60, "train.epochs": 2, "encoder.hidden": 4, "probe.protocol": "none", "miner.name": "none"}
    run, root = tmp_path / "run", tmp_path / "root"
    elsewhere = [tmp_path / "x.npy", run / ".." / "x.npy", tmp_path / "runs" / "x.npy"]
    for path in elsewhere:
        with pytest.raises(InputError, match=r"is written below .* only"):
            fit(load_config("csbm", {**small, "data.mapped": str(path)}), out=run, data_root=root)
    assert list(tmp_path.iterdir()) == []
    places = {run / "x.npy": run, root / "x.npy": None, tmp_path / "PROGCL_DATA" / "deep" / "x.npy": None}
    for path, out in places.items():
        config = load_config("csbm", {**small, "data.mapped": str(path)})
        fit(config, out=out, data_root=root)
        assert path.exists()
    for options in ({"resume": True}, {"force": True}):
        fit(load_config("csbm", {**small, "data.mapped": str(run / "x.npy")}), out=run, **options)  # type: ignore[arg-type]
        assert (run / "x.npy").exists()
    assert load_data(config.data).num_nodes == 60  # what is there may be read from anywhere
    (tmp_path / "PROGCL_DATA" / "deep" / "x.npy.json").write_text("{")
    with pytest.raises(InputError, match="hint: remove it, or name another file"):
        load_data(config.data)
