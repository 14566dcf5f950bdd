"""The door for files: what a file declares is compared with its size first, and whatever a reader raises is one line.

A small file can claim much: a number of nodes, the shape of an array, a compressed gigabyte of zeros. `require_counted`
and `require_sized` refuse by arithmetic, before anything is allocated.
"""

from __future__ import annotations

import gzip
import io
import math
import pickle
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from progcl.errors import InputError
from progcl.memory import is_out_of_memory, memory_left, require_memory
from progcl.progress import open_bytes

Value = TypeVar("Value")

COUNTS_PER_BYTE, FREE_COUNT = 1000, 10**5  # nodes or rows that a file may declare for each of its bytes, and at least
EXPANSION, FREE_BYTES = 200, 2**27  # bytes of content for each byte of a compressed file, and at least
COPIES = 3  # of an array, from its file to float32
MAX_NPY_HEADER = 10_000  # as numpy has it
GZIP_MAGIC = b"\x1f\x8b"
OBJECTS_HINT = "objects are never loaded, for they can run code: save plain arrays or tensors"


def read_file(
    path: Path,
    read: Callable[[], Value],
    hint: str,
    problem: str = "cannot be read",
    error: type[InputError] = InputError,
) -> Value:
    """`read()`, whose every failure is an `InputError` of one line that names the path.

    Raises:
        InputError: or the given subclass, whatever `read` raises; a missing permission stays a PermissionError
    """
    try:
        return read()
    except FileNotFoundError:
        raise error(f"there is no file `{path}`", hint) from None
    except PermissionError:
        raise
    except InputError as known:
        message = str(known.args[0])
        names_file = str(path) in message or _begins_with_file(message)
        message = message if names_file else f"`{path}`: {message}"
        raise type(known)(message, known.hint or hint) from None
    except Exception as unknown:  # a broken file makes parsers raise nearly anything
        reason, better_hint = _explain(unknown)
        is_own = error is not InputError  # a file of a run, which no user saves in another way
        raise error(f"`{path}` {problem}: {reason}", (not is_own and better_hint) or hint) from None


def require_counted(count: int, size: float, what: str) -> None:
    """Raise `InputError` if a file of `size` bytes declares an implausible number of nodes, rows or entries."""
    most = max(FREE_COUNT, COUNTS_PER_BYTE * size)
    if not 0 <= count <= most:
        hint = "nodes are counted from 0 without large gaps; in a table such as .csv, any number is a name"
        raise InputError(f"{count:,} {what} are declared in {size:,.0f} bytes", hint)


def require_sized(claim: float, size: float, what: str = "its content") -> None:
    """Raise `InputError` if `claim` bytes of content are implausible for a file of `size` bytes, or beyond memory."""
    if claim > max(FREE_BYTES, EXPANSION * size):
        hint = f"a file may hold {EXPANSION} times its size: save it without compression if it is yours"
        raise InputError(f"{what} would be {claim:,.0f} bytes, {claim / max(1, size):,.0f} times the file", hint)
    require_memory(COPIES * claim, what)


def check_npy(file: IO[bytes], size: int) -> None:
    """Raise if the header of a .npy declares more than the rest of its `size` bytes; the file is rewound.

    Raises:
        ValueError: if it does
        InputError: if the array holds next to nothing in many rows
    """
    start = file.read(12)
    file.seek(0)
    if start[:6] != b"\x93NUMPY":
        return  # the reader says what it is
    length = int.from_bytes(start[8:10] if start[6] == 1 else start[8:12], "little")
    if length > MAX_NPY_HEADER:
        raise ValueError(f"a header of {length:,} bytes")
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read_header(file)
    left, claim = size - file.tell(), math.prod(shape) * kind.itemsize
    file.seek(0)
    if kind.hasobject:
        raise pickle.UnpicklingError
    if min(shape, default=0) < 0 or claim > left:
        raise ValueError(f"its header declares {claim:,} bytes, {left:,} follow")
    require_counted(max(shape, default=0), left, "rows")


def load_npz(path: Path, names: Collection[str] | None = None) -> tuple[dict[str, Any], list[str]]:
    """The arrays of an .npz by name, or those `names` among them; and the names of all. Nothing is unpickled."""
    if not zipfile.is_zipfile(path):
        raise zipfile.BadZipFile("it is no archive of arrays")
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        wanted = {name: members[name] for name in members if names is None or name in names}
        require_sized(sum(info.file_size for info in wanted.values()), path.stat().st_size, "its arrays")
        for info in wanted.values():
            with archive.open(info) as member:
                check_npy(member, info.file_size)
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return {name: file[name] for name in wanted}, list(members)


def load_npy(path: Path) -> Any:
    """An array, without unpickling."""
    with path.open("rb") as file:
        check_npy(file, path.stat().st_size)
        content = np.load(file, allow_pickle=False)
    if not isinstance(content, np.ndarray):
        content.close()
        raise InputError(f"`{path}` holds several arrays", "save one as .npy")
    return content


def is_compressed(path: Path) -> bool:
    """Whether a file is gzipped, by its name."""
    return path.suffix.lower() == ".gz"


def open_binary(path: Path) -> IO[bytes]:
    """Open a file that may be compressed by gzip, of which no more than `require_sized` allows is expanded."""
    if not is_compressed(path):
        return open_bytes(path)
    return io.BufferedReader(_BoundedGzip(path), 2**16)


def open_text(path: Path, **options: Any) -> IO[str]:
    """Open a text file in UTF-8, which may be compressed."""
    return io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", **options)


def _declared_size(path: Path) -> int:
    """What the last four bytes of a gzip file say of its content, modulo 2³²; 0 if it is none."""
    with path.open("rb") as file:
        if file.read(2) != GZIP_MAGIC:
            return 0
        file.seek(-4, io.SEEK_END)
        return int.from_bytes(file.read(4), "little")


class _BoundedGzip(io.RawIOBase):
    """Expands a gzip file until it is implausibly large."""

    def __init__(self, path: Path) -> None:
        self.packed, self.size, self.expanded = open_bytes(path), path.stat().st_size, 0
        self.file = gzip.GzipFile(fileobj=self.packed)
        self.most = min(max(FREE_BYTES, EXPANSION * self.size), memory_left() / COPIES)
        claim = _declared_size(path)
        if claim > self.most:
            require_sized(claim, self.size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.file.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self.expanded += len(chunk)
        if self.expanded > self.most:
            require_sized(self.expanded, self.size)
        return len(chunk)

    def close(self) -> None:
        self.file.close()
        self.packed.close()
        super().close()


def _begins_with_file(message: str) -> bool:
    """Whether a message is about a file that it names, such as a table that does not fit the graph."""
    name = message[1:].partition("`")[0] if message.startswith("`") else ""
    return bool(name) and Path(name).exists()


def _explain(error: Exception) -> tuple[str, str]:
    """The reason in one line, and a hint where there is a better one than the reader's."""
    if is_out_of_memory(error):
        return "it needs more memory than is left", "use a machine with more memory, or a smaller file"
    if isinstance(error, RecursionError):
        return "it is nested too deeply", ""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8", "save it as UTF-8"
    if isinstance(error, pickle.UnpicklingError) or "allow_pickle" in str(error):
        return "it holds objects, or is broken", OBJECTS_HINT
    return " ".join(str(error).split())[:160] or type(error).__name__, ""


def require_folder(out: Path) -> None:
    """Raise `InputError` if a file is where a folder is to be."""
    if out.exists() and not out.is_dir():
        raise InputError(f"`{out}` is a file", "give --out a folder")
