"""Times an epoch: the loss against everything else, epoch E against the others, a GCN layer against PyG's."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_torch_csr_tensor

from progcl.bench.measure import align_columns, time_by_turns, write_result
from progcl.config.load import PRESETS, load_config
from progcl.data.datasets import load_data, load_dataset
from progcl.graph.sparse import propagate
from progcl.graph.views import Graph, View
from progcl.miners import PROPOSED
from progcl.progress import bar
from progcl.training.trainer import Trainer

START_EPOCH = 4  # E
EPOCHS_AFTER = 6  # epochs measured after E
PYG_SIDES = {"pyg": "edge_index", "pyg csr": "torch.sparse_csr", "pyg EdgeIndex": "EdgeIndex"}  # GCNConv's input


@dataclass(frozen=True)
class EpochBench:
    """What to measure.

    Args:
        data: the preset or data set whose epochs are timed, also with `-fast` if there is such a preset
        layer_data: the data set on which a GCN layer is timed
        width: output dimensions of that layer
        repeats: timed rounds of the layer; the median is reported
        data_root: folder of published data sets
    """

    data: str = "photo"
    layer_data: str = "cs"
    width: int = 256
    repeats: int = 5
    data_root: str | None = None

    def run(self, out: Path) -> str:
        """Measure, write epoch.json, and return the tables."""
        presets = [name for name in (self.data, f"{self.data}-fast") if name == self.data or name in PRESETS]
        steps = len(presets) * len(PROPOSED) * (START_EPOCH + EPOCHS_AFTER)
        steps += 2 * (1 + len(PYG_SIDES)) * (self.repeats + 1)
        with bar(True, total=steps, desc="bench epoch", unit="run") as progress:
            epochs = {
                f"{preset}, {miner}": self._epochs(preset, miner, progress) for preset in presets for miner in PROPOSED
            }
            layers = self._layers(progress)
        path = write_result(out, "epoch", vars(self), {"epochs": epochs, "layers": layers})
        return f"{_epoch_table(epochs)}\n\n{self._layer_table(layers)}\n\nwritten: {path}"

    def _layer_table(self, layers: Mapping[str, Mapping[str, float]]) -> str:
        pyg_columns = [f"GCNConv, {format_name}" for format_name in PYG_SIDES.values()]
        head = [f"GCN layer on {self.layer_data}", "progcl", *pyg_columns, "speed-up over fastest"]
        rows = [
            [name, *(f"{row[side]:.3f} s" for side in ("progcl", *PYG_SIDES)), f"{row['speed-up over fastest']:.1f}x"]
            for name, row in layers.items()
        ]
        return align_columns(head, rows)

    def _epochs(self, preset: str, miner: str, progress: Any) -> dict[str, float]:
        start = {} if miner == "none" else {"miner.start_epoch": START_EPOCH}
        config = load_config(preset, {"miner.name": miner, **start, "train.epochs": START_EPOCH + EPOCHS_AFTER})
        data = load_data(config.data, self.data_root)
        training = Trainer(config, data)
        timer = LossTimer(training.method.get_submodule("criterion"))
        records, losses = [], []
        progress.set_description(f"bench epoch, {preset} {miner}")
        for record in training.run(config.train.epochs):
            records.append(record.seconds)
            losses.append(timer.pop_seconds())
            progress.update()
        rest = [epoch - loss for epoch, loss in zip(records[START_EPOCH:], losses[START_EPOCH:], strict=True)]
        before, after = statistics.median(records[1 : START_EPOCH - 1]), statistics.median(records[START_EPOCH:])
        facts = training.method.facts().get("mixture")
        mined = miner == "none" or (facts is not None and not facts["degenerate"])
        times = {"before": before, "at": records[START_EPOCH - 1], "after": after, "rest": statistics.median(rest)}
        return {**times, "mined": mined}

    def _layers(self, progress: Any) -> dict[str, dict[str, float]]:
        """Forward and backward pass of the first layer, and of one between two layers of the same width."""
        data = load_dataset(self.layer_data, self.data_root)
        inner = Data(x=torch.rand(int(data.num_nodes), self.width), edge_index=data.edge_index)
        results = {}
        for layer_data in (data, inner):
            name = f"{layer_data.x.size(1)} to {self.width}"
            progress.set_description(f"bench epoch, layer {name}")
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
                sides = layer_sides(layer_data, self.width)
                assert_same_output(sides)
                seconds = time_by_turns(sides, self.repeats, progress)
            fastest = min(seconds[side] for side in PYG_SIDES)
            ratios = {"speed-up": seconds["pyg"], "speed-up over fastest": fastest}
            results[name] = {**seconds, **{ratio: side / seconds["progcl"] for ratio, side in ratios.items()}}
        return results


def _epoch_table(epochs: Mapping[str, Mapping[str, float]]) -> str:
    head = ["", "before E", "at E", "after E", "at E / after", "not the loss"]
    rows = [
        [
            name + ("" if row["mined"] else " (no mixture at this epoch)"),
            *(f"{row[key]:.2f} s" for key in ("before", "at", "after")),
            f"{row['at'] / row['after']:.1f}x",
            f"{row['rest'] / row['after']:.0%}",
        ]
        for name, row in epochs.items()
    ]
    return align_columns(head, rows)


class LossTimer:
    """Accumulates the time in a loss by forward hooks; the loss computes its gradient in the forward pass."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.started = self.seconds = 0.0
        module.register_forward_pre_hook(self._start)
        module.register_forward_hook(self._stop)

    def _start(self, *_: Any) -> None:
        self.started = time.perf_counter()

    def _stop(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self.started

    def pop_seconds(self) -> float:
        """Seconds since the last call."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def layer_sides(data: Data, width: int) -> dict[str, Callable[[], Tensor]]:
    """One GCN layer with the same weights, as progcl and PyG compute it: each returns its output after a backward pass.

    All sides start from the graph as they read it in training, and normalize the adjacency in every run, as a view
    needs it.
    """
    num_nodes = int(data.num_nodes)
    weight = torch.rand(data.x.size(1), width)
    shape = (num_nodes, num_nodes)
    inputs = {
        "pyg": data.edge_index,
        "pyg csr": to_torch_csr_tensor(data.edge_index.flip(0), size=shape),
        "pyg EdgeIndex": EdgeIndex(data.edge_index, sparse_size=shape).sort_by("col").values,
    }
    return {"progcl": _progcl_layer(data, weight)} | {
        side: _pyg_layer(data, weight, edges) for side, edges in inputs.items()
    }


def assert_same_output(sides: Mapping[str, Callable[[], Tensor]]) -> None:
    """Raise AssertionError unless every side computes what progcl does."""
    expected = sides["progcl"]()
    for name, run in sides.items():
        assert torch.allclose(run(), expected, rtol=1e-3, atol=1e-4), f"{name} computes another output than progcl"


def _progcl_layer(data: Data, weight: Tensor) -> Callable[[], Tensor]:
    graph = Graph(data)
    weight = weight.clone().requires_grad_()

    def run() -> Tensor:
        view = View(graph)
        out = propagate(view.transform(weight), view.symmetric)
        out.sum().backward()
        return out

    return run


def _pyg_layer(data: Data, weight: Tensor, edges: Tensor) -> Callable[[], Tensor]:
    layer = GCNConv(*weight.shape, bias=False)
    with torch.no_grad():
        layer.lin.weight.copy_(weight.T)

    def run() -> Tensor:
        out: Tensor = layer(data.x, edges)
        out.sum().backward()
        return out

    return run
