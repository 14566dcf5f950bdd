"""How the nodes of a graph got their features, so that another graph is read alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_geometric.data import Data

from progcl.config.schema import DataConfig
from progcl.data.features import Feature
from progcl.data.formats import read_graph
from progcl.data.prepare import normalize_features, prepare
from progcl.data.walk_factors import WalkFactors
from progcl.errors import InputError


@dataclass(frozen=True)
class FeatureSchema:
    """What a graph's features were made of.

    Attributes:
        width: number of features
        directed: whether edges have a direction
        normalize: whether rows were scaled to absolute sum 1
        plan: how columns became features; None for numbers that were given as they are
        walks: what structural features were computed by; None if nodes have features
    """

    width: int
    directed: bool = False
    normalize: bool = False
    plan: list[Feature] | None = None
    walks: WalkFactors | None = None

    @classmethod
    def of(cls, data: Data, normalize: bool = False) -> FeatureSchema:
        """The schema of a graph that `prepare` returned."""
        plan = None if data.get("structural") else [Feature(**feature) for feature in data.get("plan") or []]
        directed = data.get("edge_forward") is not None
        walks = data.get("walks") if data.get("structural") else None
        return cls(data.x.size(1), directed, normalize, plan or None, walks)

    def load(self, config: DataConfig) -> Data:
        """The graph of a file, with features made as before."""
        return self.prepare(read_graph(**config.options(), plan=self.plan))

    def prepare(self, data: Data) -> Data:
        """A graph as `prepare` returns it, with features made as before.

        Raises:
            InputError: if its features are others, or if it has none and no node is known from before
        """
        if self.walks is not None:
            return self._prepare_structure(data, self.walks)
        if data.get("x") is None:
            needed = f"{self.width:,} were there when the embedding was made"
            raise InputError(f"the graph has no features, {needed}", "--features FILE names a table or an array")
        clean = prepare(data, self.directed)
        if clean.x.size(1) != self.width:
            given = clean.x.size(1)
            raise InputError(f"the graph has {given:,} features, not {self.width:,} as before", "give the same columns")
        return normalize_features(clean) if self.normalize else clean

    def _prepare_structure(self, data: Data, walks: WalkFactors) -> Data:
        """A graph with structural features in the space of the earlier ones."""
        bare = Data(**{key: value for key, value in data.to_dict().items() if key not in ("x", "plan", "structural")})
        bare.num_nodes = data.num_nodes
        clean = prepare(bare, self.directed, walks)
        if data.get("x") is not None and not data.get("structural"):
            clean.remarks.append("features are not used: the earlier graph had none")
        return clean

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the walks."""
        plan = None if self.plan is None else [vars(feature) for feature in self.plan]
        return {"width": self.width, "directed": self.directed, "normalize": self.normalize, "plan": plan}

    @classmethod
    def from_dict(cls, values: dict[str, Any], walks: WalkFactors | None) -> FeatureSchema:
        """What `to_dict` returned, with its walks."""
        plan = None if values["plan"] is None else [Feature(**feature) for feature in values["plan"]]
        return cls(values["width"], values["directed"], values["normalize"], plan, walks)
