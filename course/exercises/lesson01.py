"""Lesson 01: count what a model's training holds, and find the largest model that fits."""

from __future__ import annotations

import secrets
from typing import Any

from course.exercises.exercise import Exercise, Play, Refused, Status, Verdict, WrongAnswer
from course.judge.plain import Other
from course.judge.ranks import Case
from minipar.mesh import Mesh
from minipar.model import GPT, GPTConfig
from minipar.plan import Model, Numbers
from minipar.plan.activations import kept, unfused
from minipar.words import _

LESSON = "01-memory"
MIXED = 16  # bytes a parameter: Rajbhandari et al. 2020, section 3.1
HALF = 2  # bytes of a number in half precision


def number_of(got: Any, where: str) -> float:
    """The number that an answer returned; `Refused` where it is none."""
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        kind = got.kind if isinstance(got, Other) else type(got).__name__
        message = _("{where}: a number was expected, but your function returned {kind}.")
        raise Refused(Status.WRONG_SHAPE, message.format(where=where, kind=kind))
    return got


def same_number(got: Any, want: int, where: str) -> None:
    """Raise `Refused` where an answer is not this number."""
    if number_of(got, where) != want:
        message = _("{where}: your function returns {got:,}, but it should be {want:,}.")
        raise Refused(Status.WRONG_VALUE, message.format(where=where, got=got, want=want))


def _between(least: int, most: int) -> int:
    return least + secrets.randbelow(most - least + 1)


def examine_count(play: Play) -> Verdict:
    """Compare with the parameters of three real models of sizes drawn at random."""
    for _again in range(3):
        config = GPTConfig(
            vocabulary=_between(50, 300),
            sequence=_between(16, 80),
            hidden=4 * _between(3, 12),
            layers=_between(1, 5),
        )
        sizes = config.vocabulary, config.sequence, config.hidden, config.layers
        (outcome,) = play(Case((sizes,))).outcomes
        weights = sum(weight.numel() for weight in GPT(config, Mesh()).parameters())
        same_number(outcome.value, MIXED * weights, "training_bytes({}, {}, {}, {})".format(*sizes))
    return Verdict(Status.PASSED, _("The bytes of three real models, to the last one."))


def training_bytes(vocabulary: int, sequence: int, hidden: int, layers: int) -> int:
    """The solution: count the vectors and matrices, sixteen bytes each entry."""
    matrices = (3 + 1 + 4 + 4) * hidden**2
    biases = hidden + 4 * hidden + hidden
    norms = 2 * 2 * hidden
    ends = 2 * vocabulary * hidden + sequence * hidden + 2 * hidden
    weights = ends + layers * (matrices + biases + norms)
    return 16 * weights


def _without_head(vocabulary: int, sequence: int, hidden: int, layers: int) -> int:
    weights = vocabulary * hidden + sequence * hidden + 2 * hidden + layers * (12 * hidden**2 + 10 * hidden)
    return 16 * weights


def _weights_alone(vocabulary: int, sequence: int, hidden: int, layers: int) -> int:
    weights = 2 * vocabulary * hidden + sequence * hidden + 2 * hidden + layers * (12 * hidden**2 + 10 * hidden)
    return 2 * weights


def _matrices_alone(vocabulary: int, sequence: int, hidden: int, layers: int) -> int:
    return 16 * (2 * vocabulary * hidden + sequence * hidden + 12 * layers * hidden**2)


def _in_words(vocabulary: int, sequence: int, hidden: int, layers: int) -> str:
    return f"{16 * 12 * layers * hidden**2} bytes"


COUNT_BYTES = Exercise(
    name="count-bytes",
    lesson=LESSON,
    examine=examine_count,
    hints=(
        _("Count the parameters first, in three parts: before the blocks, in one block, after the blocks."),
        _("The four matrices of a block have 3 + 1 + 4 + 4 = 12 times `hidden ** 2` entries. Biases: 6 · hidden."),
        _("The two norms of a block have 4 · hidden entries, the last norm 2 · hidden. Then 16 bytes for each."),
    ),
    solution=training_bytes,
    wrong=(
        WrongAnswer(_without_head, Status.WRONG_VALUE),
        WrongAnswer(_weights_alone, Status.WRONG_VALUE),
        WrongAnswer(_matrices_alone, Status.WRONG_VALUE),
        WrongAnswer(_in_words, Status.WRONG_SHAPE),
    ),
)


def bytes_of_a_block(sequence: int, samples: int, hidden: int, heads: int) -> float:
    """States and activations of one block, by the library: without its vectors, attention not fused."""
    model = Model(1, hidden, heads, 1, sequence)
    weights = sum(wide * out for wide, out in model.matrices())
    return MIXED * weights + samples * sequence * kept(unfused(model), Numbers(), HALF * hidden)


def _sizes(kind: str) -> tuple[int, int, int, int]:
    """Sequence, samples, hidden, heads at random: of long samples activations weigh most, of wide ones states."""
    if kind == "long":
        heads = _between(8, 16)
        return _between(2000, 4000), _between(4, 8), heads * 64, heads
    heads = _between(16, 24)
    return _between(100, 300), 1, heads * 128, heads


def examine_most(play: Play) -> Verdict:
    """Compare on rooms for many blocks, and on one that is too small for a single block."""
    for kind, blocks in (("long", 0.7), ("long", _between(60, 90) + 0.5), ("wide", _between(60, 90) + 0.5)):
        sizes = _sizes(kind)
        block = bytes_of_a_block(*sizes)
        arguments = int(block * blocks), *sizes
        (outcome,) = play(Case((arguments,))).outcomes
        same_number(outcome.value, int(blocks), "most_blocks({}, {}, {}, {}, {})".format(*arguments))
    return Verdict(Status.PASSED, _("Right for every size, and for a room that is too small for a single block."))


def most_blocks(room: int, sequence: int, samples: int, hidden: int, heads: int) -> int:
    """The solution: what one block takes, and how often that goes into the room."""
    states = 16 * 12 * hidden**2
    activations = sequence * samples * hidden * (34 + 5 * heads * sequence / hidden)
    return int(room // (states + activations))


def _no_activations(room: int, sequence: int, samples: int, hidden: int, heads: int) -> int:
    return int(room // (16 * 12 * hidden**2))


def _no_attention(room: int, sequence: int, samples: int, hidden: int, heads: int) -> int:
    return int(room // (16 * 12 * hidden**2 + 34 * sequence * samples * hidden))


def _weights_in_half_precision(room: int, sequence: int, samples: int, hidden: int, heads: int) -> int:
    activations = sequence * samples * hidden * (34 + 5 * heads * sequence / hidden)
    return int(room // (2 * 12 * hidden**2 + activations))


def _at_least_one(room: int, sequence: int, samples: int, hidden: int, heads: int) -> int:
    block = 16 * 12 * hidden**2 + sequence * samples * hidden * (34 + 5 * heads * sequence / hidden)
    return max(1, int(room // block))


def _not_whole(room: int, sequence: int, samples: int, hidden: int, heads: int) -> float:
    block = 16 * 12 * hidden**2 + sequence * samples * hidden * (34 + 5 * heads * sequence / hidden)
    return room / block


MOST_BLOCKS = Exercise(
    name="most-blocks",
    lesson=LESSON,
    examine=examine_most,
    hints=(
        _("What does one block take, in bytes? It has two parts: states, and activations."),
        _("The states are 16 bytes for each of 12 · hidden² weights. The activations are in the text above."),
        _("How often does a block go into the room? `//` divides and rounds down; `int` makes the result whole."),
    ),
    solution=most_blocks,
    wrong=(
        WrongAnswer(_no_activations, Status.WRONG_VALUE),
        WrongAnswer(_no_attention, Status.WRONG_VALUE),
        WrongAnswer(_weights_in_half_precision, Status.WRONG_VALUE),
        WrongAnswer(_at_least_one, Status.WRONG_VALUE),
        WrongAnswer(_not_whole, Status.WRONG_VALUE),
    ),
)
