"""Questions about where a mesh's groups lie on nodes."""

from __future__ import annotations

from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.mesh import coords, rank_of
from minipar.words import _

NODE = 8  # GPUs


def nodes_of_group(dice: Dice) -> Problem:
    """Over how many nodes a rank's group on an outer axis is spread."""
    pp, dp, tp = dice.pick((2, 4, 8)), dice.pick((2, 4, 8)), dice.pick((1, 2, 4, 8))
    axis, rank = dice.pick(("dp", "pp")), dice.below(pp * dp * tp)
    at, size = coords(rank, dp, tp), {"dp": dp, "pp": pp}[axis]
    group = [rank_of(at._replace(**{axis: i}), dp, tp) for i in range(size)]
    nodes = len({one // NODE for one in group})
    step = group[1] - group[0]
    return Problem(
        _(
            "A mesh of pp={pp}, dp={dp}, tp={tp}, tp innermost and pp outermost, on nodes of {node} GPUs, which are "
            "filled in the order of the ranks. Over how many nodes is the {axis} group of rank {rank} spread?"
        ).format(pp=pp, dp=dp, tp=tp, node=NODE, axis=axis, rank=rank),
        float(nodes),
        (
            Distractor(
                float(-(-size // NODE)), _("That is so where the group's ranks have numbers beside each other.")
            ),
            Distractor(float(size), _("That is how many ranks it has. Some may share a node.")),
            Distractor(float(-(-pp * dp * tp // NODE)), _("That is how many nodes the whole mesh takes.")),
            Distractor(float(nodes + 1), _("Write down the ranks of the group, and divide each by 8.")),
            Distractor(float(2 * nodes), _("Two ranks that are less than 8 apart can share a node.")),
        ),
        _("Its ranks are {step} apart: {ranks}. Divided by {node}, without the rest, they give {nodes} nodes.").format(
            step=step, ranks=", ".join(map(str, group)), node=NODE, nodes=nodes
        ),
    )


MAKERS = (nodes_of_group,)
