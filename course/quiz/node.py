"""A piece of rendered text: an element with its children, never a string of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Node:
    """An element; `of` is what is in it: elements, and strings that are text and nothing else."""

    tag: str
    of: tuple[Node | str, ...] = ()


Child: TypeAlias = "Node | str"


def for_page(children: Iterable[Child]) -> list[Any]:
    """The tree as JSON for a page: a string, or a list of the tag and what is in it."""
    return [child if isinstance(child, str) else [child.tag, *for_page(child.of)] for child in children]


def tags(children: Sequence[Child]) -> set[str]:
    """Every tag in the tree."""
    return {tag for child in children if isinstance(child, Node) for tag in {child.tag, *tags(child.of)}}
