"""Files of scored pairs of nodes, as tables with their names: .csv, .tsv, .parquet, .npz."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from progcl.data.formats import read_pairs
from progcl.errors import InputError
from progcl.export import find_node
from progcl.registry import pick
from progcl.training.files import write_atomically

Block = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]  # rows of both ends, and scores, [n] each
Columns = tuple[str, str, str]


def write_pairs(path: Path, blocks: Iterable[Block], ids: list[str], columns: Columns, force: bool = False) -> None:
    """Write scored pairs block by block, in the format that the extension of the file says.

    Tables have the names of both nodes and their score. An .npz has the numbers of their rows, the score, and `ids`.

    Args:
        path: the file
        blocks: pairs, as they are found
        ids: names of all nodes
        columns: names of the columns
        force: overwrite what is there

    Raises:
        InputError: if the extension is unknown, or if the file is there
    """
    write = check_pairs_file(path, force)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: write(temporary, blocks, ids, columns))


def check_pairs_file(path: Path, force: bool = False) -> Callable[[Path, Iterable[Block], list[str], Columns], None]:
    """The function that writes such a file; raise `InputError` before anything is computed if it cannot be written."""
    write = pick(FORMATS, path.suffix, "file extension of pairs")
    if path.is_dir():
        raise InputError(f"`{path}` is a folder", "choose another --out")
    if path.exists() and not force:
        raise InputError(f"`{path}` is there already", "overwrite it with --force, or choose another --out")
    return write


def find_pairs(path: str, ids: list[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Pairs of nodes [2, n] that a file names, two names in a line, and remarks on how it was read.

    Raises:
        InputError: if the file cannot be read, or names a node that does not exist
    """
    graph, rows = read_pairs(path), {name: row for row, name in enumerate(ids)}
    numbers = np.array([rows.get(name, -1) for name in graph.names], np.int64)
    pairs, remarks = numbers[graph.edges], list(graph.remarks)
    if not pairs.size:
        raise InputError(f"`{path}` names no pairs", "a pair is two names in a line")
    if pairs.shape[1] > 1 and (pairs[:, 0] < 0).all() and (pairs[:, 1:] >= 0).any():
        words = " and ".join(f"`{graph.names[end]}`" for end in graph.edges[:, 0])
        remarks.append(f"the first line is read as a header, since {words} are no nodes")
        pairs, used = pairs[:, 1:], graph.edges[:, 1:]
    else:
        used = graph.edges
    unknown = [graph.names[name] for name in dict.fromkeys(used.T[(pairs < 0).T].tolist())]
    if unknown:
        try:
            find_node(unknown[0], ids)
        except InputError as error:
            more = f" (and {len(unknown) - 1:,} other names)" if len(unknown) > 1 else ""
            raise InputError(f"`{path}`: {error.args[0]}{more}", error.hint) from None
    return pairs, remarks


def _write_text(path: Path, blocks: Iterable[Block], ids: list[str], columns: Columns, delimiter: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        table.writerow(columns)
        for first, second, scores in blocks:
            for row in zip(first.tolist(), second.tolist(), scores.tolist(), strict=True):
                table.writerow((ids[row[0]], ids[row[1]], f"{row[2]:.6f}"))


def _write_csv(path: Path, blocks: Iterable[Block], ids: list[str], columns: Columns) -> None:
    _write_text(path, blocks, ids, columns, ",")


def _write_tsv(path: Path, blocks: Iterable[Block], ids: list[str], columns: Columns) -> None:
    _write_text(path, blocks, ids, columns, "\t")


def _write_parquet(path: Path, blocks: Iterable[Block], ids: list[str], columns: Columns) -> None:
    """Names are a dictionary in the file, so that each is stored once per block."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("parquet needs pyarrow", 'pip install "progcl[parquet]"') from None
    names = pyarrow.array(ids)
    schema = pyarrow.schema([*((name, pyarrow.string()) for name in columns[:2]), (columns[2], pyarrow.float32())])
    with pyarrow.parquet.ParquetWriter(path, schema, write_page_checksum=True) as file:
        for first, second, scores in blocks:
            ends = [names.take(pyarrow.array(rows)) for rows in (first, second)]
            file.write_table(pyarrow.table([*ends, pyarrow.array(scores.astype(np.float32))], schema=schema))


def _write_npz(path: Path, blocks: Iterable[Block], ids: list[str], columns: Columns) -> None:
    parts = zip(*blocks, strict=True)
    arrays: dict[str, Any] = {name: np.concatenate(part) for name, part in zip(columns, parts, strict=True)}
    with path.open("wb") as file:
        np.savez(file, **arrays, ids=np.array(ids, dtype=str))


FORMATS = {".csv": _write_csv, ".tsv": _write_tsv, ".parquet": _write_parquet, ".npz": _write_npz}
