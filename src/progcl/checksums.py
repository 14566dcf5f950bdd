"""Checksums that files carry: damage is noticed when they are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from progcl import files
from progcl.errors import InputError

Value = TypeVar("Value")

KEY = "checksum"
REWRITE = "run the same command with --resume: it is written again from the checkpoint"


class DamagedFile(InputError):
    """A file is not what was written."""


def digest(*pieces: Any) -> str:
    """BLAKE2b of bytes-like pieces, 64 bits in hex."""
    state = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        state.update(piece)
    return state.hexdigest()


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its checksum as one more key, to be written as JSON or YAML."""
    return {**content, KEY: _digest_values(content)}


def unseal(content: Any) -> dict[str, Any]:
    """The content that `seal` got, after its file was parsed.

    Raises:
        ValueError: if it has no checksum, or another
    """
    if not isinstance(content, dict) or KEY not in content:
        raise ValueError("it has no checksum")
    values = {name: value for name, value in content.items() if name != KEY}
    if content[KEY] != _digest_values(values):
        raise ValueError("its checksum does not match")
    return values


def read_json(path: Path, hint: str = REWRITE) -> dict[str, Any]:
    """Read a sealed JSON file.

    Raises:
        DamagedFile: if it is missing, damaged or foreign
    """
    return read_file(path, lambda: unseal(json.loads(path.read_text("utf-8"))), hint)


def read_json_lines(path: Path, hint: str = REWRITE) -> list[dict[str, Any]]:
    """Read a file of sealed JSON objects, one in a line; raise `DamagedFile` as `read_json` does."""
    return read_file(path, lambda: [unseal(json.loads(line)) for line in path.read_text("utf-8").splitlines()], hint)


def read_file(path: Path, read: Callable[[], Value], hint: str) -> Value:
    """`read()`, whose every failure is a `DamagedFile` that names the path."""
    return files.read_file(path, read, hint, "is damaged", DamagedFile)


def require_finished(run: Path) -> None:
    """Raise `InputError` unless a folder holds a run whose embeddings are final."""
    if not (run / "result.json").exists():
        hint = (
            "finish it with --resume"
            if (run / "config.yaml").exists()
            else "`progcl embed` and `progcl train` make one"
        )
        raise InputError(f"`{run}` holds no finished run", hint)


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Sealed JSON objects, one in a line."""
    return "".join(json.dumps(seal(row)) + "\n" for row in rows)


def _digest_values(content: Mapping[str, Any]) -> str:
    as_read = json.loads(json.dumps(content))  # its keys are strings, its tuples lists
    return digest(json.dumps(as_read, sort_keys=True).encode())
