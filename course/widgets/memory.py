"""The memory explorer: what a model takes to train, by part, beside the room that a real GPU has."""

from __future__ import annotations

from course.widgets.explorer import Control, Explorer, View
from minipar.draw import memory_svg
from minipar.plan import Bench, Numbers, Prediction, hardware_by_name, model_by_name, predict
from minipar.plan.generations import usual_software
from minipar.recompute import Recompute
from minipar.words import _

MODELS = ("gpt-1.7b", "gpt-7.5b", "llama3-8b", "gpt-22b", "llama3-70b", "gpt3-175b")
DEVICES = ("a100-80gb", "h200", "b200")
REPLICAS = (1, 2, 4, 8, 16, 32, 64)
SAMPLES = (1, 2, 4, 8, 16)
SAVED = tuple(Recompute)
GIB = 2**30


def predicted(model: int, samples: int, replicas: int, zero: int, recompute: int, device: int) -> Prediction:
    """The planner's prediction for these positions of the sliders: replicas alone, nothing is split."""
    hardware = hardware_by_name(DEVICES[device])
    layout = Numbers(dp=REPLICAS[replicas], micro_batch=SAMPLES[samples], zero=zero, recompute=SAVED[recompute])
    return predict(model_by_name(MODELS[model]), layout, Bench(hardware, usual_software(hardware)))


def look(model: int, samples: int, replicas: int, zero: int, recompute: int, device: int) -> View:
    """The picture and the numbers for these positions of the sliders."""
    found = predicted(model, samples, replicas, zero, recompute, device)
    held = found.worst
    states = held.weights + held.gradients + held.optimizer + held.vocabulary
    room = found.usable - held.total
    facts = (
        (_("weights of the model"), _("{billions:.1f} billion").format(billions=found.model.weights / 1e9)),
        (_("weights, gradients, optimizer"), _gib(states)),
        (_("activations, logits, buffers"), _gib(held.total - states)),
        (_("room left") if room >= 0 else _("too much"), _gib(abs(room))),
    )
    bars = [(_("{count} × {device}").format(count=found.layout.dp, device=DEVICES[device]), found)]
    title = _("It fits") if found.fits else _("It does not fit")
    return View(memory_svg(bars, f"{MODELS[model]}: {title}"), facts)


def _gib(size: float) -> str:
    return _("{size:,.1f} GiB").format(size=size / GIB)


def memory(model: str = "llama3-8b", device: str = "a100-80gb") -> Explorer:
    """Sliders for model, micro-batch, replicas, ZeRO, recompute and GPU over the memory by part."""
    return Explorer(
        (
            Control("model", _("Model"), 0, len(MODELS) - 1, MODELS.index(model), names=MODELS),
            Control("samples", _("Samples at once"), 0, len(SAMPLES) - 1, 0, names=tuple(map(str, SAMPLES))),
            Control("replicas", _("Replicas"), 0, len(REPLICAS) - 1, 0, names=tuple(map(str, REPLICAS))),
            Control("zero", _("ZeRO (what replicas share out)"), 0, 3, 0, names=zero_names()),
            Control("recompute", _("Computed again"), 0, len(SAVED) - 1, 0, names=recompute_names()),
            Control("device", _("GPU"), 0, len(DEVICES) - 1, DEVICES.index(device), names=DEVICES),
        ),
        look,
    )


def zero_names() -> tuple[str, ...]:
    """What each level of ZeRO shares out."""
    return _("0: nothing"), _("1: optimizer"), _("2: gradients too"), _("3: weights too")


def recompute_names() -> tuple[str, ...]:
    """What is computed again in the backward, in the order of `SAVED`."""
    return _("nothing"), _("attention's core"), _("everything")
