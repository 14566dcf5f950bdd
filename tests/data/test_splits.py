"""Splits: disjoint, reproducible, public where there are some; tuning nodes are never reported on."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.splits import heldout_split, make_splits
from progcl.data.synthetic import csbm

DATA = csbm(nodes=205, classes=3)


def test_nodes_without_labels_are_left_aside() -> None:
    data = csbm(nodes=200)
    data.y[::3] = -1
    for split in make_splits(data, 3):
        nodes = np.concatenate([split.train, split.validation, split.test])
        assert sorted(nodes.tolist()) == [node for node in range(200) if node % 3]
        assert len(split.train) == len(split.validation) == 13
    (heldout,) = make_splits(data, nodes="heldout")
    assert (data.y[heldout.train] >= 0).all()


def test_splits_are_disjoint_and_of_the_right_size() -> None:
    splits = make_splits(DATA, 20, seed=3)
    assert len(splits) == 20
    for split in splits:
        sets = [split.train, split.validation, split.test]
        assert [len(nodes) for nodes in sets] == [20, 20, 165]
        assert sorted(np.concatenate(sets)) == list(range(205))
    assert not np.array_equal(splits[0].train, splits[1].train)
    for first, again in zip(splits, make_splits(DATA, 20, seed=3), strict=True):
        assert np.array_equal(first.train, again.train)


def test_tuning_nodes_are_never_reported_on() -> None:
    def used(nodes: str, seed: int) -> set[int]:
        splits = make_splits(DATA, 3, seed, nodes)
        return {int(node) for split in splits for node in (*split.train, *split.validation, *split.test)}

    tuning, rest = used("tuning", 0), used("rest", 7)
    assert len(tuning) == 41
    assert tuning | rest == set(range(205))
    assert not tuning & rest
    with pytest.raises(InputError, match="selection of nodes"):
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


def test_the_heldout_split_depends_on_the_number_of_nodes_alone() -> None:
    data = csbm(nodes=50)
    split = heldout_split(data)
    assert [len(nodes) for nodes in split] == [30, 10, 10]
    assert torch.equal(torch.cat(split).sort().values, torch.arange(50))
    assert all(torch.equal(a, b) for a, b in zip(split, heldout_split(csbm(nodes=50, seed=1)), strict=True))


def test_one_mask_of_three_is_refused() -> None:
    data = csbm(nodes=50)
    data.train_mask = torch.arange(50) < 20
    with pytest.raises(InputError, match="not all of train_mask"):
        heldout_split(data)


def test_too_few_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="at least 10 nodes"):
        make_splits(Data(x=torch.ones(4, 1), num_nodes=4))
