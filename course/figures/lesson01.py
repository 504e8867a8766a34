"""Lesson 01: what a training step holds, asked before it is shown, and what a small GPT keeps, predicted."""

from __future__ import annotations

from course.widgets.memory import DEVICES, GIB, MODELS, predicted
from course.widgets.predict import Prediction
from minipar.draw import memory_svg
from minipar.model import GPTConfig
from minipar.plan import Numbers, model_by_name
from minipar.plan import Prediction as Plan
from minipar.plan.own import model_of
from minipar.plan.sizes import Sizes
from minipar.recompute import Recompute
from minipar.words import _

LESSON = "01-memory"
MODEL, DEVICE = "llama3-8b", "h200"
MIXED = 16
"""Bytes a parameter of training in half precision with Adam: Rajbhandari et al. 2020 (ZeRO), section 3.1."""


def predict_states() -> Prediction:
    """Ask what weights, gradients and optimizer states of 8 billion parameters take."""
    weights = model_by_name(MODEL).weights
    question = _(
        "Llama 3 8B has {billions:.2f} billion parameters. Its weights in bfloat16, their gradients, AdamW's states: "
        "how many GB (10⁹ bytes) in all?"
    ).format(billions=weights / 1e9)
    because = _(
        "Each parameter takes {bytes} bytes: 2 as a weight, 2 as a gradient, and 12 for the optimizer, which works in "
        "float32. The weights alone are an eighth of it."
    ).format(bytes=MIXED)
    return Prediction(f"{LESSON}/states", question, "GB", round(MIXED * weights / 1e9, 1), because)


def predict_replicas() -> Prediction:
    """Ask what a GPU holds when there are 64 replicas in place of one."""
    one, many = _planned(replicas=0), _planned(replicas=6)
    question = _(
        "Alone, one {device} would have to hold {one:.0f} GiB to train Llama 3 8B, with its activations. "
        "With 64 replicas on 64 of them, how many GiB does each hold?"
    ).format(device=DEVICE.upper(), one=one.worst.total / GIB)
    because = _("Each replica is a whole model. They share the samples, and nothing else.")
    bars = [(_("1 replica"), one), (_("64 replicas"), many)]
    picture = memory_svg(bars, _("64 replicas: the same memory 64 times"))
    return Prediction(f"{LESSON}/replicas", question, "GiB", round(many.worst.total / GIB), because, picture)


def predict_activations() -> Prediction:
    """Ask what the activations of one sequence take."""
    plan = _planned(replicas=0)
    question = _(
        "One sequence of {tokens:,} tokens goes forward through Llama 3 8B. The text itself is some {kib} KiB. "
        "How many GiB do the activations take that its backward needs?"
    ).format(tokens=plan.model.sequence, kib=4 * plan.model.sequence // 1024)
    because = _(
        "Every one of {layers} blocks keeps {mib:,.0f} MiB. That is {times:.1f} times the weights, for one sequence."
    ).format(
        layers=plan.model.layers,
        mib=plan.worst.activations / plan.model.layers / 2**20,
        times=plan.worst.activations / (2 * plan.model.weights),
    )
    return Prediction(
        f"{LESSON}/activations", question, "GiB", round(plan.worst.activations / GIB, 1), because, _picture(plan)
    )


def _planned(replicas: int) -> Plan:
    """The explorer's prediction with one sample, no ZeRO and nothing computed again."""
    return predicted(MODELS.index(MODEL), 0, replicas, 0, 0, DEVICES.index(DEVICE))


def _picture(plan: Plan) -> str:
    return memory_svg([(_("one sequence"), plan)], _("Activations beside all the rest"))


def predicted_bytes(config: GPTConfig, samples: int, again: Recompute) -> int:
    """Bytes that the unsplit `minipar.model.GPT` keeps for its backward of so many samples, from its sizes alone."""
    sizes = Sizes(model_of(config), Numbers(micro_batch=samples, recompute=again))
    return round(sizes.kept(0) + sizes.loss)
