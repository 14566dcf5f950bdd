"""The real data beside a checkout, copied before use because PyG writes next to the raw files."""

import os
import shutil
from pathlib import Path

import pytest

REAL = Path(os.environ.get("PROGCL_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")

PLACES = {
    "photo": "amazon/Photo/raw",
    "computers": "amazon/Computers/raw",
    "cs": "coauthor/CS/raw",
    "physics": "coauthor/Physics/raw",
    "facebook": "facebook",
}


def copied(name: str, root: Path) -> Path:
    """A data root that holds the real `name`, or a skip."""
    source = REAL / PLACES[name]
    if not source.is_dir():
        pytest.skip(f"the real {name} is not in {REAL}; set PROGCL_TEST_DATA")
    target = root / PLACES[name]
    target.mkdir(parents=True)
    for file in source.iterdir():
        shutil.copyfile(file, target / file.name)
    return root


def real_file(path: str) -> Path:
    """A file of the real data that is only read, or a skip."""
    if not (REAL / path).is_file():
        pytest.skip(f"{path} is not in {REAL}; set PROGCL_TEST_DATA")
    return REAL / path
