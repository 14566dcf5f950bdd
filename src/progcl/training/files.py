"""Files of a run: written atomically, and read without torch, so that commands on embeddings start at once."""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from progcl.checksums import REWRITE, read_file, seal
from progcl.files import load_npz


class Embeddings(NamedTuple):
    """Embeddings [N, d], and the names of the nodes: their numbers if they have none."""

    vectors: NDArray[np.float32]
    ids: list[str]


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
    arrays, names = load_npz(path)
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()  # numpy compares no checksum where a damaged header makes it read less
    if broken:
        raise ValueError(f"the checksum of {broken} does not match")
    if not {"embeddings"} <= set(names) <= {"embeddings", "ids", "clusters"}:
        raise ValueError(f"it holds {', '.join(names) or 'nothing'}, not `embeddings` and `ids`")
    vectors: NDArray[np.float32] = arrays["embeddings"]
    ids = arrays["ids"] if "ids" in arrays else np.arange(len(vectors)).astype(str)
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
