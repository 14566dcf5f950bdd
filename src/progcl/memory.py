"""How much memory there is: a limit for the whole process, what is left, and refusals before anything is allocated."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from progcl.errors import InputError

UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
CONTROL_GROUP = Path("/sys/fs/cgroup")
TOLERANCE = 0.15  # by which a limit may be exceeded
_limit: ContextVar[float] = ContextVar("memory limit", default=math.inf)


def parse_size(text: str) -> float:
    """'2GB', '500 MB', '1.5GiB' in bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?", text.strip().upper())
    if not found:
        raise InputError(f"`{text}` is not an amount of memory", "write 2GB, 500MB or 1.5GiB")
    return float(found.group(1)) * UNITS[found.group(2) or ""]


def format_size(size: float) -> str:
    """Bytes for a reader: '1.9 GB', '340 MB'."""
    if not math.isfinite(size):
        return "unlimited"
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


@contextmanager
def limit_memory(size: float) -> Iterator[None]:
    """Let the process be planned within so many bytes of resident memory: `memory_left` tells what they leave."""
    token = _limit.set(min(size, _limit.get()))
    try:
        yield
    finally:
        _limit.reset(token)


def memory_limit() -> float:
    """The bytes that `limit_memory` set; infinite without."""
    return _limit.get()


def memory_left() -> float:
    """Bytes that this process may still allocate: of its limit, its control group, its address space, the machine."""
    return max(0.0, min(memory_limit() - resident(), _group_left(), _address_space_left(), _machine_left()))


def require_memory(needed: float, what: str, hint: str = "") -> None:
    """Raise `InputError` if so many bytes are not left; nothing is allocated."""
    left = memory_left()
    if needed > left:
        message = f"{what}: {format_size(needed)} of memory are needed, {format_size(left)} are left"
        raise InputError(message, hint or "use a machine with more memory, or a smaller graph")


def require_within_limit() -> None:
    """Raise `InputError` if the process has outgrown its limit by more than `TOLERANCE`."""
    limit, used = memory_limit(), resident()
    if used > (1 + TOLERANCE) * limit:
        message = f"{format_size(used)} of memory are in use, {format_size(limit)} are allowed"
        raise InputError(message, "the run can be resumed with a larger --memory, or with --batch.size")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory could not be allocated; torch has no type of its own for it on CPUs."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error).lower()


def resident() -> float:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    return _read_kilobytes(Path("/proc/self/status"), "VmRSS") or 0.0


def _machine_left() -> float:
    found = _read_kilobytes(Path("/proc/meminfo"), "MemAvailable")
    return math.inf if found is None else found


def _group_left() -> float:
    """What the control group of a container or batch job leaves; page cache counts as free."""
    folder = CONTROL_GROUP
    with suppress(OSError, ValueError):
        used = int((folder / "memory.current").read_text())
        cache = next(
            int(line.split()[1])
            for line in (folder / "memory.stat").read_text().splitlines()
            if line.startswith("inactive_file ")
        )
        return int((folder / "memory.max").read_text()) - used + cache  # "max" without a limit: ValueError
    return math.inf


def _address_space_left() -> float:
    """What `ulimit -v` leaves."""
    if sys.platform == "win32":
        return math.inf
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = _read_kilobytes(Path("/proc/self/status"), "VmSize") or 0.0
    return math.inf if limit == resource.RLIM_INFINITY else limit - used


def _read_kilobytes(path: Path, key: str) -> float | None:
    """A line `key: 123 kB` in bytes; None if there is none."""
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{key}:"):
                return 1024.0 * int(line.split()[1])
    return None
