"""What there is to tell of a run, out of its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from progcl.config.load import load_config
from progcl.config.schema import Config
from progcl.data.labels import names_of_classes
from progcl.evaluation.scores import Score, label, load_scores
from progcl.export import embeddings_of
from progcl.report.mixture import MixturePlot
from progcl.report.page import Story


def story_of(run: Path, data: Data) -> Story:
    """The story of a finished run on a graph."""
    vectors, ids = embeddings_of(run)
    config = load_config(run / "config.yaml")
    result = json.loads((run / "result.json").read_text())
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    curves = run / "curves.json"
    mixture: dict[str, Any] = result["mixture"] or {}
    name = Path(config.data.graph).name if config.data.graph else config.data.name
    return Story(
        title=f"{name}: {label(config, result['mixture'])}",
        facts=_facts(config, data, result),
        warnings=[*data.get("remarks", []), *_unimodal(mixture)],
        losses=[record["loss"] for record in log],
        start_epoch=config.miner.start_epoch if mixture and not mixture.get("degenerate") else None,
        curves=MixturePlot.from_json(curves.read_text()) if curves.exists() else None,
        embeddings=vectors,
        ids=ids,
        labels=names_of_classes(data),
        scores=_scores(run, result),
    )


def _facts(config: Config, data: Data, result: dict[str, Any]) -> dict[str, str]:
    nodes, edges, columns = int(data.num_nodes), data.edge_index.size(1) // 2, data.x.size(1)
    shape, batch = config.encoder, config.batch.size
    inner = f", up to {shape.hops[-1]} hops" if shape.name == "hops" else f", {shape.layers} layers"
    away = f" from nodes {config.method.walk} steps away" if config.method.walk else ""
    how = f"batches of {batch:,}" if batch else "the whole graph in a step"
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items() if name != "scikit-learn")
    return {
        "graph": f"{nodes:,} nodes, {edges:,} edges, {columns:,} features",
        "method": f"{config.method.name.upper()}: two views{away}, feature drop {_pair(config.method.drop_features)}, "
        f"edge drop {_pair(config.method.drop_edges)}",
        "encoder": f"{shape.name}{inner}, {shape.hidden} wide" + (", features beside it" * shape.with_features),
        "negatives": f"{config.miner.name}, from epoch {config.miner.start_epoch}",
        "training": f"{how}, τ = {config.loss.tau:g}, step size {config.train.lr:g}, seed {config.train.seed}",
        "time": f"{result['seconds']['train']:,.1f} s of training, {result['seconds']['probe']:,.1f} s of scoring",
        "versions": versions,
        "to repeat it": "progcl train, with the config.yaml beside this page",
    }


def _pair(rates: tuple[float, float]) -> str:
    return f"{rates[0]:g}" if rates[0] == rates[1] else f"{rates[0]:g} and {rates[1]:g}"


def _unimodal(mixture: dict[str, Any]) -> list[str]:
    if not mixture.get("degenerate"):
        return []
    return ["the similarities have one mode: no mixture was fitted, and every negative counts as a true one"]


def _scores(run: Path, result: dict[str, Any]) -> dict[str, Score]:
    """The rows of the comparison, if there is one, or the run's own."""
    own = result["score"]
    return load_scores(run) or ({"this run": Score(own["protocol"], tuple(own["accuracies"]))} if own else {})
