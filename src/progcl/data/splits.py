"""Splits of the nodes for training, validation and test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import mask_to_index

from progcl.errors import InputError
from progcl.registry import pick

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Disjoint node indices."""

    train: Indices
    validation: Indices
    test: Indices


def make_splits(data: Data, number: int = 20, seed: int = 0, nodes: str = "all") -> list[Split]:
    """Random splits of 10 % of the `nodes` for training, 10 % for validation, 80 % for test.

    Nodes without a label are left aside. Data with several public splits uses those. With `heldout` nodes, the one
    split of `heldout_split`.

    Raises:
        InputError: if there are fewer than 10 nodes, or if public splits do not cover these nodes
    """
    masks = data.get("train_mask")
    if nodes == "heldout":
        return [_keep_labeled(Split(*(indices.numpy() for indices in heldout_split(data))), data)]
    if masks is not None and masks.dim() == 2:
        if nodes != "all":
            raise InputError(f"public splits cover all nodes, not `{nodes}`", "set `nodes` to all")
        return [_keep_labeled(_public_split(data, index), data) for index in range(min(number, masks.size(1)))]
    selected = _labeled(select_nodes(int(data.num_nodes), nodes), data)
    if len(selected) < 10:
        message = f"a probe needs at least 10 nodes with labels (got {len(selected)})"
        raise InputError(message, "set --probe.protocol none")
    tenth = len(selected) // 10
    orders = [selected[np.random.default_rng([seed, index]).permutation(len(selected))] for index in range(number)]
    return [Split(order[:tenth], order[tenth : 2 * tenth], order[2 * tenth :]) for order in orders]


def heldout_split(data: Data) -> tuple[Tensor, Tensor, Tensor]:
    """Training, validation and test nodes for inductive training.

    The data's own masks, else 60/20/20 % of the nodes, which depend on the number of nodes alone.

    Raises:
        InputError: if the data has several splits, or only some of the three masks
    """
    masks = [data.get(f"{name}_mask") for name in ("train", "val", "test")]
    if all(mask is not None and mask.dim() == 1 for mask in masks):
        train, validation, test = (mask_to_index(mask) for mask in masks)
        return train, validation, test
    if masks[0] is not None:
        message = "the data has several splits of its own, or not all of train_mask, val_mask and test_mask"
        raise InputError(message, "give each of them one column, or none of them")
    nodes = int(data.num_nodes)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(nodes))
    shares = order.tensor_split((nodes * 3 // 5, nodes * 4 // 5))
    train, validation, test = (share.sort().values for share in shares)
    return train, validation, test


def select_nodes(number: int, which: str) -> Indices:
    """Indices of `all` nodes; of `tuning`, a fixed fifth to choose settings on; or of the `rest`, to report on."""
    order = np.random.default_rng(number).permutation(number)
    selections = {"all": np.arange(number), "tuning": order[: number // 5], "rest": order[number // 5 :]}
    return pick(selections, which, "selection of nodes")


def _labeled(nodes: Indices, data: Data) -> Indices:
    """Those of some nodes that have a label; all of them if the data has no labels at all."""
    return nodes if data.get("y") is None else nodes[data.y.cpu().numpy()[nodes] >= 0]


def _keep_labeled(split: Split, data: Data) -> Split:
    return Split(*(_labeled(nodes, data) for nodes in (split.train, split.validation, split.test)))


def _public_split(data: Data, index: int) -> Split:
    """One of the splits that come with the data, in the columns of its masks."""
    columns = [mask if mask.dim() == 1 else mask[:, index] for mask in (data.train_mask, data.val_mask, data.test_mask)]
    return Split(*(mask_to_index(column).numpy() for column in columns))
