import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.lessons import ROOT
from course.quiz.node import Node, for_page, tags
from course.quiz.prose import MATH_TAGS, TAGS, for_terminal, inline, parse

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "![x](https://example.org/x.png)",
    "<https://example.org>",
    "`<b>code</b>`",
    "```\n<script>\n```",
    "```html onload=alert(1)\n<i>\n```",
    "$<b>x</b>$",
    "$\\text{<script>}$",
    "<!-- a --> <![CDATA[ x ]]>",
    "&lt;script&gt; &#60;script&#62;",
    '**<svg/onload="x">**',
    "[a]: javascript:alert(1)\n\n[a]",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_text_stays_text(text: str) -> None:
    tree = parse(text)
    assert tags(tree) <= TAGS | MATH_TAGS
    for part in strings(for_page(tree)):
        assert isinstance(part, str)
    # Nothing was taken for a link, an image or an entity: what looks like one is there to read, as it was written.
    for token in ("script", "javascript:", "onerror", "&#60;"):
        assert text.count(token) == "".join(strings(for_page(tree))).count(token)


def strings(tree: list[object], tagged: bool = False) -> list[str]:
    """All strings of a page's tree that are text: all but the first of each list within it."""
    parts = tree[1:] if tagged else tree
    return [s for part in parts for s in (strings(part, True) if isinstance(part, list) else [str(part)])]


@given(st.text(alphabet="<>&;/ab$`*_[]()!\\{}#\n-1.=\"'", max_size=60))
def test_whatever_is_written_only_known_elements_come_out(text: str) -> None:
    try:
        tree = parse(text)
    except ValueError:
        return  # a formula that cannot be read
    assert tags(tree) <= TAGS | MATH_TAGS
    assert for_terminal(text).plain is not None


def test_the_page_makes_the_same_elements_as_there_are() -> None:
    script = (ROOT / "course" / "widgets" / "quiz_text.js").read_text(encoding="utf-8")

    def listed(name: str) -> set[str]:
        found = re.search(rf"const {name} = new Set\(\[(.*?)\]\)", script)
        assert found is not None
        return set(re.findall(r'"(\w+)"', found[1]))

    assert listed("TAGS") == TAGS
    assert listed("MATH") == MATH_TAGS


@pytest.mark.parametrize("name", ["common.js", "quiz_text.js", "quiz_inputs.js", "quiz.js"])
def test_no_text_of_a_quiz_is_put_into_the_page_as_markup(name: str) -> None:
    script = (ROOT / "course" / "widgets" / name).read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser", script)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a *b* **c** `d`", "a b c d"),
        ("one\n\ntwo", "one\ntwo"),
        ("- a\n- b\n\n1. c\n2. d", "  • a\n  • b\n  1. c\n  2. d"),
        ("```\nx = 1\n  y\n```", "    x = 1\n      y"),
        ("$5 and $6", "$5 and $6"),
        (r"\$x\$", "$x$"),
        ("`$x$`", "$x$"),
        (r"$\frac{p-1}{m+p-1}$", "(p − 1)/(m + p − 1)"),
        (r"$x_i^2 + \sqrt{n}$", "x_i^2 + √n"),
        (r"$\lceil 7 / 2 \rceil = 4$", "⌈7/2⌉ = 4"),
        (r"$\text{idle time} \le \alpha \cdot \log n$", "idle time ≤ α · logn"),
    ],
)
def test_texts_can_be_read_in_a_terminal(text: str, shown: str) -> None:
    assert for_terminal(text).plain == shown


def test_a_formula_is_mathml() -> None:
    (formula,) = (child for child in inline(r"$\frac{1}{n^2}$") if isinstance(child, Node))
    assert for_page([formula]) == [["math", ["mfrac", ["mn", "1"], ["msup", ["mi", "n"], ["mn", "2"]]]]]


@pytest.mark.parametrize(
    "formula",
    [
        r"\foo",
        r"\frac{1}",
        r"\frac 1 2",
        "{",
        "}",
        "x^",
        "x^2^3",
        "^2",
        r"\text",
        "{" * 30 + "}" * 30,
        "a & b",
        "a # b",
    ],
)
def test_a_formula_that_cannot_be_read_is_an_error_that_shows_it(formula: str) -> None:
    with pytest.raises(ValueError, match=r"the formula \$"):
        parse(f"${formula}$")
