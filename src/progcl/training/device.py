"""Where a run computes."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import deterministic
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


@contextmanager
def fixed_order(device: torch.device) -> Iterator[None]:
    """Add up in a fixed order on the CPU, so that a resumed run has the same bits with several threads, too.

    The gradient of rows that are read several times, h[index], is a sum that threads otherwise make in any order.
    torch's settings are restored afterwards.
    """
    if device.type != "cpu" or torch.are_deterministic_algorithms_enabled():
        yield
        return
    memory: Any = deterministic
    fill, memory.fill_uninitialized_memory = memory.fill_uninitialized_memory, False  # takes time, changes no result
    torch.use_deterministic_algorithms(True, warn_only=True)  # an operation that cannot is no error
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        memory.fill_uninitialized_memory = fill


def move(data: Data, device: torch.device) -> Data:
    """A copy of a graph on a device; labels, masks and mapped features stay where they are."""
    names = ["row_scale"] if data.get("mapped") else ["x"]
    names += ["edge_index", *(name for name in EDGE_ATTRIBUTES if data.get(name) is not None)]
    return copy.copy(data).to(device, *names)
