"""The texts of quizzes: Markdown with formulas, as a tree of elements for the page and as styled text for a terminal.

Nothing that comes from here is HTML. The page makes each element by its name, from a list of its own, and puts every
string in as text; so whatever a quiz file says, it cannot bring markup or script. Raw HTML, links and pictures are not
read: they show as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from rich.text import Text

from course.quiz import formula
from course.quiz.node import Child, Node

RULES = ["paragraph", "fence", "list", "emphasis", "backticks", "escape", "newline", "balance_pairs", "fragments_join"]
TAGS = frozenset(["p", "code", "pre", "strong", "em", "ul", "ol", "li", "br"])
MATH_TAGS = frozenset(["math", "mrow", "mi", "mn", "mo", "mtext", "mfrac", "msqrt", "msub", "msup", "msubsup"])


def _math(state: StateInline, silent: bool) -> bool:
    """``$…$`` is a formula, with no blank inside its dollar signs and no digit behind them: "$5 and $6" is none."""
    if state.src[state.pos] != "$":
        return False
    end = state.src.find("$", state.pos + 1, state.posMax)
    inside = state.src[state.pos + 1 : end]
    if end < 0 or not inside or inside != inside.strip() or state.src[end + 1 : end + 2].isdigit():
        return False
    if not silent:
        state.push("math", "math", 0).content = inside
    state.pos = end + 1
    return True


def _reader() -> MarkdownIt:
    reader = MarkdownIt("zero", {"html": False, "linkify": False, "maxNesting": 20}).enable(RULES)
    reader.inline.ruler.push("math", _math)
    return reader


_READER = _reader()


def parse(text: str) -> tuple[Node, ...]:
    """The blocks of a text: paragraphs, lists, code. `ValueError` for a formula that cannot be read."""
    return tuple(child for child in _tree(_READER.parse(text)) if isinstance(child, Node))


def inline(text: str) -> tuple[Child, ...]:
    """As `parse`; but a text of one paragraph, such as a choice, comes without its paragraph."""
    blocks = parse(text)
    return blocks[0].of if len(blocks) == 1 and blocks[0].tag == "p" else blocks


def _tree(tokens: Sequence[Token]) -> tuple[Child, ...]:
    levels: list[tuple[str, list[Child]]] = [("", [])]
    for token in tokens:
        if token.nesting == 1:
            levels.append((token.tag, []))
        elif token.nesting == -1:
            tag, children = levels.pop()
            hidden = token.hidden  # the paragraphs of a list without blank lines
            levels[-1][1].extend(children if hidden else [Node(tag, tuple(children))])
        else:
            levels[-1][1].extend(_leaf(token))
    return tuple(levels[0][1])


def _leaf(token: Token) -> Iterator[Child]:
    if token.type == "inline":
        yield from _tree(token.children or [])
    elif token.type == "math":
        yield formula.parse(token.content)
    elif token.type == "code_inline":
        yield Node("code", (token.content,))
    elif token.type in ("fence", "code_block"):
        yield Node("pre", (token.content.rstrip("\n"),))
    elif token.type == "hardbreak":
        yield Node("br")
    elif token.type == "softbreak":
        yield " "
    elif token.content:
        yield token.content


STYLES = {"strong": "bold", "em": "italic", "code": "cyan", "pre": "cyan"}


def for_terminal(text: str) -> Text:
    """The text as it stands in a terminal. It carries no escape codes: rich puts them in for the styles alone."""
    blocks = [_terminal(block, 0) for block in parse(text)]
    return Text("\n").join(blocks)


def _terminal(child: Child, depth: int) -> Text:
    if isinstance(child, str):
        return Text(child)
    if child.tag == "math":
        return Text(formula.plain(child))
    if child.tag == "br":
        return Text("\n")
    if child.tag in ("ul", "ol"):
        return Text("\n").join(_items(child, depth))
    if child.tag == "pre":
        return Text("\n".join("    " + line for part in child.of for line in str(part).split("\n")), STYLES["pre"])
    inside = Text.assemble(*(_terminal(part, depth + 1) for part in child.of))
    inside.stylize(STYLES.get(child.tag, ""))
    return inside


def _items(block: Node, depth: int) -> Iterator[Text]:
    for i, item in enumerate(block.of, 1):
        mark = f"{i}. " if block.tag == "ol" else "• "
        yield Text("  " * (depth + 1) + mark) + _terminal(item, depth + 1)
