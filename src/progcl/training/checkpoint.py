"""Checkpoints: one safetensors file with all that an exact resume needs, written atomically."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from progcl.errors import InputError

State = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and values that JSON can hold


class Embeddings(NamedTuple):
    """Embeddings [N, d], and the names of the nodes: their numbers if they have none."""

    vectors: NDArray[np.float32]
    ids: list[str]


def save(path: Path, state: State) -> None:
    """Write tensors and plain values to a safetensors file; a reader sees the old file or the new one."""
    tensors, values = state
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            save_file(contiguous, temporary, {"values": json.dumps(values)})
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(f"cannot write `{path}`: {error}") from None

    write_atomically(path, write)


def load(path: Path) -> State:
    """Read what `save` wrote; safetensors runs no code from the file.

    Raises:
        InputError: if the file is not a checkpoint
    """
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads(file.metadata()["values"])
            return {name: file.get_tensor(name) for name in file.keys()}, values  # noqa: SIM118 (not a dict)
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"`{path}` is not a checkpoint: {error}", "start again with --force") from None


def save_embeddings(path: Path, vectors: NDArray[np.float32], ids: Sequence[str] | None = None) -> None:
    """Write an .npz with the key `embeddings`, and `ids` if the nodes have names."""
    arrays: dict[str, Any] = {"embeddings": vectors} | ({} if ids is None else {"ids": np.array(ids, dtype=str)})

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def load_embeddings(path: Path) -> Embeddings:
    """Read what `save_embeddings` wrote, without unpickling.

    Raises:
        InputError: if the file holds no embeddings
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            vectors: NDArray[np.float32] = file["embeddings"]
            ids = file["ids"] if "ids" in file else np.arange(len(vectors)).astype(str)
            return Embeddings(vectors, ids.tolist())
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"`{path}` holds no embeddings ({type(error).__name__})") from None


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file in the same folder, then move it over `path`."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
