"""Training: replicas, mixed precision, the optimizer, data, checkpoints, and the trainer that joins them."""

from minipar.train.buckets import Buckets
from minipar.train.checkpoint import Checkpoint, CheckpointError, export
from minipar.train.data import ByteText
from minipar.train.optimizer import Optimizer, Update
from minipar.train.rate import rate_at
from minipar.train.recipe import Precision, Recipe
from minipar.train.scale import LossScale
from minipar.train.trainer import Data, Diverged, StepReport, Trainer

__all__ = [
    "Buckets",
    "ByteText",
    "Checkpoint",
    "CheckpointError",
    "Data",
    "Diverged",
    "LossScale",
    "Optimizer",
    "Precision",
    "Recipe",
    "StepReport",
    "Trainer",
    "Update",
    "export",
    "rate_at",
]
