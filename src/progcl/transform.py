"""Embed another graph, or one that has grown, by the model of a run: no training."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.data.join import NodeData
from progcl.data.walk_factors import node_names
from progcl.export import load_run_embeddings, write_parquet
from progcl.training.alignment import measure_shift
from progcl.training.files import Embeddings, save_embeddings, write_json
from progcl.training.lock import lock_folder
from progcl.training.model import Model
from progcl.training.model_file import read_alike, require_free_result


def transform(
    run: Path,
    graph: str,
    out: Path | None = None,
    features: str | None = None,
    ids: str | None = None,
    columns: Mapping[str, str] | None = None,
    force: bool = False,
    allow_code: bool = False,
    progress: bool = True,
    content: NodeData | None = None,
) -> Embeddings:
    """Embed the nodes of a graph by a run's model, so that both embeddings can be compared.

    Args:
        run: folder of a finished run of `progcl embed`
        graph: file with a graph, as `progcl embed` takes it; nodes are known by their names
        out: folder for embeddings.npz, embeddings.parquet (if pyarrow is installed) and result.json; None for none
        features: file with features, of the columns that the run's graph had
        ids: file with the names of the nodes, for arrays that have none
        columns: `source`, `target`, `weight` and `id_column`, where they are other than in the run
        force: overwrite what an earlier call has written to `out`
        allow_code: whether the run may name classes of your own, which are imported and run
        progress: print remarks on stderr
        content: what `read_alike` has read from these files already

    Raises:
        InputError: if the run has no model, or if the graph has other features
    """
    start = time.perf_counter()
    if out is not None:
        require_free_result(out, run, force)
    content = content or read_alike(run, graph, features, ids, columns, allow_code)
    model, before = Model.load(run, allow_code), load_run_embeddings(run)
    data = model.schema.prepare(content.to_data())
    vectors = model.embed(data)
    facts = compare_nodes(vectors, data, before)
    if progress:
        notes = [*data.remarks, describe_comparison(facts)]
        print("".join(f"note: {note}\n" for note in notes), file=sys.stderr, end="")
    result = Embeddings(vectors.numpy(), node_names(data))
    if out is not None:
        source = {"run": str(run.absolute()), "graph": str(Path(graph).absolute())}
        _write(out, result, {"transform": {**source, **facts}, "seconds": time.perf_counter() - start})
    return result


def compare_nodes(vectors: Tensor, data: Data, before: Embeddings) -> dict[str, Any]:
    """How many nodes a run has embedded before, and how far these have moved."""
    rows = {name: row for row, name in enumerate(before.ids)}
    pairs = [(row, rows[name]) for row, name in enumerate(node_names(data)) if name in rows]
    facts: dict[str, Any] = {"nodes": len(vectors), "known": len(pairs)}
    if len(pairs) < 2:
        return facts
    new, old = torch.tensor(pairs).unbind(dim=1)
    return facts | measure_shift(vectors[new], torch.from_numpy(before.vectors)[old])


def describe_comparison(facts: Mapping[str, Any]) -> str:
    """A sentence on nodes with names that are known, and new ones."""
    new = facts["nodes"] - facts["known"]
    if "cosine" not in facts:
        return f"{new:,} of {facts['nodes']:,} nodes are new"
    kept = f"mean cosine {facts['cosine']:.3f}, {facts['neighbors']:.0%} of the 10 nearest neighbors the same"
    return f"{new:,} of {facts['nodes']:,} nodes are new; the others compare with their vectors in the run: {kept}"


def _write(out: Path, result: Embeddings, facts: Mapping[str, Any]) -> None:
    """Write a folder that `neighbors` and `export` read."""
    with lock_folder(out):
        (out / "result.json").unlink(missing_ok=True)  # written last, it marks a complete result
        save_embeddings(out / "embeddings.npz", result.vectors, result.ids)
        if find_spec("pyarrow"):
            write_parquet(out / "embeddings.parquet", result.vectors, result.ids)
        write_json(out / "result.json", facts)
