"""Embeddings of a finished run for other tools: nearest neighbors, and files in their formats."""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from progcl.errors import InputError, in_range
from progcl.registry import pick
from progcl.training.checkpoint import Embeddings, load_embeddings, replace, save_embeddings

Vectors = NDArray[np.float32]


CHUNK = 2**14  # rows that are looked at together


@dataclass(frozen=True)
class Format:
    """A way to write embeddings: the ending of its file or folder, and what writes it."""

    ending: str
    write: Callable[[Path, Vectors, list[str]], None]


def embeddings_of(run: Path) -> Embeddings:
    """The embeddings of a run, and the nodes' names."""
    if not (run / "result.json").exists():
        hint = "finish it with --resume" if (run / "config.yaml").exists() else "`progcl train` makes one"
        raise InputError(f"`{run}` holds no finished run", hint)
    return load_embeddings(run / "embeddings.npz")


def nearest(embeddings: Vectors, node: int, number: int = 10) -> list[tuple[int, float]]:
    """The most similar other nodes and their cosines, the most similar first."""
    nodes = len(embeddings)
    if not 0 <= node < nodes:
        raise InputError(f"there is no node {node}", f"nodes are numbered from 0 to {nodes - 1}")
    in_range("number", number, 1)
    own = embeddings[node].astype(np.float64)
    parts = []
    for start in range(0, nodes, CHUNK):
        rows = embeddings[start : start + CHUNK].astype(np.float64)
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(own)
        parts.append(np.divide(rows @ own, lengths, out=np.zeros(len(rows)), where=lengths > 0))
    cosines = np.concatenate(parts)
    cosines[node] = -np.inf
    order = np.argsort(-cosines, kind="stable")[: min(number, nodes - 1)]
    return [(int(other), float(cosines[other])) for other in order]


def place_of(node: str, ids: list[str]) -> int:
    """Which row a node has, by its name."""
    if node not in ids:
        close = difflib.get_close_matches(node, ids[:20_000], n=1)
        hint = f"did you mean `{close[0]}`?" if close else f"from `{ids[0]}` to `{ids[-1]}`"
        raise InputError(f"there is no node `{node}`", hint)
    return ids.index(node)


def export(run: Path, kind: str, out: Path | None = None, force: bool = False) -> Path:
    """Write the embeddings of a run in the format of another tool; beside the run, if not told where."""
    wanted = pick(FORMATS, kind, "format")
    vectors, ids = embeddings_of(run)
    path = out or run.with_name(f"{run.name}{wanted.ending}")
    if path.resolve() == run.resolve():
        raise InputError(f"`{path}` is the run itself", "choose another --out")
    if path.exists():
        if not force:
            raise InputError(f"`{path}` is there already", "overwrite it with --force, or choose another --out")
        _remove_own(path, wanted)
    path.parent.mkdir(parents=True, exist_ok=True)
    wanted.write(path, vectors, ids)
    return path


def _remove_own(path: Path, wanted: Format) -> None:
    """Make way for what is written anew; a folder with anything else in it stays."""
    if path.is_dir():
        foreign = {file.name for file in path.iterdir()} - PROJECTOR
        if wanted.write is not _projector or foreign:
            raise InputError(f"`{path}` is a folder that holds other things", "choose another --out")
        shutil.rmtree(path)


def write_parquet(path: Path, vectors: Vectors, ids: list[str]) -> None:
    """One row a node: its name, and its vector as a list."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("parquet needs pyarrow", 'pip install "progcl[parquet]"') from None
    flat = pyarrow.array(vectors.ravel())
    lists = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    table = pyarrow.table({"node": ids, "embedding": lists})
    replace(path, lambda part: pyarrow.parquet.write_table(table, part))


def _word2vec(path: Path, vectors: Vectors, ids: list[str]) -> None:
    """word2vec's text format, as gensim's `KeyedVectors.load_word2vec_format` reads it; it knows no spaces in names."""

    names = ["_".join(name.split()) for name in ids]
    if alike := len(names) - len(set(names)):
        raise InputError(f"with `_` for spaces, {alike} names are another node's as well", "choose another --format")

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8") as file:
            print(*vectors.shape, file=file)
            for name, row in zip(names, vectors, strict=True):
                file.write(" ".join([name, *_numbers(row)]) + "\n")

    replace(path, write)


def _projector(path: Path, vectors: Vectors, ids: list[str]) -> None:
    """A log folder for TensorBoard's projector; its two tables also suit projector.tensorflow.org."""
    part = path.with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    with (part / "vectors.tsv").open("w") as file:
        for row in vectors:
            file.write("\t".join(_numbers(row)) + "\n")
    (part / "metadata.tsv").write_text("".join(" ".join(name.split()) + "\n" for name in ids), "utf-8")
    facts = {"tensor_name": "embeddings", "tensor_path": "vectors.tsv", "metadata_path": "metadata.tsv"}
    lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in facts.items())
    (part / "projector_config.pbtxt").write_text(f"embeddings {{\n{lines}}}\n")
    part.replace(path)


def _numbers(row: Vectors) -> list[str]:
    return [f"{value:.7g}" for value in row]


PROJECTOR = {"vectors.tsv", "metadata.tsv", "projector_config.pbtxt"}


FORMATS = {
    "npz": Format(".npz", save_embeddings),
    "parquet": Format(".parquet", write_parquet),
    "word2vec": Format(".vec", _word2vec),
    "tensorboard": Format("-projector", _projector),
}
