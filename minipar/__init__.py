"""Model and pipeline parallelism, small enough to read: tensor splits, pipeline stages, schedules and what they cost."""

from minipar.mesh import Mesh
from minipar.rank import report
from minipar.world import RankFailed, RankTimeout, run

__all__ = ["Mesh", "RankFailed", "RankTimeout", "report", "run"]
