"""The planner explorer: the fastest layout of every mesh, the best marked, and why others were refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from course.widgets.explorer import Control, Explorer, View
from course.widgets.units import seconds_in_words
from minipar.draw import landscape_svg
from minipar.plan import Bench, Numbers, Prediction, Space, hardware_by_name, landscape, model_by_name
from minipar.plan.generations import usual_software
from minipar.words import _, plural

MODELS = ("gpt-7.5b", "llama3-8b", "gpt-22b", "llama3-70b")
GPUS = (8, 16, 32, 64)
BATCHES = (64, 128, 256, 512)
DEVICES = ("a100-80gb", "h100", "h100-cloud")
MEMORY = (24, 40, 80, 140)
"""GiB of a GPU. The hardware stays the same but for that."""
SPACE = Space(schedules=("1f1b", "interleaved"), virtual=(2,), micro_batch=4)
"""What is tried in every mesh: a part of what the planner can try, so that a move of a slider is answered at once."""

Cells = Mapping[Numbers, Prediction | str]


@lru_cache(maxsize=1024)
def cells(model: int, gpus: int, batch: int, device: int, memory: int) -> Cells:
    """The planner's landscape for these positions of the sliders."""
    hardware = replace(hardware_by_name(DEVICES[device]), memory=MEMORY[memory] * 2**30)
    return landscape(
        model_by_name(MODELS[model]), Bench(hardware, usual_software(hardware)), GPUS[gpus], BATCHES[batch], SPACE
    )


def look(model: int, gpus: int, batch: int, device: int, memory: int) -> View:
    """The picture and the numbers for these positions of the sliders."""
    found = {(mesh.dp, mesh.pp, mesh.tp): one for mesh, one in cells(model, gpus, batch, device, memory).items()}
    possible = {mesh: one for mesh, one in found.items() if not isinstance(one, str)}
    refused = {mesh: one for mesh, one in found.items() if isinstance(one, str)}
    best = min(possible, key=lambda mesh: possible[mesh].step_seconds, default=None)
    title = _("{model} on {gpus} of {memory} GiB").format(
        model=MODELS[model], gpus=plural("{count} GPU", "{count} GPUs", GPUS[gpus]), memory=MEMORY[memory]
    )
    seconds = {mesh: possible[mesh].step_seconds if mesh in possible else None for mesh in found}
    picture = landscape_svg(seconds, best, title, _("s a step"), refused)
    facts = [*_facts(None if best is None else possible[best]), *_why(refused.values())]
    return View(picture, tuple(facts))


def _facts(best: Prediction | None) -> list[tuple[str, str]]:
    if best is None:
        return [(_("fastest"), _("no layout fits"))]
    hours = 1e9 / best.tokens_per_second / 3600
    return [
        (_("fastest"), str(best.layout)),
        (_("a step"), seconds_in_words(best.step_seconds)),
        (_("MFU"), _("{share:.0f} %").format(share=100 * best.mfu)),
        (_("a billion tokens cost"), _("{hours:.0f} GPU-hours").format(hours=hours)),
        (_("a GPU holds at most"), _("{size:.0f} GiB").format(size=best.worst.total / 2**30)),
    ]


def _why(reasons: Collection[str]) -> list[tuple[str, str]]:
    """Refusals of two kinds, by memory and others: how many there are, and one of them."""
    kinds = [[one for one in reasons if ("GiB" in one) == by_memory] for by_memory in (True, False)]
    return [(plural("{count} mesh refused", "{count} meshes refused", len(kind)), kind[-1]) for kind in kinds if kind]


def planner(
    model: str = "llama3-8b", gpus: int = 16, batch: int = 128, device: str = "h100", memory: int = 80
) -> Explorer:
    """Sliders for model, GPUs, batch, hardware and its memory over the landscape of meshes; each begins as given."""

    def choice(name: str, label: str, options: Sequence[object], start: object, unit: str = "") -> Control:
        return Control(name, label, 0, len(options) - 1, options.index(start), unit, tuple(map(str, options)))

    return Explorer(
        (
            choice("model", _("Model"), MODELS, model),
            choice("gpus", _("GPUs"), GPUS, gpus),
            choice("batch", _("Samples of a step"), BATCHES, batch),
            choice("device", _("Hardware"), DEVICES, device),
            choice("memory", _("Memory of a GPU"), MEMORY, memory, _("GiB")),
        ),
        look,
    )
