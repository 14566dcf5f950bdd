"""Features in a mapped file: what is not read stays on disk."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from progcl.errors import InputError


def write_rows(path: Path, shape: tuple[int, int], rows: Iterable[Tensor], settings: dict[str, Any]) -> Tensor:
    """Rows in a file that is mapped, written there once; what it was made of stands beside it."""
    note = path.with_name(f"{path.name}.json")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        file = np.lib.format.open_memmap(unfinished, "w+", np.float32, shape)
        start = 0
        for part in rows:
            file[start : start + len(part)] = part.numpy()
            start += len(part)
        file.flush()
        note.write_text(json.dumps(settings))
        unfinished.replace(path)  # a reader sees all of it, or none
    if not note.exists() or json.loads(note.read_text()) != settings:
        raise InputError(f"`{path}` holds other features", "remove it, or name another file as --data.mapped")
    return map_rows(np.load(path, mmap_mode="r"))


def map_rows(file: np.memmap[Any, Any]) -> Tensor:
    """A mapped file as a tensor; what is not read stays on disk."""
    if file.dtype != np.float32:
        raise InputError(f"mapped features need to be float32 (got {file.dtype})", "x.astype('float32')")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # nothing writes
        return torch.from_numpy(file)
