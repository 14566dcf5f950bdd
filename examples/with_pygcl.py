"""A progcl miner in PyGCL's `DualBranchContrast`.

Needs `pip install PyGCL`, and dgl, torch_scatter and torch_sparse, which PyGCL imports.

python examples/with_pygcl.py
"""

import torch
from GCL.models import DualBranchContrast
from torch import nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import dropout_edge, mask_feature

from progcl import ProGCLWeight
from progcl.data.synthetic import csbm
from progcl.pygcl import MinedInfoNCE


class Encoder(nn.Module):
    """Two layers of GCN."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.first = GCNConv(features, hidden)
        self.second = GCNConv(hidden, hidden)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Embeddings [N, hidden]."""
        hidden: torch.Tensor = self.second(self.first(x, edge_index).relu(), edge_index)
        return hidden


def main() -> None:
    """Train for some epochs, before and after epoch E."""
    torch.manual_seed(0)
    data = csbm(nodes=500, degree=10, homophily=0.8, signal=2)
    encoder = Encoder(data.x.size(1), 32)
    loss = MinedInfoNCE(tau=0.4, miner=ProGCLWeight(start_epoch=10))
    contrast = DualBranchContrast(loss=loss, mode="L2L", intraview_negs=True)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.005)
    for epoch in range(1, 21):
        loss.set_epoch(epoch)
        views = []
        for rate in (0.2, 0.3):
            edges, _ = dropout_edge(data.edge_index, rate)
            features, _ = mask_feature(data.x, rate)
            views.append(encoder(features, edges))
        value = contrast(*views)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    print(f"loss {value.item():.3f}; {loss.criterion.miner}")


if __name__ == "__main__":
    main()
