"""What a run has learned and fitted, in one file: other graphs are embedded by it, in the same space."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch_geometric.data import Data

from progcl.checksums import REWRITE
from progcl.config.load import change_miner, from_dict, to_dict
from progcl.config.schema import Config
from progcl.data.datasets import FILE, OWN, load_data
from progcl.data.schema import FeatureSchema
from progcl.data.walk_factors import WalkFactors
from progcl.errors import InputError
from progcl.graph.hop_features import HopFeatures, make_pca
from progcl.graph.loader import GraphLoader
from progcl.losses import InfoNCE
from progcl.methods import Context, Method, make_method
from progcl.precision import single_precision
from progcl.training import checkpoint
from progcl.training.alignment import Alignment
from progcl.training.checkpoint import State, below
from progcl.training.choice import Choice
from progcl.training.device import choose_device, move
from progcl.training.files import Embeddings, load_embeddings
from progcl.training.model_file import REMAKE, require_model
from progcl.training.output import Output


@dataclass(frozen=True)
class Model:
    """A trained method, and all that was fitted to the training graph.

    Attributes:
        config: of the run
        schema: how nodes got their features
        weights: of the method, without its losses
        directions: projection of the features for the encoder [features, rank]; None if it reads them as they are
        output: what becomes of the learned vectors
    """

    config: Config
    schema: FeatureSchema
    weights: dict[str, Tensor]
    directions: Tensor | None
    output: Output

    @property
    def is_trained(self) -> bool:
        """Whether the embeddings hold learned vectors."""
        return self.output.weight > 0

    @single_precision()
    def embed(self, data: Data) -> Tensor:
        """Embeddings [N, D] of a graph that `schema` has prepared, on the CPU."""
        data = move(data, choose_device(self.config.train.device))
        config = change_miner(self.config, "none")
        graph = GraphLoader(config, self.directions, directed=self.schema.directed).graph(data)
        method = make_method(Context(config, data, graph, lambda: graph)).to(data.edge_index.device).eval()
        load_weights(method, self.weights)
        with torch.no_grad():
            learned = method.embed(graph).detach()
        return self.output.apply(learned, data).cpu()

    def state(self) -> State:
        """Tensors and plain values, as a checkpoint holds them."""
        walks, output = self.schema.walks or self.output.walks, self.output
        tensors = {f"weights.{name}": value.cpu() for name, value in self.weights.items()}
        tensors |= {"directions": self.directions.cpu()} if self.directions is not None else {}
        tensors |= {f"walks.{name}": value for name, value in (_walk_tensors(walks) if walks else {}).items()}
        tensors |= {f"output.{name}": value.cpu() for name, value in _output_tensors(output).items()}
        values = {
            "config": to_dict(self.config),
            "schema": self.schema.to_dict(),
            "structural": self.schema.walks is not None,
            "walks": {"log_degree": walks.log_degree, "graph": walks.graph} if walks else None,
            "output": _output_values(output),
        }
        return tensors, values

    @classmethod
    def from_state(cls, state: State, source: str, allow_code: bool | Collection[str] = False) -> Model:
        """What `state` returned; classes of your own are imported if `allow_code` says so."""
        tensors, values = state
        config = from_dict(values["config"], source, allow_code)
        walks = _make_walks(below("walks.", tensors), values["walks"]) if values["walks"] else None
        structural = values["structural"]
        return cls(
            config,
            FeatureSchema.from_dict(values["schema"], walks if structural else None),
            below("weights.", tensors),
            tensors.get("directions"),
            _make_output(below("output.", tensors), values["output"], None if structural else walks),
        )

    def save(self, path: Path) -> None:
        """Write a safetensors file with a checksum."""
        checkpoint.save(path, self.state())

    @classmethod
    def load(cls, run: Path, allow_code: bool | Collection[str] = False) -> Model:
        """The model in the folder of a run.

        Raises:
            InputError: if there is none, or if it is damaged
        """
        path = require_model(run, allow_code)
        return read_model(path, checkpoint.load(path, REWRITE), allow_code)


def read_model(path: Path, state: State, allow_code: bool | Collection[str] = False) -> Model:
    """The model in the state that a file holds; raise `InputError` if it holds something else."""
    try:
        return Model.from_state(state, str(path), allow_code)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"`{path}` holds no model that this version reads ({error!r})", REMAKE) from None


class Start(NamedTuple):
    """The model of an earlier run, which training starts from, and the embeddings that new ones are rotated onto."""

    model: Model
    embeddings: Embeddings

    @classmethod
    def load(cls, config: Config) -> Start | None:
        """What `train.start_from` names."""
        if config.train.start_from is None:
            return None
        run = Path(config.train.start_from)
        return cls(Model.load(run), load_embeddings(run / "embeddings.npz"))


def load_input(config: Config, start: Start) -> Data:
    """The graph of a run that starts from another, with features made as there.

    Raises:
        InputError: if links are to be held out, which the earlier run has seen, or if features are others
    """
    if config.data.holdout:
        raise InputError("the earlier run may have seen links that are held out now", "leave out --from, or --evaluate")
    schema = start.model.schema
    if schema.walks is None or start.model.is_trained:
        return schema.load(config.data)
    data = load_data(config.data)  # no weights depend on the earlier walk vectors: new ones know all nodes
    if not data.structural:
        raise InputError("the graph has features, that of the earlier run had none", "leave out --from or these")
    return data


def can_transform(config: Config) -> bool:
    """Whether other graphs can be embedded by what a run learns: then it keeps a model."""
    is_own_graph = config.data.name in (FILE, OWN)
    supports = config.method.supports
    return is_own_graph and "inductive" in supports and "images" not in supports and not config.method.needs_labels


def load_weights(method: Method, weights: Mapping[str, Tensor]) -> None:
    """Load all weights but those of the losses; raise `InputError` if they are of another network."""
    own = {name: value.shape for name, value in method_weights(method).items()}
    if own != {name: value.shape for name, value in weights.items()}:
        hint = "method, encoder and features need to be those of the earlier run"
        raise InputError("the weights of the earlier run do not fit", hint)
    method.load_state_dict(dict(weights), strict=False)


def method_weights(method: Method) -> dict[str, Tensor]:
    """Parameters and buffers of a method, without those of its losses and their miners."""
    losses = tuple(f"{name}." for name, module in method.named_modules() if isinstance(module, InfoNCE))
    return {name: value.detach() for name, value in method.state_dict().items() if not name.startswith(losses)}


def _walk_tensors(walks: WalkFactors) -> dict[str, Tensor]:
    names = torch.frombuffer(bytearray(json.dumps(walks.names).encode()), dtype=torch.uint8)
    return {"names": names, **{key: getattr(walks, key) for key in ("vectors", "contexts", "frequency")}}


def _make_walks(tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> WalkFactors:
    names = json.loads(tensors["names"].numpy().tobytes())
    vectors, contexts, frequency = (tensors[key] for key in ("vectors", "contexts", "frequency"))
    return WalkFactors(names, vectors, contexts, frequency, tuple(values["log_degree"]), values["graph"])


def _output_tensors(output: Output) -> dict[str, Tensor]:
    """Tensors of an output, but for its walks."""
    features = output.features
    tensors = {"center": output.center, **({"rotation": output.alignment.rotation} if output.alignment else {})}
    tensors |= {"directions": features.directions} if features else {}
    for name, pca in {"pca": output.pca, "hops_pca": features.pca if features else None}.items():
        if pca is not None:
            tensors |= {f"{name}.mean": torch.from_numpy(pca.mean_)}
            tensors |= {f"{name}.components": torch.from_numpy(pca.components_)}
    return tensors


def _output_values(output: Output) -> dict[str, Any]:
    return {
        "smooth": list(output.smooth),
        "weight": output.weight,
        "hops": list(output.features.hops) if output.features else None,
        "directed": output.features is not None and output.features.directed,
        "choice": output.choice and asdict(output.choice),
        "not_judged": output.not_judged,
        "cost": output.cost,
        "alignment": output.alignment and output.alignment.facts,
    }


def _make_output(tensors: Mapping[str, Tensor], values: Mapping[str, Any], walks: WalkFactors | None) -> Output:
    def pca(name: str) -> PCA | None:
        mean = tensors.get(f"{name}.mean")
        return None if mean is None else make_pca(mean, tensors[f"{name}.components"])

    hops, directed, rotation = values["hops"], values["directed"], tensors.get("rotation")
    return Output(
        center=tensors["center"],
        smooth=tuple(values["smooth"]),
        weight=values["weight"],
        features=None if hops is None else HopFeatures(tuple(hops), tensors["directions"], pca("hops_pca"), directed),
        walks=walks,
        pca=pca("pca"),
        alignment=None if rotation is None else Alignment(rotation, values["alignment"]),
        choice=Choice(**values["choice"]) if values["choice"] else None,
        not_judged=values["not_judged"],
        cost=values["cost"],
    )
