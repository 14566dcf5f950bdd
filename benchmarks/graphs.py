"""Graphs of the benchmarks: real ones, the same without features or with worse ones, and drawn ones."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from progcl.data.datasets import load_dataset, roots
from progcl.data.prepare import prepare
from progcl.data.splits import Split, select_nodes
from progcl.data.synthetic import csbm

TUNING = ("cora", "photo", "computers", "digits")  # settings are chosen on a fifth of their nodes
TRAIN_SHARE, VALIDATION_SHARE, SPLITS = 0.4, 0.1, 20  # shares of that fifth


def load_graph(name: str) -> Data:
    """A graph by name or file.

    Names are `photo`, `photo without features`, `photo 16 features`, `photo noise 3`, `csbm 0.7` (homophily) and
    `small 300 2` (nodes, seed).
    """
    if "/" in name:
        return load_dataset("file", graph=name, normalize=False)
    base, *change = name.split(" ")
    if base == "csbm":
        return prepare(csbm(homophily=float(change[0])))
    if base == "small":
        nodes, seed = map(int, change)
        return prepare(csbm(nodes, classes=3, degree=8, homophily=0.6, features=12, signal=3.0, seed=seed))
    data = _read(base)
    generator = torch.Generator().manual_seed(0)
    if change == ["without", "features"]:
        return prepare(Data(edge_index=data.edge_index, y=data.y, num_nodes=data.num_nodes))
    if change[1:] == ["features"]:
        data.x = data.x[:, torch.randperm(data.x.size(1), generator=generator)[: int(change[0])]]
    if change[:1] == ["noise"]:
        noise = torch.nn.functional.normalize(torch.randn(data.x.shape, generator=generator), dim=1)
        data.x = torch.nn.functional.normalize(data.x, dim=1) + float(change[1]) * noise
    return data


def _read(name: str) -> Data:
    if name != "cora":
        return load_dataset(name, normalize=False)
    cora = next(place / "cora" / "cora.npz" for place in roots() if (place / "cora" / "cora.npz").exists())
    return load_dataset("file", graph=str(cora), normalize=False)  # PyG's reader needs the original raw files


def make_tuning_splits(data: Data) -> list[Split]:
    """Random splits of the nodes that settings are chosen on: classifiers are trained on as many as in the tables."""
    nodes = select_nodes(int(data.num_nodes), "tuning")
    ends = int(TRAIN_SHARE * len(nodes)), int((TRAIN_SHARE + VALIDATION_SHARE) * len(nodes))
    orders = [np.random.default_rng([0, index]).permutation(nodes) for index in range(SPLITS)]
    return [Split(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :]) for order in orders]
