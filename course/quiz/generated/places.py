"""Questions about the mesh: global ranks, coordinates and groups."""

from __future__ import annotations

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.mesh import Coords, coords, rank_of
from minipar.words import _


def _sizes(dice: Dice) -> tuple[int, int, int]:
    """Degrees pp, dp and tp, not all alike."""
    sizes = [2, dice.pick((3, 4)), dice.pick((2, 4, 8))]
    pp, dp, tp = dice.shuffled(sizes)
    return pp, dp, tp


def _ranks(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks))


def _where(at: Coords) -> str:
    return f"pp={at.pp}, dp={at.dp}, tp={at.tp}"


def rank_at(dice: Dice) -> Problem:
    """The global rank at some coordinates."""
    pp, dp, tp = _sizes(dice)
    at = Coords(dice.below(pp), dice.below(dp), dice.below(tp))
    return Problem(
        _("A mesh of pp={pp}, dp={dp}, tp={tp}, tp innermost and pp outermost. Which global rank is at {at}?").format(
            pp=pp, dp=dp, tp=tp, at=_where(at)
        ),
        keys.global_rank(at.pp, at.dp, at.tp, dp, tp),
        (
            Distractor((at.tp * dp + at.dp) * pp + at.pp, _("That is with pp innermost.")),
            Distractor((at.dp * pp + at.pp) * tp + at.tp, _("That is with dp outermost.")),
            Distractor((at.pp * tp + at.tp) * dp + at.dp, _("That is with dp innermost.")),
            Distractor(at.pp + at.dp + at.tp, _("A step along an outer axis jumps over all ranks of the inner ones.")),
        ),
        _("$(pp \\cdot DP + dp) \\cdot TP + tp = ({p} \\cdot {dps} + {d}) \\cdot {tps} + {t}$.").format(
            p=at.pp, dps=dp, d=at.dp, tps=tp, t=at.tp
        ),
    )


def place_of(dice: Dice) -> Problem:
    """The coordinates of a global rank."""
    pp, dp, tp = _sizes(dice)
    rank = dice.below(pp * dp * tp)
    at = coords(rank, dp, tp)
    return Problem(
        _("A mesh of pp={pp}, dp={dp}, tp={tp}, tp innermost and pp outermost. Where is global rank {rank}?").format(
            pp=pp, dp=dp, tp=tp, rank=rank
        ),
        _where(at),
        (
            Distractor(_where(Coords(rank % pp, rank // pp % dp, rank // (pp * dp))), _("That is with pp innermost.")),
            Distractor(_where(Coords(rank // tp % pp, rank // (pp * tp), rank % tp)), _("That is with dp outermost.")),
            Distractor(_where(Coords(rank // (dp * tp), rank % dp, rank // dp % tp)), _("That is with dp innermost.")),
        ),
        _(
            "tp is the rest by {tps}: {t}; of the quotient dp is the rest by {dps}: {d}; what is left is pp: {p}."
        ).format(tps=tp, t=at.tp, dps=dp, d=at.dp, p=at.pp),
    )


def tensor_group(dice: Dice) -> Problem:
    """The ranks that share a layer with a given one."""
    pp, dp, tp = _sizes(dice)
    rank = dice.below(pp * dp * tp)
    at = coords(rank, dp, tp)
    groups = {
        "tp": [rank_of(at._replace(tp=i), dp, tp) for i in range(tp)],
        "dp": [rank_of(at._replace(dp=i), dp, tp) for i in range(dp)],
        "pp": [rank_of(at._replace(pp=i), dp, tp) for i in range(pp)],
    }
    return Problem(
        _(
            "A mesh of pp={pp}, dp={dp}, tp={tp}, tp innermost and pp outermost. Which ranks share the layers of "
            "rank {rank} (its tensor group)?"
        ).format(pp=pp, dp=dp, tp=tp, rank=rank),
        _ranks(groups["tp"]),
        (
            Distractor(_ranks(groups["dp"]), _("Those are its replicas: they hold the same, for other samples.")),
            Distractor(_ranks(groups["pp"]), _("Those are the stages of its pipeline: they hold other layers.")),
            Distractor(
                _ranks([at.tp + tp * i for i in range(tp)]), _("Those have the same place in their tensor group.")
            ),
        ),
        _("tp is innermost, so a tensor group is {tp} ranks in a row, from a multiple of {tp} on.").format(tp=tp),
    )


MAKERS = (rank_at, place_of, tensor_group)
