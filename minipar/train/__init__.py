"""Training: what a run is fed with, and how its gradients are summed."""

from minipar.train.data import ByteText
from minipar.train.optimizer import MainGradients

__all__ = ["ByteText", "MainGradients"]
