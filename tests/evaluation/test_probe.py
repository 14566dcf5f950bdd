import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.splits import Split, make_splits
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import PROTOCOLS, bgrl, clean, gca, linear_probe

DATA = csbm(nodes=205, classes=3)
PERFECT = torch.nn.functional.one_hot(DATA.y).float()


def test_splits_are_disjoint_and_of_the_right_size() -> None:
    splits = make_splits(DATA, 20, seed=3)
    assert len(splits) == 20
    for split in splits:
        parts = [split.train, split.validation, split.test]
        assert [len(part) for part in parts] == [20, 20, 165]
        assert sorted(np.concatenate(parts)) == list(range(205))
    assert not np.array_equal(splits[0].train, splits[1].train)
    for first, again in zip(splits, make_splits(DATA, 20, seed=3), strict=True):
        assert np.array_equal(first.train, again.train)


def test_tuning_nodes_are_never_reported_on() -> None:
    def used(nodes: str, seed: int) -> set[int]:
        splits = make_splits(DATA, 3, seed, nodes)
        return {int(node) for split in splits for part in (split.train, split.validation, split.test) for node in part}

    tuning, rest = used("tuning", 0), used("rest", 7)
    assert len(tuning) == 41
    assert tuning | rest == set(range(205))
    assert not tuning & rest
    with pytest.raises(InputError, match="part of the nodes"):
        make_splits(DATA, 3, 0, "some")


def test_public_splits_are_used_where_there_are_several() -> None:
    data = Data(x=torch.ones(6, 1), y=torch.arange(6) % 2, edge_index=torch.empty(2, 0, dtype=torch.long))
    data.train_mask = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1], [0, 0], [0, 0]], dtype=torch.bool)
    data.val_mask = data.train_mask.flip(1)
    data.test_mask = torch.tensor([0, 0, 0, 0, 1, 1], dtype=torch.bool)
    first, second = make_splits(data, 20)
    assert (list(first.train), list(first.validation), list(first.test)) == ([0, 1], [2, 3], [4, 5])
    assert (list(second.train), list(second.validation), list(second.test)) == ([2, 3], [0, 1], [4, 5])
    with pytest.raises(InputError, match="public splits"):
        make_splits(data, 20, nodes="rest")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_perfect_embeddings_score_100_and_noise_about_chance(protocol: str) -> None:
    assert linear_probe(PERFECT, DATA, protocol, splits=2).accuracies == (100.0, 100.0)
    noise = torch.randn(205, 4, generator=torch.Generator().manual_seed(0))
    assert 20 < linear_probe(noise, DATA, protocol, splits=2).mean < 50


@pytest.mark.parametrize("evaluate", [clean, gca, bgrl])
def test_test_labels_choose_nothing(evaluate: object) -> None:
    """Other test labels change how many answers are right, not the answers: right before + right after = 100 %."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(300, 8))).float()
    labels = (x[:, 0] + 0.7 * torch.from_numpy(rng.normal(size=300)) > 0).long().numpy()
    split = Split(np.arange(40), np.arange(40, 80), np.arange(80, 300))
    flipped = labels.copy()
    flipped[80:] = 1 - flipped[80:]
    before = evaluate(x, labels, [split])[0]  # type: ignore[operator]
    after = evaluate(x, flipped, [split])[0]  # type: ignore[operator]
    assert before > 0.6
    assert before + after == pytest.approx(1)


def test_clean_and_bgrl_do_not_see_the_length_of_a_row() -> None:
    noisy = PERFECT + torch.randn(205, 3, generator=torch.Generator().manual_seed(1))
    scaled = noisy * torch.linspace(0.5, 5, 205)[:, None]
    for protocol in ("clean", "bgrl"):
        assert linear_probe(noisy, DATA, protocol, 2).accuracies == linear_probe(scaled, DATA, protocol, 2).accuracies


def test_a_score_speaks_for_itself() -> None:
    score = linear_probe(PERFECT, DATA, "clean", splits=2)
    assert str(score) == "100.00 ± 0.00"
    assert (score.mean, score.std, score.protocol) == (100.0, 0.0, "clean")


def test_no_split_is_begun_when_the_time_is_over() -> None:
    assert [len(linear_probe(PERFECT, DATA, splits=4, seconds=limit).accuracies) for limit in (0.0, 60.0)] == [1, 4]


def test_bad_input() -> None:
    with pytest.raises(InputError, match="unknown protocol `clena`"):
        linear_probe(PERFECT, DATA, "clena")
    with pytest.raises(InputError, match="not finite"):
        linear_probe(PERFECT * torch.nan, DATA)
    with pytest.raises(InputError, match="no labels"):
        linear_probe(PERFECT, Data(x=PERFECT, edge_index=DATA.edge_index))
    tiny = csbm(nodes=12, classes=3, degree=3)
    for protocol in ("clean", "bgrl"):
        with pytest.raises(InputError, match="too few to fit"):
            linear_probe(tiny.x, tiny, protocol)
    with pytest.raises(InputError, match="at least 10 nodes"):
        make_splits(Data(x=torch.ones(4, 1), num_nodes=4))


@pytest.mark.parametrize("protocol", ["clean", "bgrl"])
def test_rows_of_zeros_are_probed_alike_as_sparse_ones(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = csbm(nodes=200, seed=0)
    generator = torch.Generator().manual_seed(0)
    words = torch.eye(5).repeat(1, 20)[data.y] * (torch.rand(200, 100, generator=generator) < 0.3)
    assert words.count_nonzero() < 0.1 * words.numel()
    sparse = linear_probe(words, data, protocol, splits=3)
    monkeypatch.setattr("progcl.evaluation.probe.SPARSE", 0)
    assert linear_probe(words, data, protocol, splits=3).accuracies == pytest.approx(sparse.accuracies, abs=0.7)
