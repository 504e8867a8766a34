"""Training: what a run is fed with."""

from minipar.train.data import ByteText

__all__ = ["ByteText"]
