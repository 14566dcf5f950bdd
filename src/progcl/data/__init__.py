"""Graphs: named data sets, users' files, and one way to make them ready."""

from progcl.data.datasets import load_data, load_dataset
from progcl.data.synthetic import csbm, digits

__all__ = ["csbm", "digits", "load_data", "load_dataset"]
