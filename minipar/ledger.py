"""The ledger: which communication a rank did, on which axis, how many times, and how many bytes it was about."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from minipar.mesh import Axis


class Traffic(NamedTuple):
    """One line of the ledger.

    `bytes` is the size of the whole tensors that the operation was about, summed over the calls: the
    tensor reduced, the result of a gather, the input of a reduce-scatter, the message sent.
    `sent` is what a rank puts on the wire for them, on average, where a ring does the work: 2(n−1)/n
    times `bytes` for an all-reduce, (n−1)/n for the others (Thakur et al. 2005, §4).
    """

    operation: str
    axis: str
    ranks: int
    calls: int
    bytes: int

    @property
    def sent(self) -> float:
        """Bytes that this rank puts on the wire, by the ring algorithm's formula."""
        share = {"send": 1.0, "all-reduce": 2 * (self.ranks - 1) / self.ranks}
        return self.bytes * share.get(self.operation, (self.ranks - 1) / self.ranks)


class Ledger:
    """What one rank has sent: which operation, on which axis, how many times, how many bytes."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str, int]] = Counter()
        self._bytes: Counter[tuple[str, str, int]] = Counter()

    def record(self, operation: str, axis: Axis, size: int) -> None:
        """Note one call of `operation` on `axis` about `size` bytes."""
        key = (operation, axis.name, axis.size)
        self._calls[key] += 1
        self._bytes[key] += size

    def rows(self) -> list[Traffic]:
        """The ledger as lines, in order of first use."""
        return [Traffic(*key, calls, self._bytes[key]) for key, calls in self._calls.items()]

    @contextlib.contextmanager
    def page(self) -> Iterator[Ledger]:
        """A page that holds, once the block is over, what was noted within it."""
        page = Ledger()
        before = self._calls.copy(), self._bytes.copy()
        try:
            yield page
        finally:
            page._calls, page._bytes = self._calls - before[0], self._bytes - before[1]
