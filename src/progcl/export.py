"""Embeddings of a finished run: nearest neighbors of a node, and export to the file formats of other tools."""

from __future__ import annotations

import csv
import difflib
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import normalize

from progcl.checksums import REWRITE, read_json, require_finished
from progcl.clusters import Clusters
from progcl.errors import InputError, in_range
from progcl.registry import pick
from progcl.training.files import Embeddings, load_embeddings, save_embeddings, write_atomically, write_json

Vectors = NDArray[np.float32]

CHUNK_ROWS = 2**11  # rows that are in float64 at once
ROW_GROUP = 2**23  # numbers that are held to be written to Parquet at once


@dataclass(frozen=True)
class Format:
    """A file format for embeddings.

    Attributes:
        suffix: of the name of its file or folder
        write: function of the path, the embeddings [N, d], the names of the nodes, and their clusters [N], if any
        has_columns: whether it has a place for clusters
    """

    suffix: str
    write: Callable[[Path, Vectors, list[str], Clusters | None], None]
    has_columns: bool = True


def load_run_embeddings(run: Path, nodes: Sequence[str] | None = None) -> Embeddings:
    """Load embeddings and node names of a finished run.

    Args:
        run: its folder
        nodes: names of the nodes of the graph that it is used with

    Raises:
        InputError: if it is not finished, if its result is damaged, or if it has other nodes
    """
    require_finished(run)
    read_json(run / "result.json")
    embeddings = load_embeddings(run / "embeddings.npz")
    if nodes is not None:
        require_same_nodes(embeddings.ids, nodes)
    return embeddings


def require_same_nodes(ids: Sequence[str], nodes: Sequence[str]) -> None:
    """Raise `InputError` unless a graph has the nodes that were embedded, in the same order."""
    hint = "embed it again: `progcl embed` with --force"
    if len(ids) != len(nodes):
        raise InputError(f"there are embeddings of {len(ids)} nodes, the graph has {len(nodes)}", hint)
    if list(ids) != list(nodes):
        raise InputError("the graph has other nodes than when it was embedded, or another order of them", hint)


def require_run(run: Path, *others: str) -> None:
    """Raise `InputError` for the result of `progcl transform`, which has embeddings and no run.

    Args:
        run: a folder with embeddings
        others: what works with it beside `neighbors` and `export`
    """
    if not (run / "config.yaml").exists():
        hint = (
            f"{', '.join(['neighbors', 'export', *others])} need the embeddings alone; or name the run it was made by"
        )
        raise InputError(f"`{run}` holds the result of `progcl transform`, and no run", hint)


def nearest(embeddings: Vectors, node: int, number: int = 10) -> list[tuple[int, float]]:
    """The most similar other nodes by cosine similarity, as pairs of node and cosine, the most similar first.

    Args:
        embeddings: [N, d]
        node: index of the node
        number: how many to return, at most N - 1

    Raises:
        InputError: if there is no such node
    """
    nodes = len(embeddings)
    if not 0 <= node < nodes:
        raise InputError(f"there is no node {node}", f"nodes are numbered from 0 to {nodes - 1}")
    in_range("number", number, 1)
    query = embeddings[node : node + 1].astype(np.float64)
    chunks = (embeddings[start : start + CHUNK_ROWS] for start in range(0, nodes, CHUNK_ROWS))
    cosines = np.concatenate([cosine_similarity(chunk.astype(np.float64), query)[:, 0] for chunk in chunks])
    cosines[node] = -np.inf
    order = np.argsort(-cosines, kind="stable")[: min(number, nodes - 1)]
    return [(int(other), float(cosines[other])) for other in order]


def find_node(name: str, ids: list[str]) -> int:
    """Index of a node by its name; raise `InputError` with a similar name if there is none."""
    if name not in ids:
        close = difflib.get_close_matches(name, ids[:20_000], n=1)
        hint = f"did you mean `{close[0]}`?" if close else f"from `{ids[0]}` to `{ids[-1]}`"
        raise InputError(f"there is no node `{name}`", hint)
    return ids.index(name)


def export(
    run: Path, kind: str, out: Path | None = None, force: bool = False, clusters: Clusters | None = None
) -> Path:
    """Write the embeddings of a run in another format, beside the folder of the run unless `out` is given.

    Clusters are a further column: those given, else those that the run has, where the format has a place for them.

    Raises:
        InputError: if the format is unknown or has no place for clusters, or if the path exists and is not to be
            overwritten
    """
    chosen = pick(FORMATS, kind, "format")
    vectors, ids = load_run_embeddings(run)
    if clusters is not None and not chosen.has_columns:
        having = ", ".join(name for name, each in FORMATS.items() if each.has_columns)
        raise InputError(f"format `{kind}` has no place for clusters", f"choose another --format: {having}")
    clusters = clusters or load_clusters(run, len(ids))
    path = out or run.with_name(f"{run.name}{chosen.suffix}")
    if path.resolve() == run.resolve():
        raise InputError(f"`{path}` is the run itself", "choose another --out")
    if path.exists():
        if not force:
            raise InputError(f"`{path}` is there already", "overwrite it with --force, or choose another --out")
        _remove_old_export(path, chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen.write(path, vectors, ids, clusters)
    return path


def save_clusters(run: Path, clusters: Clusters, agreement: dict[str, float]) -> None:
    """Write the clusters of a run to `clusters.json` in its folder, with their agreement with labels, if any."""
    tried = {str(number): value for number, value in clusters.tried.items()}
    facts = {"silhouette": clusters.silhouette, "tried": tried, **agreement}
    write_json(run / "clusters.json", {**facts, "of": clusters.of.tolist()}, indent=None)


def load_clusters(run: Path, nodes: int) -> Clusters | None:
    """Read the clusters of a run; None if it has none. Raise `InputError` if they are not of so many nodes."""
    path = run / "clusters.json"
    if not path.exists():
        return None
    stored = read_json(path)
    if len(stored["of"]) != nodes:
        raise InputError(f"`{path}` has clusters of {len(stored['of'])} nodes, the run has {nodes}", REWRITE)
    tried = {int(number): value for number, value in stored["tried"].items()}
    return Clusters(np.array(stored["of"], np.int64), stored["silhouette"], tried)


def _remove_old_export(path: Path, chosen: Format) -> None:
    """Remove a folder that an earlier export wrote; refuse one that holds anything else."""
    if path.is_dir():
        foreign = {file.name for file in path.iterdir()} - FOLDER_FILES.get(chosen.write, set())
        if chosen.write not in FOLDER_FILES or foreign:
            raise InputError(f"`{path}` is a folder that holds other files", "choose another --out")
        shutil.rmtree(path)


def write_parquet(path: Path, vectors: Vectors, ids: list[str], clusters: Clusters | None = None) -> None:
    """Write a row for each node: its name, its embedding as a list, and its cluster, if there are any."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("parquet needs pyarrow", 'pip install "progcl[parquet]"') from None
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    table = pyarrow.table({"node": ids, "embedding": lists} | ({"cluster": clusters.of} if clusters else {}))
    options = {"row_group_size": max(1, ROW_GROUP // max(1, vectors.shape[1])), "write_page_checksum": True}
    write_atomically(path, lambda temporary: pyarrow.parquet.write_table(table, temporary, **options))
    pyarrow.default_memory_pool().release_unused()


def _write_npz(path: Path, vectors: Vectors, ids: list[str], clusters: Clusters | None = None) -> None:
    save_embeddings(path, vectors, ids, clusters.of if clusters else None)


def _write_csv(path: Path, vectors: Vectors, ids: list[str], clusters: Clusters | None = None) -> None:
    """Write a row for each node: `node`, then `cluster`, if there are any, then `e0`, `e1`, ..."""

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            numbered = (f"e{place}" for place in range(vectors.shape[1]))
            table.writerow(["node", *(["cluster"] if clusters else []), *numbered])
            for row, (name, vector) in enumerate(zip(ids, vectors, strict=True)):
                table.writerow([name, *([clusters.of[row]] if clusters else []), *_format_row(vector)])

    write_atomically(path, write)


def _write_faiss(path: Path, vectors: Vectors, ids: list[str], _: Clusters | None = None) -> None:
    """Write a folder with an index of unit rows, whose inner products are cosines, and the names of its rows."""
    from progcl.neighbors import import_faiss  # which imports torch

    faiss = import_faiss()
    index = faiss.IndexFlatIP(vectors.shape[1])
    for start in range(0, len(vectors), CHUNK_ROWS):
        index.add(normalize(vectors[start : start + CHUNK_ROWS]))
    with _new_folder(path) as temporary:
        faiss.write_index(index, str(temporary / "index.faiss"))
        (temporary / "nodes.json").write_text(json.dumps(ids, ensure_ascii=False), "utf-8")


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that becomes `path` once it is filled."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    temporary.mkdir()
    try:
        yield temporary
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_word2vec(path: Path, vectors: Vectors, ids: list[str], _: Clusters | None = None) -> None:
    """Write word2vec's text format (gensim's `KeyedVectors.load_word2vec_format`), which allows no spaces in names."""
    names = ["_".join(name.split()) for name in ids]
    if repeated := len(names) - len(set(names)):
        raise InputError(
            f"with `_` for spaces, {repeated} names belong to another node, too", "choose another --format"
        )

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            print(*vectors.shape, file=file)
            for name, row in zip(names, vectors, strict=True):
                file.write(" ".join([name, *_format_row(row)]) + "\n")

    write_atomically(path, write)


def _write_projector(path: Path, vectors: Vectors, ids: list[str], clusters: Clusters | None = None) -> None:
    """Write a log folder for TensorBoard's projector; projector.tensorflow.org takes its two tables, too."""
    names = [" ".join(name.split()) for name in ids]
    if clusters:  # several columns need a header, a single one must have none
        names = ["node\tcluster", *(f"{name}\t{of}" for name, of in zip(names, clusters.of, strict=True))]
    settings = {"tensor_name": "embeddings", "tensor_path": "vectors.tsv", "metadata_path": "metadata.tsv"}
    lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in settings.items())
    with _new_folder(path) as temporary:
        with (temporary / "vectors.tsv").open("w") as file:
            for row in vectors:
                file.write("\t".join(_format_row(row)) + "\n")
        (temporary / "metadata.tsv").write_text("".join(f"{name}\n" for name in names), "utf-8")
        (temporary / "projector_config.pbtxt").write_text(f"embeddings {{\n{lines}}}\n")


def _format_row(row: Vectors) -> list[str]:
    return [f"{value:.7g}" for value in row]


FORMATS = {
    "npz": Format(".npz", _write_npz),
    "csv": Format("-embeddings.csv", _write_csv),  # NAME.csv may well be the graph
    "parquet": Format(".parquet", write_parquet),
    "word2vec": Format(".vec", _write_word2vec, has_columns=False),
    "tensorboard": Format("-projector", _write_projector),
    "faiss": Format("-faiss", _write_faiss, has_columns=False),
}
FOLDER_FILES: dict[Callable[..., None], set[str]] = {
    _write_projector: {"vectors.tsv", "metadata.tsv", "projector_config.pbtxt"},
    _write_faiss: {"index.faiss", "nodes.json"},
}
