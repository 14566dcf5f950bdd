"""What a report tells of a run, read from its folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from progcl.checksums import REWRITE, DamagedFile, read_file, read_json, read_json_lines
from progcl.config.load import load_config
from progcl.config.options import Options
from progcl.config.schema import Config
from progcl.data.images import is_images
from progcl.data.labels import node_class_names
from progcl.data.walk_factors import node_names
from progcl.evaluation.clusters import describe_run_clusters
from progcl.evaluation.health import list_warnings
from progcl.evaluation.links import LinkScore, load_link_scores
from progcl.evaluation.scores import Score, describe_run, load_scores
from progcl.export import load_clusters, load_run_embeddings
from progcl.report.mixture import MixturePlot
from progcl.training.output import describe_facts


@dataclass(frozen=True)
class Story:
    """The content of a report.

    Attributes:
        title: data set and method
        facts: settings, sizes and times in words, by their names
        warnings: what the reader should know before trusting the rest
        losses: one per epoch
        start_epoch: E, marked in the loss curve; None without mining
        mixture: plot data of the fitted mixture; None if there is none
        embeddings: [N, d]
        ids: the user's names of the nodes, [N]
        labels: class names of the nodes, [N]; None without labels
        scores: rows of the probe's table
        score: the run's own; None without a probe
        links: rows of the table of held-out links; empty without any
        clusters: of the nodes [N]; None without any
        cluster_note: how good they are
    """

    title: str
    facts: dict[str, str]
    warnings: list[str]
    losses: list[float]
    start_epoch: int | None
    mixture: MixturePlot | None
    embeddings: NDArray[np.float32]
    ids: list[str]
    labels: list[str] | None
    scores: dict[str, Score]
    score: Score | None = None
    links: dict[str, LinkScore] = field(default_factory=dict)
    clusters: NDArray[np.int64] | None = None
    cluster_note: str = ""


def load_story(
    run: Path, data: Data, config: Config | None = None, embeddings: NDArray[np.float32] | None = None
) -> Story:
    """Read the folder of a finished run on the graph `data`; configuration and embeddings, too, unless they are given.

    Raises:
        InputError: if the run is not finished, a file is damaged, or the run is one on another graph
    """
    return read_file(run, lambda: _load_story(run, data, config, embeddings), REWRITE)


def _load_story(run: Path, data: Data, config: Config | None, embeddings: NDArray[np.float32] | None) -> Story:
    names = node_names(data)
    vectors, ids = load_run_embeddings(run, names) if embeddings is None else (embeddings, names)
    config = config or load_config(run / "config.yaml")
    result, clusters = read_json(run / "result.json"), load_clusters(run, len(ids))
    plot, own, scores = run / "curves.json", result["score"], load_scores(run)
    score = Score.from_dict(own) if own else None
    mixture: dict[str, Any] = result["facts"].get("mixture", {})
    name = Path(config.data.graph).name if config.data.graph else config.data.name
    return Story(
        title=f"{name}: {describe_run(config, result['facts'])}",
        facts=_list_facts(config, data, result, vectors.shape[1]),
        warnings=[
            *list_warnings(vectors, result["facts"], scores),
            *data.get("remarks", []),
            *describe_facts(result["facts"]),
        ],
        losses=_read_losses(run, result["loss"]),
        start_epoch=None if mixture.get("degenerate", True) else getattr(config.miner, "start_epoch", None),
        mixture=MixturePlot.from_json(json.dumps(read_json(plot))) if plot.exists() else None,
        embeddings=vectors,
        ids=ids,
        labels=node_class_names(data),
        scores=scores,
        score=score,
        links=load_link_scores(run),
        clusters=clusters.of if clusters else None,
        cluster_note=describe_run_clusters(run, len(ids)),
    )


def _read_losses(run: Path, last: float | None) -> list[float]:
    """Losses of all epochs; raise `DamagedFile` if lines of the log are missing."""
    log = read_json_lines(run / "log.jsonl")
    losses = [0.0 + record["loss"] for record in log]
    is_complete = [record["epoch"] for record in log] == list(range(1, len(log) + 1))
    if not is_complete or (losses[-1] if losses else None) != last:
        raise DamagedFile(f"`{run / 'log.jsonl'}` is damaged: it does not hold every epoch", REWRITE)
    return losses


def _list_facts(config: Config, data: Data, result: dict[str, Any], width: int) -> dict[str, str]:
    nodes, edges, features = int(data.num_nodes), data.edge_index.size(1) // 2, data.x.size(1)
    encoder, batch = config.encoder, config.batch.size
    depth = f"up to {encoder.hops[-1]} hops" if config.reads_hop_table else f"{encoder.layers} layers"
    network = "residual network" if is_images(data) else f"{encoder.name}, {depth}"
    batches = f"batches of {batch:,} nodes" if batch else "the whole graph in each step"
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items() if name != "scikit-learn")
    return {
        "graph": f"{nodes:,} nodes, {edges:,} edges, {features:,} features",
        "method": _describe_options(config.method),
        "encoder": f"{network}, {encoder.hidden} dimensions",
        "embedding": _describe_output(config, result["facts"], width),
        "negatives": _describe_options(config.miner),
        "training": f"{batches}, τ = {config.loss.tau:g}, learning rate {config.train.lr:g}, seed {config.train.seed}",
        "time": f"{result['seconds']['train']:,.1f} s of training, {result['seconds']['probe']:,.1f} s of scoring",
        "versions": versions,
        "to reproduce": "progcl train config.yaml, with the file beside this page",
    }


def _describe_output(config: Config, facts: dict[str, Any], width: int) -> str:
    """The blocks of an embedding, and how many numbers they have."""
    reduced = f", reduced to {config.output.dim} by PCA" if config.output.dim else ""
    return f"{width:,} numbers per node: {', '.join(facts.get('blocks', ['learned']))}{reduced}"


def _describe_options(options: Options) -> str:
    """Name and options of a method or miner: `grace: drop edges 0.3 and 0.4, walk 0`."""
    values = {key: value for key, value in asdict(options).items() if key not in ("name", "others")}
    words = (
        f"{key.replace('_', ' ')} {' and '.join(map(str, value)) if isinstance(value, (tuple, list)) else value}"
        for key, value in values.items()
    )
    return f"{options.name}: {', '.join(words)}" if values else options.name
