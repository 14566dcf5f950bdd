"""Snapshots of epoch E by node, and when a posterior is fitted to them: on the whole graph or in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from progcl.errors import InputError
from progcl.posteriors.base import Posterior

UNSEEN = -1
FitFunction = Callable[[Tensor, Tensor, bool], Tensor]


class Snapshot(nn.Module):
    """Unit vectors of both views by node, kept from epoch E on, and the fits made to them.

    A subclass decides in `update` which vectors to record and when to fit.

    Attributes:
        vectors: [2, N, d]
        fits: a row per fit: the two bounds of s, then `Posterior.to_tensor`, [F, 2 + k]. These are read as Python
            numbers, and stay on the CPU in double precision (which MPS lacks) wherever the module is moved
    """

    vectors: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fits = torch.empty(0, 2, dtype=torch.float64)
        self.register_buffer("vectors", torch.empty(0))

    @property
    def nodes(self) -> Tensor:
        """Nodes whose vectors are recorded."""
        return torch.arange(self.vectors.size(1) if self.vectors.numel() else 0, device=self.vectors.device)

    def update(self, z1: Tensor, z2: Tensor, nodes: Tensor | None, epoch: int, fit: FitFunction) -> int | None:
        """Record the unit vectors [n, d] of a step's `nodes` [n], None for all, and fit if it is time.

        `fit` takes the two views' vectors, and whether s is bounded by the range of all similarities or by that of a
        sample, and returns a row of `fits`. The result is the row that holds for `nodes`, None before the first fit.
        """
        raise NotImplementedError

    def facts(self, posterior: Posterior) -> dict[str, Any]:
        """The fit in plain numbers: the posterior's, and the range of s."""
        return {**posterior.facts(), "range": self.fits[-1, :2].tolist()}

    def get_extra_state(self) -> Tensor:
        """The fits, for checkpoints."""
        return self.fits

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the fits."""
        self.fits = state.cpu().clone()

    def _append(self, row: Tensor) -> int:
        self.fits = torch.cat([self.fits, row[None]]) if len(self.fits) else row[None]
        return len(self.fits) - 1

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, buffer in list(self._buffers.items()):  # sizes are known only after the fit
            if prefix + name in state_dict and buffer is not None:
                setattr(self, name, torch.empty_like(state_dict[prefix + name], device=buffer.device))
        super()._load_from_state_dict(state_dict, prefix, *args)


class WholeGraph(Snapshot):
    """All nodes in one step: recorded and fitted in the first step of epoch E (Algorithm 1)."""

    def update(self, z1: Tensor, z2: Tensor, nodes: Tensor | None, epoch: int, fit: FitFunction) -> int | None:
        """Record all vectors and fit, once."""
        if not len(self.fits):
            self.vectors = torch.stack([z1, z2]).detach().clone()
            self._append(fit(z1, z2, True))
        return 0


class CollectedByNode(Snapshot):
    """One fit for all batches: vectors are collected by node during epoch E, and fitted when the next epoch begins.

    A node that epoch E did not contain is recorded when it first occurs.

    Attributes:
        mark: the epoch in which a node was recorded, or UNSEEN, [N]
    """

    mark: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mark", torch.empty(0, dtype=torch.long))

    @property
    def nodes(self) -> Tensor:
        """Nodes whose vectors are recorded."""
        return (self.mark != UNSEEN).nonzero().flatten()

    def update(self, z1: Tensor, z2: Tensor, nodes: Tensor | None, epoch: int, fit: FitFunction) -> int | None:
        """Fit if epoch E is over, then record the batch's new nodes."""
        assert nodes is not None
        if not len(self.fits) and self.mark.numel() and epoch > int(self.mark.max()):
            own, other = self.vectors[:, self.nodes]
            self._append(fit(own, other, False))
        self._record(z1, z2, nodes, epoch)
        return 0 if len(self.fits) else None

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Vectors of recorded nodes alone, and no room for others: on large graphs most nodes are never drawn."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        nodes = self.nodes
        if len(nodes) < len(self.mark):
            destination[f"{prefix}vectors"] = self.vectors[:, nodes]
            destination[f"{prefix}mark"] = self.mark[: int(nodes.max()) + 1 if len(nodes) else 0]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        vectors, mark = (state_dict.get(f"{prefix}{name}") for name in ("vectors", "mark"))
        if vectors is not None and mark is not None and vectors.numel() and vectors.size(1) < len(mark):
            state_dict[f"{prefix}vectors"] = vectors.new_zeros(2, len(mark), vectors.size(2))
            state_dict[f"{prefix}vectors"][:, mark != UNSEEN] = vectors
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _record(self, z1: Tensor, z2: Tensor, nodes: Tensor, mark: int) -> None:
        """Keep the vectors of nodes that occur for the first time."""
        missing = int(nodes.max()) + 1 - len(self.mark)
        if missing > 0:
            self._grow(max(missing, len(self.mark) // 2), z1)
        new = self.mark[nodes] == UNSEEN
        self.vectors[:, nodes[new]] = torch.stack([z1[new], z2[new]])
        self.mark[nodes[new]] = mark

    def _grow(self, more: int, like: Tensor) -> None:
        """Make room for `more` nodes with vectors like `like` [n, d]."""
        unseen = torch.full((more,), UNSEEN, device=like.device)
        self.mark = torch.cat([self.mark.to(like.device), unseen])
        old = self.vectors if self.vectors.numel() else like.new_empty(2, 0, like.size(1))
        self.vectors = torch.cat([old, like.new_zeros(2, more, like.size(1))], dim=1)


class PerBatch(CollectedByNode):
    """One fit per batch, at its first step from epoch E on (Algorithm 2); batches are the same in every epoch.

    Attributes:
        mark: the row of `fits` that belongs to a node's batch, or UNSEEN, [N]
    """

    def update(self, z1: Tensor, z2: Tensor, nodes: Tensor | None, epoch: int, fit: FitFunction) -> int | None:
        """Fit a new batch; look up a known one.

        Raises:
            InputError: the batch mixes nodes of several earlier ones, or known and new nodes
        """
        assert nodes is not None
        batch = torch.full_like(nodes, UNSEEN)
        inside = nodes < len(self.mark)
        batch[inside] = self.mark[nodes[inside]]
        if bool((batch == UNSEEN).all()):
            self._record(z1, z2, nodes, len(self.fits))
            return self._append(fit(z1, z2, True))
        row = int(batch[0])
        if not bool((batch == row).all()):
            hint = "keep batches and their order, or leave per_batch off"
            raise InputError("a mixture for every batch needs the same batches in every epoch", hint)
        return row

    def facts(self, posterior: Posterior) -> dict[str, Any]:
        """The number of fits and of degenerate ones, and the range of s over all."""
        degenerate = int((self.fits[:, -1] > 0).sum())
        return {
            "batches": len(self.fits),
            "degenerate batches": degenerate,
            "degenerate": degenerate == len(self.fits),
            "range": [self.fits[:, 0].min().item(), self.fits[:, 1].max().item()],
        }
