"""`bench sampler` on a small graph; no time is asserted."""

import json
from pathlib import Path

from progcl.bench.sampler import SamplerBench


def test_bench_sampler_writes_its_result(tmp_path: Path) -> None:
    text = SamplerBench(nodes=200, edges=900, batch=8, batches=3, repeats=1).run(tmp_path)
    result = json.loads((tmp_path / "sampler.json").read_text())
    assert all(speed > 0 for speed in result["results"]["batches per second"].values())
    assert "1800 edges" in text
