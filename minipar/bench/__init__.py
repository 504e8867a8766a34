"""Benchmarks: speed as a ratio, both sides alternating in one run on the same ranks, one thread each."""
