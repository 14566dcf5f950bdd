"""What is sealed comes back as it was, and is recognized if it has changed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from progcl.checksums import DamagedFile, digest, read_json, read_json_lines, seal, unseal
from progcl.training.files import write_json

CONTENT: dict[str, Any] = {
    "numbers": [1, 2.5, 1e-300, float("inf")],
    "text": "ü\u2028",
    "none": None,
    "deep": {"a": {}},
}


@pytest.mark.parametrize("content", [{}, CONTENT, {"tuple": (1, 2), "keys": {1: "a", 10: "b", 9: "c"}}])
def test_sealed_content_survives_json_and_yaml(content: dict[str, Any]) -> None:
    plain = json.loads(json.dumps(content))
    assert unseal(json.loads(json.dumps(seal(content)))) == plain
    assert unseal(yaml.safe_load(yaml.safe_dump(seal(plain)))) == plain


@pytest.mark.parametrize(
    "change", [{"text": "u"}, {"numbers": [1, 2, 1e-300]}, {"more": 1}, {"checksum": "0" * 16}, {"checksum": 0}]
)
def test_changes_are_recognized(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="does not match"):
        unseal({**seal(CONTENT), **change})


def test_the_checksum_is_blake2b() -> None:
    import hashlib

    assert digest(b"ab", b"c") == hashlib.blake2b(b"abc", digest_size=8).hexdigest()


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(DamagedFile, match="there is no"):
        read_json(path)
    write_json(path, CONTENT)
    assert read_json(path) == CONTENT
    path.write_text("[" * 100_000)
    with pytest.raises(DamagedFile, match=r"is damaged: .*\n\nhint: do this"):
        read_json(path, "do this")
    path.write_text(json.dumps(seal({"a": 1})) + "\n" + json.dumps({"a": 2}) + "\n")
    with pytest.raises(DamagedFile, match="no checksum"):
        read_json_lines(path)
