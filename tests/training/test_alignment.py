"""Embeddings rotated onto earlier ones."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from progcl import InputError
from progcl.training.alignment import Alignment, describe_alignment, measure_shift
from progcl.training.files import Embeddings

NAMES = [f"n{node}" for node in range(60)]


def vectors(nodes: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(nodes, width, generator=torch.Generator().manual_seed(seed))


def test_a_rotation_is_found_and_undone() -> None:
    before = vectors(60, 3)
    turn = torch.from_numpy(Rotation.from_euler("xyz", [0.3, 1.2, -2.0]).as_matrix()).float()
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    now = (before @ turn)[order]
    aligned = Alignment.fit(now, [NAMES[node] for node in order], Embeddings(before.numpy(), NAMES))
    torch.testing.assert_close(aligned.apply(now), before[order], atol=1e-5, rtol=1e-5)
    assert aligned.facts == {"nodes": 60, "new": 0, "gone": 0, "cosine": 1.0, "neighbors": 1.0}


def test_no_rotation_is_nearer() -> None:
    now, before = vectors(60, 4), vectors(60, 4, seed=1)
    aligned = Alignment.fit(now, NAMES, Embeddings(before.numpy(), NAMES))
    best = (aligned.apply(now) - before).norm()
    for seed in range(20):
        other = torch.linalg.qr(vectors(4, 4, seed + 2)).Q
        assert (now @ other - before).norm() > best
    identity = torch.eye(4)
    torch.testing.assert_close(aligned.rotation @ aligned.rotation.T, identity, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("width", "earlier"), [(3, 5), (5, 3)])
def test_the_narrower_side_is_padded(width: int, earlier: int) -> None:
    before, now = vectors(60, earlier), vectors(60, width, seed=1)
    aligned = Alignment.fit(now, NAMES, Embeddings(before.numpy(), NAMES)).apply(now)
    assert aligned.shape == (60, 5)
    torch.testing.assert_close(aligned @ aligned.T, now @ now.T, atol=1e-4, rtol=1e-4)  # lengths and angles stay


def test_only_nodes_of_both_runs_count() -> None:
    before = vectors(40, 3)
    now = torch.cat([vectors(20, 3, seed=1), before[:30]])
    names = [*(f"new {node}" for node in range(20)), *NAMES[:30]]
    aligned = Alignment.fit(now, names, Embeddings(before.numpy(), NAMES[:40]))
    assert [aligned.facts[name] for name in ("nodes", "new", "gone")] == [30, 20, 10]
    torch.testing.assert_close(aligned.rotation, torch.eye(3), atol=1e-5, rtol=0)
    assert "of 30 nodes (20 are new, 10 are gone): mean cosine 1.000, and 100%" in describe_alignment(aligned.facts)
    with pytest.raises(InputError, match="no node of the earlier run"):
        Alignment.fit(now[:20], names[:20], Embeddings(before.numpy(), NAMES[:40]))


def test_how_far_nodes_move_is_its_definition() -> None:
    now, before = vectors(60, 3).double(), (vectors(60, 3) + 0.5 * vectors(60, 3, seed=1)).double()
    cosines, same = [], 0
    for node in range(60):
        cosines.append(float(torch.cosine_similarity(now[node], before[node], dim=0)))
        sets = []
        for each in (now, before):
            near = [float(torch.cosine_similarity(each[node], other, dim=0)) for other in each]
            order = sorted(range(60), key=near.__getitem__, reverse=True)
            sets.append(set(order[1:11]))  # the nearest is itself
        same += len(sets[0] & sets[1])
    shift = measure_shift(now, before)
    assert shift["cosine"] == pytest.approx(np.mean(cosines), abs=1e-4)
    assert shift["neighbors"] == pytest.approx(same / 600, abs=1e-4)
