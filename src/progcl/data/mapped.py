"""Features in memory-mapped files: rows that are not read stay on disk."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from progcl.checksums import read_file
from progcl.errors import InputError

CHUNK_ROWS = 2**14  # rows of features that are in memory at once


def write_rows(path: Path, shape: tuple[int, int], chunks: Iterable[Tensor], settings: dict[str, Any]) -> Tensor:
    """Write rows [N, F] to a .npy file unless it exists, and map it.

    `settings` say what the rows were generated from; they are stored beside the file.

    Raises:
        InputError: if the file holds rows of other settings
    """
    sidecar = path.with_name(f"{path.name}.json")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        file = np.lib.format.open_memmap(temporary, "w+", np.float32, shape)
        start = 0
        for rows in chunks:
            file[start : start + len(rows)] = rows.numpy()
            start += len(rows)
        file.flush()
        sidecar.write_text(json.dumps(settings))
        temporary.replace(path)  # a reader sees the complete file or none
    hint = "remove it, or name another file as --data.mapped"
    if not sidecar.exists() or read_file(sidecar, lambda: json.loads(sidecar.read_text()), hint) != settings:
        raise InputError(f"`{path}` holds other features", hint)
    rows = map_rows(read_file(path, lambda: np.load(path, mmap_mode="r"), hint))
    if rows.shape != shape:
        raise InputError(f"`{path}` holds features {list(rows.shape)}, not {list(shape)}", hint)
    return rows


def require_inside(path: Path, folders: Sequence[Path]) -> None:
    """Raise `InputError` if a file is missing, and would be written elsewhere than below one of these folders."""
    target = path.resolve()
    if not path.exists() and not any(target.is_relative_to(folder.resolve()) for folder in folders):
        places = " or ".join(f"`{folder}`" for folder in folders)
        message = f"`data.mapped` names `{path}`, which is not there, and is written below {places} only"
        raise InputError(message, f"name a file there, or make {path.parent} the --data-root")


def map_rows(file: np.memmap[Any, Any]) -> Tensor:
    """A mapped file as a tensor that shares its memory.

    Raises:
        InputError: if it is not float32, as converting it would copy it into memory
    """
    if file.dtype != np.float32:
        raise InputError(f"mapped features need to be float32 (got {file.dtype})", "x.astype('float32')")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # nothing writes to it
        return torch.from_numpy(file)
