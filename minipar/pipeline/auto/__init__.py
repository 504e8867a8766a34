"""A search for the fastest schedule within a memory limit."""

from minipar.pipeline.auto.search import auto

__all__ = ["auto"]
