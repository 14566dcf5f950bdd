"""Small stories to report on, and the coordinates of their charts."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import numpy as np

from progcl.evaluation.scores import Score
from progcl.report.mixture import MixturePlot
from progcl.report.story import Story

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"'&{{data}}\u2028 節点"


def make_story(nodes: int = 60, width: int = 8, **changed: Any) -> Story:
    """A run on three groups of nodes, with every field of a story; `changed` replaces some of them."""
    rng = np.random.default_rng(0)
    classes = np.arange(nodes) % 3
    embeddings = rng.standard_normal((3, width))[classes] + 0.3 * rng.standard_normal((nodes, width))
    story = Story(
        title="toy · GRACE + progcl-weight",
        facts={"graph": f"{nodes} nodes", "time": "1 s"},
        warnings=["2 nodes have no neighbors"],
        losses=[7.0, 6.0, 5.5, 5.2],
        start_epoch=2,
        mixture=make_mixture(),
        embeddings=embeddings.astype(np.float32),
        ids=[f"node-{index:03d}" for index in range(nodes)],
        labels=[f"class {index}" for index in classes],
        scores={"raw features": Score("clean", (50.0, 60.0)), "GRACE": Score("clean", (90.0, 92.0))},
        score=Score("clean", (90.0, 92.0)),
    )
    return replace(story, **changed)


def make_mixture() -> MixturePlot:
    """Plot data of a made-up mixture."""
    grid = np.linspace(0, 1, 50)
    low, high = np.linspace(2, 0, 20), np.linspace(0, 0.5, 20)
    return MixturePlot(
        start_epoch=2,
        density={"true negatives (by label)": low, "false negatives (by label)": high},
        grid=grid,
        fitted={"true": 2 - 2 * grid, "false": 0.5 * grid},
        probability=1 - grid,
        chances=np.full(10, 0.1),
    )


def points_of(svg: str) -> list[tuple[float, float]]:
    """The points of all lines and histograms in a chart."""
    paths = [each.get("d") or "" for each in ET.fromstring(svg) if re.match("line|area", each.get("class") or "")]
    pairs = re.findall(r"(-?[\d.]+) (-?[\d.]+)", " ".join(paths))
    return [(float(x), float(y)) for x, y in pairs]
