"""About how long `progcl embed` takes, and how much memory and disk it needs: by the size of a graph, in a second.

Constants are seconds of one core of the machine that docs/graph.md names; `benchmarks/estimates.py` compares estimates
with real runs. A product of matrices that is timed first tells how fast this machine is while it is as busy as now.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch_geometric.data import Data

from progcl.budget import MAX_PACE, MIN_PACE, format_seconds
from progcl.config.schema import Config
from progcl.data.labels import count_classes
from progcl.data.rows import take_rows
from progcl.data.structure import WalkPlan, count_pairs
from progcl.graph.hop_features import MAX_GRAM_COLUMNS, choose_rank
from progcl.methods import method_type
from progcl.report.maps import MAX_NODES
from progcl.training.choice import MAX_PAIRS
from progcl.training.memory import GraphSize, estimate_memory

REFERENCE, PRODUCTS = 0.010, 20  # seconds of a timed product, and how many are timed
FLOP, DOUBLE_FLOP = 4e-12, 1.6e-11  # of a multiplication or an addition in dense products
SPARSE_FLOP, READ = 3e-10, 1e-8  # of the same in sparse ones, and of a number that is read for them
CACHED_ROWS, MAX_MISSES = 18_000, 5  # of walk vectors, and how much slower products are without a cache
EDGE = 1e-9  # of a number that is propagated along an edge
PAIR, DISTINCT_PAIR = 3e-8, 1e-9  # of a pair of nodes on walks, and of a distinct pair for each column
STEP = 0.01  # of a training step beside its products
JUDGE = 1e-4  # of a held-out link
SPLIT, SOLVER_STEPS = 0.1, 100  # of a split of the probe, and its steps for all C together
NEIGHBOR = 4e-11  # of a number in the search for neighbors on the map
EXAMPLE = 2e-8  # of a number in the table of neighbors
TSNE, POINT, QUICK_POINT = 5.0, 5e-4, 2e-4  # of t-SNE, and of a node on a map with and without it
WRITTEN = 1.5e-8  # of a number in a file
START = 4.0  # until a run begins
SMALL_MAP, LARGE_MAP = 2_000, MAX_NODES
REPORT_BYTES = 3e6


@dataclass(frozen=True)
class Estimate:
    """What a run needs.

    Attributes:
        seconds: by stage: start, prepare, train, output, walks, score, write, report
        split: seconds of one split of the probe
        nodes, width: rows and columns of the embedding
        pace: of this machine, in units of the one that constants are from
        memory: bytes at the peak
        disk: bytes of the run folder
    """

    seconds: dict[str, float]
    split: float
    nodes: int
    width: int
    pace: float
    memory: float
    disk: float

    @property
    def total(self) -> float:
        """Seconds of everything."""
        return sum(self.seconds.values())

    def __str__(self) -> str:
        duration = f"{format_seconds(self.total)} ({format_seconds(self.seconds['train'])} of training)"
        return f"about {duration}, {self.memory / 1e9:.1f} GB of memory, {self.disk / 1e6:,.0f} MB of disk"


def estimate(config: Config, data: Data, pace: float | None = None) -> Estimate:
    """What embedding a graph needs.

    Args:
        config: of the run
        data: the prepared graph
        pace: of this machine; measured if not given
    """
    graph, pace = GraphSize.of(data), measure_pace() if pace is None else pace
    sizes = Sizes.of(config, data, graph)
    split = _split_seconds(sizes)
    trained = is_trained(config, data)
    training = _train_seconds(config, sizes) if trained else 0.0
    rows = 0 if config.probe.protocol == "none" or not sizes.classes else 2 + trained
    score = rows * split * config.probe.splits
    if config.probe.limit is not None:
        score = min(score, max(30.0, config.probe.limit * training))
    seconds = {
        "start": START,
        "prepare": _svd_seconds(sizes, config.encoder.rank) if config.reads_hop_table else 0.0,
        "train": training,
        "output": _output_seconds(config, sizes),
        "walks": _walk_seconds(sizes),
        "score": score,
        "write": 2 * WRITTEN * sizes.nodes * sizes.width,
        "report": map_seconds(min(sizes.nodes, LARGE_MAP), sizes.nodes, sizes.width),
    }
    disk = _disk(config, sizes, sizes.features if data.get("structural") else sizes.walks)
    paced = {stage: pace * each for stage, each in seconds.items()}
    memory = max(estimate_memory(config, graph).values())
    return Estimate(paced, pace * split, sizes.nodes, sizes.width, pace, memory, disk)


@dataclass(frozen=True)
class Sizes:
    """What time and memory depend on.

    Attributes:
        edges: both directions
        nonzero: numbers in the features that are not 0
        rank: of the features of several hops
        hops: columns of these before they are reduced
        width: columns of the embedding
        walks: columns of the walk vectors; 0 without
        pairs: of nodes on walks
        distinct: pairs of nodes, in both orders
        classes: 0 without labels
    """

    nodes: int
    edges: int
    features: int
    nonzero: float
    rank: int
    hops: int
    width: int
    walks: int
    pairs: float
    distinct: float
    classes: int

    @classmethod
    def of(cls, config: Config, data: Data, graph: GraphSize) -> Sizes:
        """Sizes of a graph and of its embedding."""
        nodes, features = int(data.num_nodes), data.x.size(1)
        sample = take_rows(data.x, torch.arange(min(nodes, 1000)))
        nonzero = nodes * float(sample.count_nonzero()) / len(sample)
        rank = min(features, config.hops.rank or choose_rank(nodes, len(config.hops.powers)))
        powers = (len(config.hops.powers) + len(config.hops.beside)) // 2  # either, as it is chosen after training
        hops = rank * powers if config.output.features else 0
        learned = config.encoder.hidden * max(1, len(config.output.smooth)) * (not data.get("structural"))
        walks = 0 if data.get("structural") else config.output.structure
        width = config.output.dim or learned + min(hops, config.hops.dim or hops) + walks
        pairs = nodes * count_pairs(WalkPlan.for_size(nodes)) if walks else 0
        distinct = graph.pairs or 0.0 if walks else 0.0
        edges = data.edge_index.size(1)
        classes = count_classes(data)
        return cls(nodes, edges, features, nonzero, rank, hops, width, walks, pairs, distinct, classes)


def measure_pace() -> float:
    """How much longer a product of matrices takes here and now than on the machine of the constants."""
    matrix = np.ones((1024, 1024), np.float32)
    with threadpool_limits(1, user_api="blas"):
        times = [_time_product(matrix) for _ in range(PRODUCTS)]
    return min(MAX_PACE, max(MIN_PACE, float(np.mean(times)) / REFERENCE))


def _time_product(matrix: Any) -> float:
    start = time.perf_counter()
    matrix @ matrix
    return time.perf_counter() - start


def map_seconds(shown: int, nodes: int, width: int, quick: bool = False) -> float:
    """Seconds of the report of so many nodes, of which a part is shown on the map; `quick` is without t-SNE."""
    layout = QUICK_POINT * shown if quick else min(TSNE, 4 * POINT * shown) + POINT * shown
    return NEIGHBOR * shown**2 * width + layout + EXAMPLE * nodes * width


def _svd_seconds(sizes: Sizes, rank: int) -> float:
    if sizes.features <= rank:
        return 0.0
    if sizes.features <= MAX_GRAM_COLUMNS:
        return DOUBLE_FLOP * (2 * sizes.nodes + 8 * sizes.features) * sizes.features**2
    sparse = READ * sizes.nodes * sizes.features + SPARSE_FLOP * 20 * sizes.nonzero * rank
    return sparse + 20 * DOUBLE_FLOP * sizes.features * rank**2


def is_trained(config: Config, data: Data) -> bool:
    """Whether a run takes any steps; held-out edges may be too few for it all the same."""
    blocks = config.output.blocks
    if blocks in ("untrained", "own") or (blocks == "auto" and data.get("structural")):
        return False
    return method_type(config.method.name).trained


def _train_seconds(config: Config, sizes: Sizes) -> float:
    """Of all steps: encoder and projector on the rows of a batch, forward and backward, and their similarities."""
    encoder, batch = config.encoder, config.batch
    rows = min(sizes.nodes, 2 * batch.size if batch.size else config.train.anchors or sizes.nodes)
    width = min(sizes.features, encoder.rank) if config.reads_hop_table else sizes.features
    weights = width * encoder.hidden + (encoder.layers - 1) * encoder.hidden**2
    weights += 2 * encoder.hidden * encoder.projection
    flops = 6 * rows * weights + 12 * rows**2 * encoder.hidden
    return config.train.epochs * (batch.steps or 1) * (STEP + FLOP * flops)


def _output_seconds(config: Config, sizes: Sizes) -> float:
    powers = max(config.hops.powers)
    propagate = EDGE * sizes.edges * (powers * sizes.rank + max((0, *config.output.smooth)) * config.encoder.hidden)
    reduce = 0.0
    if config.hops.dim is not None and sizes.hops > config.hops.dim:
        reduce = DOUBLE_FLOP * (4 * sizes.nodes + 8 * sizes.hops) * sizes.hops**2
    links = min(MAX_PAIRS, getattr(config.method, "holdout", 0) * sizes.edges / 2)
    judge = JUDGE * links + propagate if config.output.blocks == "auto" and sizes.walks else 0.0
    return judge + _svd_seconds(sizes, sizes.rank) + 2 * propagate + reduce


def _walk_seconds(sizes: Sizes) -> float:
    """Of walks, and of a sparse SVD; the more rows, the more of its reads miss the cache."""
    misses = min(1 + sizes.nodes / CACHED_ROWS, MAX_MISSES)
    return PAIR * sizes.pairs + DISTINCT_PAIR * misses * sizes.distinct * sizes.walks


def _split_seconds(sizes: Sizes) -> float:
    """Of the probe: a tenth of the nodes is trained on, all are tested."""
    return SPLIT + DOUBLE_FLOP * sizes.nodes * sizes.width * (0.4 * SOLVER_STEPS * sizes.classes + 2 * sizes.width / 5)


def _disk(config: Config, sizes: Sizes, walks: int) -> float:
    """Two files of embeddings, two checkpoints of weights and Adam's moments, the model and the report.

    The model has the weights, two projections of the features, and factors with so many columns of walk vectors.
    """
    encoder = config.encoder
    inputs = min(sizes.features, encoder.rank) if config.reads_hop_table else sizes.features
    weights = encoder.hidden * (inputs + (encoder.layers - 1) * encoder.hidden + 2 * encoder.projection)
    snapshot = 4 * sizes.nodes * encoder.hidden if hasattr(config.miner, "start_epoch") else 0  # of a miner
    model = 4 * weights + 4 * sizes.features * (inputs + sizes.rank) + 6 * sizes.nodes * walks
    return 8 * sizes.nodes * sizes.width + 24 * weights + 4 * snapshot + model + REPORT_BYTES
