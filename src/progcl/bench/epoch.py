"""Where an epoch's time goes: the loss against everything else, epoch E against the others, a layer against PyG's."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from progcl.bench.measure import by_turns, table, write
from progcl.config.load import PRESETS, load_config
from progcl.data.datasets import load_data, load_dataset
from progcl.graph.sparse import propagate
from progcl.graph.views import Graph, View
from progcl.miners import PROPOSED
from progcl.progress import bar
from progcl.training.trainer import Trainer, mixture_facts

START = 4  # E
AFTER = 6  # epochs measured after it


@dataclass(frozen=True)
class EpochBench:
    """What to measure.

    Args:
        data: the preset or data set whose epochs are timed, also with `-fast` if there is such a preset
        layer_data: the data set on which one GCN layer is timed
        width: of that layer
        repeats: rounds for the layer; the median counts
        data_root: where published data is
    """

    data: str = "photo"
    layer_data: str = "cs"
    width: int = 256
    repeats: int = 5
    data_root: str | None = None

    def run(self, out: Path) -> str:
        """Measure, write epoch.json, and return the tables."""
        presets = [name for name in (self.data, f"{self.data}-fast") if name == self.data or name in PRESETS]
        steps = len(presets) * len(PROPOSED) * (START + AFTER) + 4 * (self.repeats + 1)
        with bar(True, total=steps, desc="bench epoch", unit="run") as progress:
            epochs = {
                f"{preset}, {miner}": self._epochs(preset, miner, progress) for preset in presets for miner in PROPOSED
            }
            layers = self._layers(progress)
        path = write(out, "epoch", vars(self), {"epochs": epochs, "layers": layers})
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
        layer_head = [f"GCN layer on {self.layer_data}", "progcl", "PyG GCNConv", "speed-up"]
        layer_rows = [
            [name, f"{row['progcl']:.3f} s", f"{row['pyg']:.3f} s", f"{row['speed-up']:.1f}x"]
            for name, row in layers.items()
        ]
        return f"{table(head, rows)}\n\n{table(layer_head, layer_rows)}\n\nwritten: {path}"

    def _epochs(self, preset: str, miner: str, progress: Any) -> dict[str, float]:
        config = load_config(preset, {"miner.name": miner, "miner.start_epoch": START, "train.epochs": START + AFTER})
        data = load_data(config.data, self.data_root)
        training = Trainer(config, data)
        watch = Watch(training.method.criterion)
        records, losses = [], []
        progress.set_description(f"bench epoch, {preset} {miner}")
        for record in training.run(config.train.epochs):
            records.append(record.seconds)
            losses.append(watch.take())
            progress.update()
        rest = [epoch - loss for epoch, loss in zip(records[START:], losses[START:], strict=True)]
        before, after = statistics.median(records[1 : START - 1]), statistics.median(records[START:])
        facts = mixture_facts(training.miner)
        mined = miner == "none" or (facts is not None and not facts["degenerate"])
        times = {"before": before, "at": records[START - 1], "after": after, "rest": statistics.median(rest)}
        return {**times, "mined": mined}

    def _layers(self, progress: Any) -> dict[str, dict[str, float]]:
        """Forward and backward of the first layer, and of one between two layers of the same width."""
        data = load_dataset(self.layer_data, self.data_root)
        inner = Data(x=torch.rand(int(data.num_nodes), self.width), edge_index=data.edge_index)
        results = {}
        for name, given in ((f"{data.x.size(1)} to {self.width}", data), (f"{self.width} to {self.width}", inner)):
            progress.set_description(f"bench epoch, layer {name}")
            seconds = by_turns(
                {"progcl": ours(given, self.width), "pyg": pygs(given, self.width)}, self.repeats, progress
            )
            results[name] = {**seconds, "speed-up": seconds["pyg"] / seconds["progcl"]}
        return results


class Watch:
    """Adds up the time in a loss, which takes its gradient in the forward pass."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.started = self.seconds = 0.0
        module.register_forward_pre_hook(self._start)
        module.register_forward_hook(self._stop)

    def _start(self, *_: Any) -> None:
        self.started = time.perf_counter()

    def _stop(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self.started

    def take(self) -> float:
        """The seconds since it was last asked."""
        taken, self.seconds = self.seconds, 0.0
        return taken


def ours(data: Data, width: int) -> Any:
    """Our layer on the graph as training prepares it; a view's adjacency is built in every run."""
    graph = Graph(data)
    weight = torch.rand(data.x.size(1), width).requires_grad_()

    def run() -> Tensor:
        view = View(graph)
        out = propagate(view.transform(weight), view.symmetric)
        out.sum().backward()
        return out

    return run


def pygs(data: Data, width: int) -> Any:
    """PyG's layer on `edge_index`."""
    layer = GCNConv(data.x.size(1), width, bias=False)

    def run() -> Tensor:
        out: Tensor = layer(data.x, data.edge_index)
        out.sum().backward()
        return out

    return run
