"""Layers for PyTorch: networks whose answers satisfy rules and limits (extra `learn`)."""

from cmpe.torch.layer import Layer, LayerDistribution
from cmpe.torch.perturbed import FenchelYoung

__all__ = ["FenchelYoung", "Layer", "LayerDistribution"]
