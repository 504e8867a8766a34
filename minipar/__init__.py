"""Model and pipeline parallelism, small enough to read: splits, stages, schedules and what they cost."""

from typing import TYPE_CHECKING

from minipar.lazy import at_first_use

if TYPE_CHECKING:
    from minipar.mesh import Mesh
    from minipar.rank import report
    from minipar.world import RankFailed, RankTimeout, run

__all__ = ["Mesh", "RankFailed", "RankTimeout", "report", "run"]

at_first_use(__name__, mesh=["Mesh"], rank=["report"], world=["RankFailed", "RankTimeout", "run"])
