"""The planner explorer: the fastest layout of every mesh, the best marked, and why others were refused."""

from __future__ import annotations

from collections import Counter

from course.widgets.explorer import Control, Explorer, View
from minipar.draw import landscape_svg
from minipar.plan import Bench, Numbers, Prediction, hardware_by_name, landscape, model_by_name
from minipar.plan.generations import usual_software
from minipar.words import _, plural

MODELS = ("gpt-7.5b", "llama3-8b", "gpt-22b", "llama3-70b")
GPUS = (8, 16, 32, 64)
BATCHES = (64, 128, 256, 512)
DEVICES = ("a100-80gb", "a100-cloud", "h100", "h100-cloud")


def cells(model: int, gpus: int, batch: int, device: int) -> dict[Numbers, Prediction | str]:
    """The planner's landscape for these positions of the sliders."""
    hardware = hardware_by_name(DEVICES[device])
    bench = Bench(hardware, usual_software(hardware))
    return landscape(model_by_name(MODELS[model]), bench, GPUS[gpus], BATCHES[batch])


def look(model: int, gpus: int, batch: int, device: int) -> View:
    """The picture and the numbers for these positions of the sliders."""
    found = cells(model, gpus, batch, device)
    possible = {mesh: one for mesh, one in found.items() if not isinstance(one, str)}
    refused = Counter(one for one in found.values() if isinstance(one, str))
    best = min(possible.values(), key=lambda one: one.step_seconds, default=None)
    places = {mesh: (mesh.dp, mesh.pp, mesh.tp) for mesh in found}
    seconds = {places[mesh]: one.step_seconds if mesh in possible else None for mesh, one in possible.items()}
    picture = landscape_svg(
        {place: seconds.get(place) for place in places.values()},
        None if best is None else (best.layout.dp, best.layout.pp, best.layout.tp),
        _("{model} on {gpus}").format(model=MODELS[model], gpus=plural("{count} GPU", "{count} GPUs", GPUS[gpus])),
        _("s a step"),
        {places[mesh]: one for mesh, one in found.items() if isinstance(one, str)},
    )
    return View(picture, _facts(best, refused))


def _facts(best: Prediction | None, refused: Counter[str]) -> tuple[tuple[str, str], ...]:
    if best is None:
        return ((_("fastest"), _("no layout fits")), _why(refused))
    return (
        (_("fastest"), str(best.layout)),
        (_("MFU"), _("{share:.0f} %").format(share=100 * best.mfu)),
        (_("a GPU holds at most"), _("{size:.0f} GiB").format(size=best.worst.total / 2**30)),
        _why(refused),
    )


def _why(refused: Counter[str]) -> tuple[str, str]:
    count = plural("{count} mesh refused", "{count} meshes refused", refused.total())
    return count, refused.most_common(1)[0][0] if refused else _("nothing is in the way")


def planner(model: str = "llama3-8b", device: str = "h100") -> Explorer:
    """Sliders for model, GPUs, batch and hardware over the landscape of meshes."""
    return Explorer(
        (
            Control("model", _("Model"), 0, len(MODELS) - 1, MODELS.index(model), names=MODELS),
            Control("gpus", _("GPUs"), 0, len(GPUS) - 1, 1, names=tuple(map(str, GPUS))),
            Control("batch", _("Samples of a step"), 0, len(BATCHES) - 1, 1, names=tuple(map(str, BATCHES))),
            Control("device", _("Hardware"), 0, len(DEVICES) - 1, DEVICES.index(device), names=DEVICES),
        ),
        look,
    )
