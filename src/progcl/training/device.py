"""Where a run computes."""

from __future__ import annotations

import copy
import os

import torch
from torch_geometric.data import Data

from progcl.data.edges import EDGE_ATTRIBUTES
from progcl.errors import InputError


def choose_device(name: str = "auto") -> torch.device:
    """`auto` takes cuda, then mps, then cpu; each process of a host gets a cuda device of its own.

    Raises:
        InputError: torch finds no such device
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, there in present.items() if there)
    if not present[name]:
        there = ", ".join(kind for kind, usable in present.items() if usable)
        raise InputError(f"torch finds no `{name}` device", f"set --train.device to auto or one of: {there}")
    if name == "cuda":
        return torch.device(name, int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    return torch.device(name)


def move(data: Data, device: torch.device) -> Data:
    """A copy of a graph on a device; labels, masks and mapped features stay where they are."""
    names = ["row_scale"] if data.get("mapped") else ["x"]
    names += ["edge_index", *(name for name in EDGE_ATTRIBUTES if data.get(name) is not None)]
    return copy.copy(data).to(device, *names)
