"""Checkpoints: one safetensors file, replaced in one step, holding all that an exact resume needs."""

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

State = tuple[dict[str, Tensor], dict[str, Any]]


def save(path: Path, state: State) -> None:
    """Write tensors and plain values; a reader sees the old file or the new one, never a part."""
    tensors, values = state
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}

    def write(part: Path) -> None:
        try:
            save_file(contiguous, part, {"values": json.dumps(values)})
        except SafetensorError as error:  # a full disk, as safetensors says it
            raise OSError(f"cannot write `{path}`: {error}") from None

    replace(path, write)


def load(path: Path) -> State:
    """Read what `save` wrote; safetensors runs no code from the file."""
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads(file.metadata()["values"])
            return {name: file.get_tensor(name) for name in file.keys()}, values  # noqa: SIM118 (not a dict)
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"`{path}` is not a checkpoint: {error}", "start again with --force") from None


class Embeddings(NamedTuple):
    """A vector for every node [N, d], and what the nodes are called: their numbers, if they have no names."""

    vectors: NDArray[np.float32]
    ids: list[str]


def save_embeddings(path: Path, vectors: NDArray[np.float32], ids: Sequence[str] | None = None) -> None:
    """Write an .npz with the key `embeddings`, and `ids` if the nodes have names."""
    arrays: dict[str, Any] = {"embeddings": vectors} | ({} if ids is None else {"ids": np.array(ids, dtype=str)})

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, **arrays)

    replace(path, write)


def load_embeddings(path: Path) -> Embeddings:
    """Read what `save_embeddings` wrote; pickles are refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            vectors: NDArray[np.float32] = file["embeddings"]
            ids = file["ids"] if "ids" in file else np.arange(len(vectors)).astype(str)
            return Embeddings(vectors, ids.tolist())
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"`{path}` holds no embeddings ({type(error).__name__})") from None


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step."""
    replace(path, lambda part: part.write_text(text))


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a neighboring file, then move it over `path`."""
    part = path.with_name(f".{path.name}.part")
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
