r"""Formulas between dollar signs: a small part of LaTeX, as MathML elements and as plain text for a terminal.

MathML is drawn by the browser itself (all of them since 2023) and read out by screen readers. So a formula needs no
script, no font and no network, and the page builds it from elements as it does everything else: it cannot be markup.

What there is: letters, numbers, operators, ``^`` and ``_``, ``\frac{a}{b}``, ``\sqrt{a}``, ``\text{words}``, and the
names in `SYMBOLS` and `FUNCTIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from course.quiz.node import Child, Node

SYMBOLS = {
    "cdot": "·", "times": "×", "div": "÷", "pm": "±", "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈", "to": "→",
    "sum": "∑", "prod": "∏", "infty": "∞", "lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋", "dots": "…",
    "partial": "∂", "nabla": "∇", "in": "∈", "top": "⊤", "quad": "\u2003", "mid": "|", "equiv": "≡",
}  # fmt: skip
GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "lambda": "λ",
    "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Delta": "Δ", "Sigma": "Σ",
}  # fmt: skip
FUNCTIONS = ("log", "ln", "exp", "min", "max", "mod")
SPACES = {"\\,": "\u2009", "\\ ": " ", "\\;": "\u2005"}
DEEPEST = 12

TOKEN = re.compile(r"\\text\s*\{[^{}\\]*\}|\\[A-Za-z]+|\\[,; {}%]|\d+(?:[.,]\d+)?|[A-Za-z]|\s+|.", re.DOTALL)


def parse(source: str) -> Node:
    """The formula as a ``math`` element; `ValueError` that names what is not understood."""
    tokens = [token for token in TOKEN.findall(source) if not token.isspace()]
    reader = _Reader(source, tokens)
    children = tuple(reader.row(until=None))
    return Node("math", children)


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, source: str, tokens: Sequence[str]) -> None:
        self.source, self.tokens, self.at, self.depth = source, tokens, 0, 0

    def row(self, until: str | None) -> Iterator[Node]:
        """Atoms with their scripts, up to the closing brace, or to the end."""
        while self.at < len(self.tokens):
            if self.tokens[self.at] == until:
                self.at += 1
                return
            yield self.scripted()
        if until is not None:
            raise self.error("a { has no }")

    def scripted(self) -> Node:
        base, scripts = self.atom(), dict[str, Node]()
        while self.at < len(self.tokens) and self.tokens[self.at] in ("^", "_"):
            mark = self.next()
            if mark in scripts:
                raise self.error(f"two {mark} at one place")
            scripts[mark] = self.atom()
        if not scripts:
            return base
        tag = {"^": "msup", "_": "msub"}[next(iter(scripts))] if len(scripts) == 1 else "msubsup"
        return Node(tag, (base, *(scripts[mark] for mark in "_^" if mark in scripts)))

    def atom(self) -> Node:
        token = self.next()
        if token == "{":
            return self.group()
        if token.startswith("\\"):
            return self.command(token)
        if token[0].isdigit():
            return Node("mn", (token,))
        if token.isalpha():
            return Node("mi", (token,))
        if token in "}^_#$&":
            raise self.error(f"{token} is at a wrong place")
        return Node("mo", ({"-": "−", "*": "·"}.get(token, token),))

    def command(self, token: str) -> Node:
        name = token[1:]
        if token in SPACES:
            return Node("mtext", (SPACES[token],))
        if name in ("{", "}", "%"):
            return Node("mo", (name,))
        if name == "frac":
            return Node("mfrac", (self.argument(), self.argument()))
        if name == "sqrt":
            return Node("msqrt", (self.argument(),))
        if token.endswith("}") and name.startswith("text"):
            return Node("mtext", (token[token.index("{") + 1 : -1],))
        if name in GREEK:
            return Node("mi", (GREEK[name],))
        if name in SYMBOLS:
            return Node("mo", (SYMBOLS[name],))
        if name in FUNCTIONS:
            return Node("mi", (name,))
        raise self.error(f"there is no {token} here")

    def argument(self) -> Node:
        if self.at >= len(self.tokens) or self.tokens[self.at] != "{":
            raise self.error("a { is missing")
        self.at += 1
        return self.group()

    def group(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"more than {DEEPEST} braces in each other")
        children = tuple(self.row(until="}"))
        self.depth -= 1
        return children[0] if len(children) == 1 else Node("mrow", children)

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise self.error("something is missing at the end")
        self.at += 1
        return self.tokens[self.at - 1]

    def error(self, what: str) -> ValueError:
        return ValueError(f"the formula ${self.source}$ cannot be read: {what}")


def plain(node: Child) -> str:
    """The formula in one line of text, such as ``(p − 1)/(m + p − 1)``."""
    if isinstance(node, str):
        return node
    parts = [plain(child) for child in node.of]
    if node.tag == "mfrac":
        return f"{_bracketed(node.of[0])}/{_bracketed(node.of[1])}"
    if node.tag == "msqrt":
        return f"√{_bracketed(node.of[0])}"
    if node.tag in ("msub", "msup", "msubsup"):
        marks = {"msub": "_", "msup": "^", "msubsup": "_^"}[node.tag]
        return parts[0] + "".join(f"{m}{_bracketed(n)}" for m, n in zip(marks, node.of[1:], strict=True))
    if node.tag in ("math", "mrow"):
        return "".join(_spaced(child, i) for i, child in enumerate(node.of)).strip().replace("  ", " ")
    return "".join(parts)


def _spaced(child: Child, place: int) -> str:
    """Operators between two things stand free."""
    text = plain(child)
    free = isinstance(child, Node) and child.tag == "mo" and text in "+−×·÷=≤≥≈≠<>→∈≡±" and place > 0
    return f" {text} " if free else text


def _bracketed(node: Child) -> str:
    text = plain(node)
    composite = isinstance(node, Node) and node.tag in ("mrow", "mfrac") and len(text) > 1
    return f"({text})" if composite else text
