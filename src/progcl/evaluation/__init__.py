"""Linear evaluation of frozen embeddings."""

from progcl.evaluation.probe import linear_probe
from progcl.evaluation.scores import Score

__all__ = ["Score", "linear_probe"]
