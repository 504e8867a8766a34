"""Model and pipeline parallelism, small enough to read: splits, stages, schedules and what they cost."""

from minipar.mesh import Mesh
from minipar.rank import report
from minipar.world import RankFailed, RankTimeout, run

__all__ = ["Mesh", "RankFailed", "RankTimeout", "report", "run"]
