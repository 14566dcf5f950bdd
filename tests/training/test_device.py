"""Where a run computes."""

import pytest
import torch

from progcl import InputError
from progcl.training.device import choose_device, fixed_order


def test_auto_takes_the_best_device_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    with pytest.raises(InputError, match="torch finds no `cuda` device"):
        choose_device("cuda")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device() == torch.device("mps")


def test_processes_of_a_host_share_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for rank, index in (("0", 0), ("1", 1), ("2", 0)):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert choose_device() == torch.device("cuda", index)


def test_rows_that_are_read_twice_have_the_same_gradient_in_any_step() -> None:
    """Threads would add up in any order."""
    table, index = torch.randn(40, 64), torch.randint(40, (30_000,))
    weight, threads = torch.randn(30_000, 64), torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        grads = []
        for _ in range(5):
            rows = table.clone().requires_grad_()
            with fixed_order(torch.device("cpu")):
                (rows[index] * weight).sum().backward()
            assert rows.grad is not None
            grads.append(rows.grad)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(grad, grads[0]) for grad in grads)


@pytest.mark.parametrize("before", [False, True])
def test_a_fixed_order_leaves_torch_as_it_was(before: bool) -> None:
    torch.use_deterministic_algorithms(before)
    try:
        with fixed_order(torch.device("cpu")):
            assert torch.are_deterministic_algorithms_enabled()
        assert torch.are_deterministic_algorithms_enabled() == before
        assert vars(torch.utils)["deterministic"].fill_uninitialized_memory
        with fixed_order(torch.device("meta")):
            assert torch.are_deterministic_algorithms_enabled() == before
    finally:
        torch.use_deterministic_algorithms(False)
