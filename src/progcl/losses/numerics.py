"""What keeps the numbers of a loss right: checked input, full precision, and the loss of a row in log space."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from progcl.errors import InputError

HALF_TYPES = (torch.float16, torch.bfloat16)
LEAST_NORM = 1e-12  # of a row that is scaled to unit length; a shorter one stays shorter


def normalize_rows(*h: Tensor) -> tuple[Tensor, ...]:
    """Unit rows of matrices [N, d] of one shape and type; those of half precision in float32.

    Raises:
        InputError: shapes or types differ, N < 2, the type is not a floating-point one, or a number is not finite
    """
    if len({matrix.shape for matrix in h}) > 1 or h[0].dim() != 2 or len(h[0]) < 2:
        shapes = " and ".join(str(list(matrix.shape)) for matrix in h)
        raise InputError(f"the two views need the same shape [N, d] with N ≥ 2 (got {shapes})")
    types = list(dict.fromkeys(matrix.dtype for matrix in h))
    if len(types) > 1 or not types[0].is_floating_point:
        got = " and ".join(map(str, types))
        raise InputError(f"embeddings need one floating-point type (got {got})", "convert with .float() or .to(dtype)")
    return tuple(_normalize(matrix.float() if matrix.dtype in HALF_TYPES else matrix) for matrix in h)


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """Switches `torch.autocast` off on the device of `like`: sums of exponentials need all digits."""
    device = like.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def row_loss(mass: Tensor, sim: Tensor, tau: float) -> Tensor:
    """log(1 + M e^{-(s-1)/τ}), elementwise, of masses M in units of e^{1/τ} and similarities s with the positive.

    It is computed from log M: the derivative of a quotient holds e^{-2(s-1)/τ}, which overflows in float32 for small τ.
    """
    log_mass = mass.clamp_min(torch.finfo(mass.dtype).tiny).log()
    return -logsigmoid(sim.sub(1).div(tau) - log_mass)


def _normalize(h: Tensor) -> Tensor:
    norm: Tensor = h.norm(dim=1, keepdim=True)
    if not bool(norm.isfinite().all()):  # also where h is finite, and the sum of its squares is not
        row = int((~norm.isfinite()).flatten().nonzero()[0])
        problem = "is too long" if bool(h[row].isfinite().all()) else "is not finite"
        hint = "has training diverged? Try a smaller learning rate, --train.lr"
        raise InputError(f"row {row} of the embeddings {problem}", hint)
    unit: Tensor = h / norm.masked_fill(norm == 0, 1).clamp_min(LEAST_NORM)  # gradients of a zero row stay small
    return unit
