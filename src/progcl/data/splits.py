"""Which nodes train, validate and test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from progcl.errors import InputError
from progcl.registry import pick


def held_out(data: Data) -> tuple[Tensor, Tensor, Tensor]:
    """Training, validation and test nodes: the data's own if it has one such split, else always the same 60/20/20 %."""
    masks = [data.get(f"{name}_mask") for name in ("train", "val", "test")]
    if all(mask is not None and mask.dim() == 1 for mask in masks):
        train, validation, test = (mask.nonzero().flatten() for mask in masks)
        return train, validation, test
    if masks[0] is not None:
        message = "the data has several splits of its own, or only a part of one"
        raise InputError(message, "give train_mask, val_mask and test_mask one column each, or none of them")
    nodes = int(data.num_nodes)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(nodes))
    train, validation, test = (part.sort().values for part in order.tensor_split((nodes * 3 // 5, nodes * 4 // 5)))
    return train, validation, test


Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Disjoint node indices."""

    train: Labels
    validation: Labels
    test: Labels


def make_splits(data: Data, number: int = 20, seed: int = 0, nodes: str = "all") -> list[Split]:
    """10 % of `nodes` to train, 10 % to validate, the rest to test; public splits where the data has several.

    With `heldout` nodes, the one split of `held_out`.
    """
    masks = data.get("train_mask")
    if nodes == "heldout":
        return [Split(*(part.numpy() for part in held_out(data)))]
    if masks is not None and masks.dim() == 2:
        if nodes != "all":
            raise InputError(f"public splits cover all nodes, not `{nodes}`", "set `nodes` to all")
        return [_public(data, index) for index in range(min(number, masks.size(1)))]
    taken = select_nodes(int(data.num_nodes), nodes)
    if len(taken) < 10:
        raise InputError(f"a probe needs at least 10 nodes (got {len(taken)})", "set --probe.protocol none")
    tenth = len(taken) // 10
    orders = [taken[np.random.default_rng([seed, index]).permutation(len(taken))] for index in range(number)]
    return [Split(order[:tenth], order[tenth : 2 * tenth], order[2 * tenth :]) for order in orders]


def select_nodes(number: int, which: str) -> Labels:
    """`all` nodes; `tuning`, a fifth that is always the same, to choose settings on; or the `rest`, to report on."""
    order = np.random.default_rng(number).permutation(number)
    parts = {"all": np.arange(number), "tuning": order[: number // 5], "rest": order[number // 5 :]}
    return pick(parts, which, "part of the nodes")


def _public(data: Data, index: int) -> Split:
    train, validation = (data[name][:, index].nonzero().flatten().numpy() for name in ("train_mask", "val_mask"))
    test = data.test_mask if data.test_mask.dim() == 1 else data.test_mask[:, index]
    return Split(train, validation, test.nonzero().flatten().numpy())
