"""The paper's equations as slow loops over plain numbers, and toy inputs for them."""

import math
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from progcl.posteriors.beta import BetaMixture


def unit(n: int, d: int, seed: int) -> Tensor:
    vectors = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(vectors, dim=1)


def clusters(n: int, d: int, seed: int, noise: float = 0.25, classes: int = 3) -> Tensor:
    """Vectors around a few orthogonal centers: similarities with two modes, as ProGCL expects them."""
    return torch.eye(d, dtype=torch.float64)[torch.arange(n) % classes] + noise * unit(n, d, seed)


def unit_views(n: int, d: int, seed: int) -> tuple[Tensor, Tensor]:
    """Two noisy views of the same nodes as unit vectors, with gradient."""
    h = clusters(n, d, seed)
    first, second = (torch.nn.functional.normalize(h + 0.3 * unit(n, d, seed + k), dim=1) for k in (1, 2))
    return first.requires_grad_(), second.requires_grad_()


def cosine(a: Tensor, b: Tensor) -> float:
    return float((a @ b / (a.norm() * b.norm())).detach())


def cosines(a: Tensor, b: Tensor) -> list[list[float]]:
    return [[cosine(x, y) for y in b] for x in a]


def infonce(z1: Tensor, z2: Tensor, tau: float) -> float:
    """Eq. 1 and 2."""
    n = len(z1)
    return loss(z1, z2, tau, [[[1.0] * n] * n] * 2, [[[]] * n] * 2)


def loss(
    z1: Tensor, z2: Tensor, tau: float, weights: list[list[list[float]]], extras: list[list[list[float]]]
) -> float:
    """Eq. 1-2 with the weights of Eq. 11 and the similarities of synthetic negatives of Eq. 15, by view and anchor."""
    total = 0.0
    for view, (own, other) in enumerate(((z1, z2), (z2, z1))):
        for i in range(len(own)):
            positive = math.exp(cosine(own[i], other[i]) / tau)
            denominator = positive
            for k in range(len(own)):
                if k != i:
                    denominator += weights[view][i][k] * math.exp(cosine(own[i], other[k]) / tau)
                    denominator += weights[view][i][k] * math.exp(cosine(own[i], own[k]) / tau)
            denominator += sum(math.exp(theta / tau) for theta in extras[view][i])
            total -= math.log(positive / denominator)
    return total / (2 * len(z1))


def min_max(sims: list[list[float]]) -> tuple[float, float]:
    """Range of the negatives' similarities."""
    values = [s for i, row in enumerate(sims) for k, s in enumerate(row) if k != i]
    return min(values), max(values)


def normalize_sims(sims: list[list[float]], low: float, high: float) -> list[list[float]]:
    return [[min(max((s - low) / (high - low), 0.0), 1.0) for s in row] for row in sims]


def transposed(rows: list[list[float]]) -> list[list[float]]:
    return [list(column) for column in zip(*rows, strict=True)]


def p_true(mixture: BetaMixture, s: float) -> float:
    """Eq. 9, by scipy's densities."""
    s = min(max(s, 1e-12), 1 - 1e-12)
    densities = [
        weight * stats.beta.pdf(s, a, b)
        for weight, a, b in zip(mixture.weight_, mixture.alpha_, mixture.beta_, strict=True)
    ]
    return float(densities[0] / sum(densities))


def progcl_weights(p: list[list[float]], s: list[list[float]]) -> list[list[float]]:
    """Eq. 10."""
    n = len(p)
    result = []
    for i in range(n):
        mean = sum(p[i][j] * s[i][j] for j in range(n) if j != i) / (n - 1)
        result.append([p[i][k] * s[i][k] / mean for k in range(n)])
    return result


def hardest(p: list[list[float]], s: list[list[float]], count: int) -> list[list[int]]:
    """The negatives with the largest p·s of Eq. 10, in the order of their numbers."""
    n = len(p)
    ranked = [sorted((-p[i][k] * s[i][k], k) for k in range(n) if k != i)[:count] for i in range(n)]
    return [sorted(k for _, k in row) for row in ranked]


def mixed_vectors(
    own: Tensor, other: Tensor, p: list[list[float]], lists: list[list[int]], pairs: list[list[int]]
) -> list[list[float]]:
    """θ(u_i, ũ_k) of Eq. 13-15."""
    result = []
    for i, members in enumerate(lists):
        thetas = []
        for first, second in zip(*pairs, strict=True):
            a, b = members[first], members[second]
            alpha = p[i][a] / (p[i][a] + p[i][b])
            thetas.append(cosine(own[i], alpha * other[a] + (1 - alpha) * other[b]))
        result.append(thetas)
    return result


def mixed_similarities(
    sims: list[list[float]], score: list[list[float]], lists: list[list[int]], pairs: list[list[int]]
) -> list[list[float]]:
    """The released code's synthetic negatives: convex combinations of two similarities."""
    result = []
    for i, members in enumerate(lists):
        thetas = []
        for first, second in zip(*pairs, strict=True):
            a, b = members[first], members[second]
            total = score[i][a] * sims[i][a] + score[i][b] * sims[i][b]
            thetas.append(total / (score[i][a] + score[i][b]))
        result.append(thetas)
    return result


def negatives(own: Tensor, other: Tensor, i: int) -> list[float]:
    """Similarities of an anchor's 2(N-1) negatives, inter-view first."""
    between = [cosine(own[i], other[k]) for k in range(len(own)) if k != i]
    return between + [cosine(own[i], own[k]) for k in range(len(own)) if k != i]


def debiased(z1: Tensor, z2: Tensor, tau: float, class_prior: float, concentration: float) -> float:
    """HCL; DCL with concentration 0."""
    total = 0.0
    for own, other in ((z1, z2), (z2, z1)):
        for i in range(len(own)):
            pos = math.exp(cosine(own[i], other[i]) / tau)
            neg = [math.exp(s / tau) for s in negatives(own, other, i)]
            imp = [e**concentration for e in neg]
            reweighted = sum(w * e for w, e in zip(imp, neg, strict=True)) / (sum(imp) / len(imp))
            mass = max((reweighted - class_prior * len(neg) * pos) / (1 - class_prior), len(neg) * math.exp(-1 / tau))
            total -= math.log(pos / (pos + mass))
    return total / (2 * len(z1))


def ring(z1: Tensor, z2: Tensor, tau: float, low: float, high: float) -> float:
    """InfoNCE over the negatives that remain when the extremes are left out."""
    total = 0.0
    for own, other in ((z1, z2), (z2, z1)):
        for i in range(len(own)):
            ranked = sorted(negatives(own, other, i))
            n = len(ranked)
            inside = ranked[math.floor(Fraction(str(low)) * n) : n - math.floor((1 - Fraction(str(high))) * n)]
            pos = math.exp(cosine(own[i], other[i]) / tau)
            total -= math.log(pos / (pos + sum(math.exp(s / tau) for s in inside)))
    return total / (2 * len(z1))


def mochi(
    own: Tensor, other: Tensor, count: int, drawn: dict[str, list[float]], pairs: list[list[int]]
) -> list[list[float]]:
    """Similarities of the anchors with MoCHi's points, for given ranks and shares."""
    result = []
    for i in range(len(own)):
        ranked = sorted((k for k in range(len(own)) if k != i), key=lambda k: -cosine(own[i], other[k]))[:count]
        thetas = []
        for first, second, alpha in zip(*pairs, drawn["shares"], strict=True):
            thetas.append(cosine(own[i], alpha * other[ranked[first]] + (1 - alpha) * other[ranked[second]]))
        for partner, beta in zip(drawn["partners"], drawn["anchor_shares"], strict=True):
            thetas.append(cosine(own[i], beta * own[i] + (1 - beta) * other[ranked[int(partner)]]))
        result.append(thetas)
    return result


def expectation_maximization(x: NDArray[np.float64], prior: float, iterations: int) -> NDArray[np.float64]:
    """Eq. 3-8 with scipy's density; rows are α, β, λ."""
    alpha, beta, weight = [1.0, 2.0], [2.0, 1.0], [1 - prior, prior]
    for _ in range(iterations):
        joint = np.stack([weight[c] * stats.beta.pdf(x, alpha[c], beta[c]) for c in range(2)])
        share = joint / joint.sum(axis=0)
        for c in range(2):
            mean = (share[c] * x).sum() / share[c].sum()
            variance = (share[c] * (x - mean) ** 2).sum() / share[c].sum()
            alpha[c] = mean * (mean * (1 - mean) / variance - 1)
            beta[c] = alpha[c] * (1 - mean) / mean
            weight[c] = share[c].mean()
    return np.array([alpha, beta, weight])


def naive_jsd(h: Tensor, pairs: Tensor, tau: float | None) -> float:
    """SIGNA's loss, or with a temperature the same with a sigmoid; a repeated pair counts once."""
    total = 0.0
    for i in range(len(h)):
        near = {i} | {j for k, j in pairs.T.tolist() if k == i}
        theta = [cosine(h[i], h[j]) for j in range(len(h))]
        far = [j for j in range(len(h)) if j not in near]
        if tau is None:
            total -= sum(math.log((theta[j] + 1) / 2 + 1e-6) for j in near) / len(near)
            total -= sum(math.log(1 - (theta[j] + 1) / 2 + 1e-6) for j in far) / len(far)
        else:
            total += sum(math.log1p(math.exp(-theta[j] / tau)) for j in near) / len(near)
            total += sum(math.log1p(math.exp(theta[j] / tau)) for j in far) / len(far)
    return total / len(h)
