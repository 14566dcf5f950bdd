"""Checkpoints come back as they were saved, and a failed write changes nothing."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from progcl import InputError
from progcl.training import checkpoint, files


def test_round_trip(tmp_path: Path) -> None:
    tensors = {
        "a": torch.arange(6).view(2, 3).T,
        "empty": torch.empty(0),
        "bytes": torch.ones(3, dtype=torch.uint8),
    }
    checkpoint.save(tmp_path / "x.safetensors", (tensors, {"epoch": 3, "text": "ü"}))
    loaded, values = checkpoint.load(tmp_path / "x.safetensors")
    assert values == {"epoch": 3, "text": "ü"}
    for name, tensor in tensors.items():
        assert torch.equal(loaded[name], tensor)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    files.write_text(path, "old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "foreign.safetensors")
    with pytest.raises(InputError, match="it has no checksum"):
        checkpoint.load(tmp_path / "foreign.safetensors")


def test_a_checkpoint_is_written_where_a_kill_does_no_harm_and_is_as_readable_as_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[Path] = []

    def watch(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
        places.append(path)
        save_file(tensors, path, metadata)

    monkeypatch.setattr(checkpoint, "save_file", watch)
    checkpoint.save(tmp_path / "x.safetensors", ({"a": torch.ones(3)}, {}))
    files.write_text(tmp_path / "x.txt", "text")
    assert [(path.parent.parent, path.parent.suffix) for path in places] == [(tmp_path, ".part")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.safetensors", "x.txt"]
    assert (tmp_path / "x.safetensors").stat().st_mode == (tmp_path / "x.txt").stat().st_mode
