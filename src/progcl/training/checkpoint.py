"""Checkpoints, embeddings and other files of a run: written atomically, each with a checksum of its content."""

from __future__ import annotations

import json
import os
import secrets
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from progcl.checksums import KEY, REWRITE, DamagedFile, digest, read_file, seal
from progcl.errors import ProgclWarning

State = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and values that JSON can hold
RESTART = "start again with --force"


class Embeddings(NamedTuple):
    """Embeddings [N, d], and the names of the nodes: their numbers if they have none."""

    vectors: NDArray[np.float32]
    ids: list[str]


class Checkpoints:
    """The newest checkpoint in a folder, and the one before it in case that the newest is damaged.

    Attributes:
        folder: of the run
        epoch: of the newest one that was loaded or saved; None before
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.newest = folder / "checkpoint.safetensors"
        self.previous = folder / "checkpoint-previous.safetensors"
        self.epoch: int | None = None

    def save(self, state: State) -> None:
        """Write a checkpoint; the newest becomes the previous one."""
        save(self.newest, state, keep=self.previous)
        self.epoch = len(state[1]["records"])

    def load(self) -> State | None:
        """The newest checkpoint that is not damaged; None if none was written.

        Raises:
            DamagedFile: if all are damaged
        """
        damage: DamagedFile | None = None
        for path in (self.newest, self.previous):
            if not path.exists():
                continue
            try:
                state = load(path)
            except DamagedFile as error:
                damage = damage or error
                continue
            self.epoch = len(state[1]["records"])
            if damage:
                path.replace(self.newest)  # else the next one to be saved would push the good one out
                remark = f"{damage.args[0]}; continuing from the checkpoint before it, of epoch {self.epoch}"
                warnings.warn(remark, ProgclWarning, stacklevel=2)
            return state
        if damage:
            raise damage
        return None


def save(path: Path, state: State, keep: Path | None = None) -> None:
    """Write tensors and plain values to a safetensors file; a reader sees the old file or the new one.

    Args:
        path: of the file
        state: tensors and values
        keep: where a file that is already at `path` is moved to
    """
    tensors, values = state
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(values)

    def write(temporary: Path) -> None:
        try:
            save_file(contiguous, temporary, {"values": text, KEY: _digest_state(contiguous, text)})
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(f"cannot write `{path}`: {error}") from None

    write_atomically(path, write, keep)


def load(path: Path, hint: str = RESTART) -> State:
    """Read what `save` wrote; safetensors runs no code from the file.

    Raises:
        DamagedFile: if the file is not a checkpoint, or damaged
    """
    return read_file(path, lambda: _load(path), hint)


def _load(path: Path) -> State:
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if not metadata.keys() >= {"values", KEY}:
        raise ValueError("it has no checksum")
    if metadata[KEY] != _digest_state(tensors, metadata["values"]):
        raise ValueError("its checksum does not match")
    return tensors, json.loads(metadata["values"])


def _digest_state(tensors: Mapping[str, Tensor], text: str) -> str:
    """Checksum of names, types, shapes and numbers of all tensors, and of the values as text."""
    pieces: list[Any] = [text.encode()]
    for name in sorted(tensors):
        numbers = tensors[name].cpu().reshape(-1).view(torch.uint8).numpy()
        pieces += [f"{name} {tensors[name].dtype} {list(tensors[name].shape)}".encode(), numbers]
    return digest(*pieces)


def save_embeddings(
    path: Path,
    vectors: NDArray[np.float32],
    ids: Sequence[str] | None = None,
    clusters: NDArray[np.int64] | None = None,
) -> None:
    """Write an .npz with the key `embeddings`, `ids` if the nodes have names, and `clusters`; zip keeps CRC-32s."""
    arrays: dict[str, Any] = {"embeddings": vectors} | ({} if ids is None else {"ids": np.array(ids, dtype=str)})
    arrays |= {} if clusters is None else {"clusters": clusters}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def load_embeddings(path: Path) -> Embeddings:
    """Read what `save_embeddings` wrote, without unpickling.

    Raises:
        DamagedFile: if the file is damaged, or holds no embeddings
    """
    return read_file(path, lambda: _load_embeddings(path), REWRITE)


def _load_embeddings(path: Path) -> Embeddings:
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()  # numpy compares no checksum where a damaged header makes it read less
    if broken:
        raise ValueError(f"the checksum of {broken} does not match")
    with np.load(path, allow_pickle=False) as file:
        if not {"embeddings"} <= set(file.files) <= {"embeddings", "ids", "clusters"}:
            raise ValueError(f"it holds {', '.join(file.files) or 'nothing'}, not `embeddings` and `ids`")
        vectors: NDArray[np.float32] = file["embeddings"]
        ids = file["ids"] if "ids" in file.files else np.arange(len(vectors)).astype(str)
    if vectors.ndim != 2 or not vectors.size or vectors.dtype.kind != "f" or not np.isfinite(vectors).all():
        raise ValueError(f"embeddings are finite numbers [N, d] (got {vectors.dtype} {list(vectors.shape)})")
    if ids.shape != (len(vectors),) or ids.dtype.kind != "U":
        raise ValueError(f"{len(vectors)} nodes need as many names (got {ids.dtype} {list(ids.shape)})")
    return Embeddings(vectors, ids.tolist())


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, content: Mapping[str, Any], indent: int | None = 2) -> None:
    """Write a JSON file with a checksum, atomically."""
    write_text(path, json.dumps(seal(content), indent=indent) + "\n")


def write_atomically(path: Path, write: Callable[[Path], object], keep: Path | None = None) -> None:
    """Let `write` fill a temporary file in the same folder, then move it over `path`; what is there goes to `keep`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if keep and path.exists():
            path.replace(keep)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
