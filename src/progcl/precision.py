"""The floating-point type of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def single_precision() -> Iterator[None]:
    """New tensors are float32 meanwhile, whatever `torch.set_default_dtype` says: runs have the same bits."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
