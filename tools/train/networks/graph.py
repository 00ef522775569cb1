"""Graph attention and graph pooling layers of AASIST (arXiv 2110.01200, sections 2.2 and 3; arXiv 1710.10903).

Nodes are (b, n, d) throughout. Parameter names are those of the official checkpoints.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _normalise(bn: nn.BatchNorm1d, nodes: Tensor) -> Tensor:
    """Batch normalisation over all nodes of all graphs."""
    result: Tensor = bn(nodes.flatten(0, 1)).view(nodes.shape)
    return result


def _attention_vector(size: int) -> nn.Parameter:
    vector = nn.Parameter(torch.empty(size, 1))
    nn.init.xavier_normal_(vector)
    return vector


class GraphAttention(nn.Module):
    """Attention over a fully connected graph: (b, n, d) to (b, n, e)."""

    def __init__(self, dim_in: int, dim_out: int, temperature: float, dropout: float) -> None:
        super().__init__()
        self.att_proj = nn.Linear(dim_in, dim_out)
        self.att_weight = _attention_vector(dim_out)
        self.proj_with_att = nn.Linear(dim_in, dim_out)
        self.proj_without_att = nn.Linear(dim_in, dim_out)
        self.bn = nn.BatchNorm1d(dim_out)
        self.temperature = temperature
        self.dropout = dropout

    def forward(self, nodes: Tensor) -> Tensor:
        nodes = F.dropout(nodes, self.dropout, self.training)
        pairs = nodes.unsqueeze(2) * nodes.unsqueeze(1)
        scores = torch.tanh(self.att_proj(pairs)) @ self.att_weight
        weights = torch.softmax(scores.squeeze(-1) / self.temperature, dim=-1)
        mixed = self.proj_with_att(weights @ nodes) + self.proj_without_att(nodes)
        return F.selu(_normalise(self.bn, mixed))


class HeterogeneousGraphAttention(nn.Module):
    """Attention over temporal (type 1) and spectral (type 2) nodes and a master node that reads them all.

    (b, n, d), (b, m, d), (b, 1, d) to the same with e in place of d.
    """

    def __init__(self, dim_in: int, dim_out: int, temperature: float, dropout: float) -> None:
        super().__init__()
        self.proj_type1 = nn.Linear(dim_in, dim_in)
        self.proj_type2 = nn.Linear(dim_in, dim_in)
        self.att_proj = nn.Linear(dim_in, dim_out)
        self.att_projM = nn.Linear(dim_in, dim_out)
        self.att_weight11 = _attention_vector(dim_out)
        self.att_weight22 = _attention_vector(dim_out)
        self.att_weight12 = _attention_vector(dim_out)
        self.att_weightM = _attention_vector(dim_out)
        self.proj_with_att = nn.Linear(dim_in, dim_out)
        self.proj_without_att = nn.Linear(dim_in, dim_out)
        self.proj_with_attM = nn.Linear(dim_in, dim_out)
        self.proj_without_attM = nn.Linear(dim_in, dim_out)
        self.bn = nn.BatchNorm1d(dim_out)
        self.temperature = temperature
        self.dropout = dropout

    def forward(self, temporal: Tensor, spectral: Tensor, master: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count = temporal.shape[1]
        nodes = torch.cat((self.proj_type1(temporal), self.proj_type2(spectral)), dim=1)
        nodes = F.dropout(nodes, self.dropout, self.training)
        weights = torch.softmax(self._pair_scores(nodes, count) / self.temperature, dim=-1)
        mixed = self.proj_with_att(weights @ nodes) + self.proj_without_att(nodes)

        reading = torch.tanh(self.att_projM(nodes * master)) @ self.att_weightM
        reading = torch.softmax(reading / self.temperature, dim=-2)
        gathered = reading.transpose(1, 2) @ nodes
        master = self.proj_with_attM(gathered) + self.proj_without_attM(master)

        mixed = F.selu(_normalise(self.bn, mixed))
        return mixed[:, :count], mixed[:, count:], master

    def _pair_scores(self, nodes: Tensor, count: int) -> Tensor:
        """Attention scores (b, n + m, n + m): one vector within each type, a third between the types."""
        pairs = torch.tanh(self.att_proj(nodes.unsqueeze(2) * nodes.unsqueeze(1)))
        within_1 = pairs[:, :count, :count] @ self.att_weight11
        within_2 = pairs[:, count:, count:] @ self.att_weight22
        upper = torch.cat((within_1, pairs[:, :count, count:] @ self.att_weight12), dim=2)
        lower = torch.cat((pairs[:, count:, :count] @ self.att_weight12, within_2), dim=2)
        return torch.cat((upper, lower), dim=1).squeeze(-1)


class GraphPool(nn.Module):
    """Keeps the share ``ratio`` of nodes that score best, each scaled by its score: (b, n, d) to (b, k, d)."""

    def __init__(self, ratio: float, dim: int, dropout: float) -> None:
        super().__init__()
        self.proj = nn.Linear(dim, 1)
        self.ratio = ratio
        self.dropout = dropout

    def forward(self, nodes: Tensor) -> Tensor:
        scores = torch.sigmoid(self.proj(F.dropout(nodes, self.dropout, self.training)))
        keep = max(int(nodes.shape[1] * self.ratio), 1)
        best = scores.topk(keep, dim=1).indices.expand(-1, -1, nodes.shape[2])
        return (nodes * scores).gather(1, best)
