"""Amounts of memory: as users write them, what a limit leaves, and what is refused."""

import math
import resource
from pathlib import Path

import pytest

from progcl import InputError, memory
from progcl.memory import (
    format_size,
    is_out_of_memory,
    limit_memory,
    memory_left,
    memory_limit,
    parse_size,
    require_memory,
    require_within_limit,
    resident,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2e9), ("500 MB", 5e8), ("1.5GiB", 1.5 * 2**30), ("800m", 8e8), ("4096", 4096), ("1 tb", 1e12)],
)
def test_sizes_as_users_write_them(text: str, size: float) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "two", "2 PB", "-1GB", "GB", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InputError, match="is not an amount of memory"):
        parse_size(text)


def test_sizes_as_users_read_them() -> None:
    assert [format_size(size) for size in (2.04e9, 3.4e8, math.inf)] == ["2.0 GB", "340 MB", "unlimited"]


def test_a_limit_holds_inside_and_never_grows() -> None:
    assert memory_limit() == math.inf
    with limit_memory(resident() + 1e8):
        assert memory_left() <= 1.1e8
        with limit_memory(1e15):
            assert memory_limit() < 1e12
    assert memory_limit() == math.inf


def test_what_is_needed_is_compared_with_what_is_left() -> None:
    require_memory(1e6, "a little")
    with pytest.raises(InputError, match=r"^a lot: 1,000,000.0 GB of memory are needed, .* are left"):
        require_memory(1e15, "a lot")


def test_a_process_that_outgrows_its_limit_is_stopped() -> None:
    require_within_limit()
    with limit_memory(resident() / 1.1):
        require_within_limit()
    with limit_memory(resident() / 1.3), pytest.raises(InputError, match="of memory are in use"):
        require_within_limit()


def test_the_address_space_counts() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    status = Path("/proc/self/status").read_text().splitlines()
    used = 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 10**8, before[1]))
    try:
        assert memory_left() < 2.1e8
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(("most", "left"), [("max\n", math.inf), ("1000\n", 1000 - 700 + 50)])
def test_a_control_group_counts(most: str, left: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text(most)
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 600\ninactive_file 50\n")
    monkeypatch.setattr(memory, "CONTROL_GROUP", tmp_path)
    assert memory._group_left() == left


def test_errors_that_say_that_memory_is_missing() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"))
    assert is_out_of_memory(RuntimeError("CUDA out of memory"))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
