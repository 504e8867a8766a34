"""The mesh explorer: lay dp × pp × tp over nodes of eight, and see which axis leaves the node and what that costs."""

from __future__ import annotations

from course.widgets.explorer import Control, Explorer, View
from course.widgets.units import bytes_in_words, seconds_in_words
from minipar.draw.mesh import Load, mesh_svg
from minipar.plan import hardware_by_name, model_by_name
from minipar.words import _

GPUS = 32
DEGREES = (1, 2, 4, 8, 16, 32)
CHOSEN = 0
ORDERS = (("tp", "dp", "pp"), ("dp", "tp", "pp"), ("pp", "dp", "tp"))
"""The axes from the innermost, whose ranks have numbers beside each other, to the outermost."""
HARDWARE, MODEL = hardware_by_name("h100"), model_by_name("gpt-22b")
SAMPLES = 64  # of a step, over all replicas, one a micro-batch
HALF = 2  # bytes of a number
SCALE = 3.5  # seconds that the picture's bars have room for, whatever the order of the axes


def degrees(tp: int, pp: int) -> dict[str, int]:
    """Each axis's degree for these positions of the sliders: pp gets what tp leaves at most, and dp the rest."""
    inside = DEGREES[tp]
    across = min(DEGREES[pp], GPUS // inside)
    return {"dp": GPUS // (inside * across), "pp": across, "tp": inside}


def coordinates(rank: int, sizes: dict[str, int], order: tuple[str, ...]) -> dict[str, int]:
    """Where a rank is on each axis."""
    found = {}
    for axis in order:
        rank, found[axis] = divmod(rank, sizes[axis])
    return found


def group(axis: str, sizes: dict[str, int], order: tuple[str, ...], chosen: int = CHOSEN) -> list[int]:
    """The ranks that differ from the chosen one on this axis alone, and itself."""
    own = coordinates(chosen, sizes, order)
    others = {rank: coordinates(rank, sizes, order) for rank in range(GPUS)}
    return [rank for rank, at in others.items() if all(at[name] == own[name] for name in order if name != axis)]


def traffic(axis: str, sizes: dict[str, int]) -> tuple[float, int]:
    """Bytes that a GPU sends in a step on this axis, and in how many messages one after the other.

    tp: four all-reduces a block and micro-batch, as rings. pp: a micro-batch's features on, and their gradients back.
    dp: the gradients, as one ring.
    """
    n = sizes[axis]
    if n == 1:
        return 0.0, 0
    micro_batches, features = SAMPLES // sizes["dp"], HALF * MODEL.sequence * MODEL.hidden
    if axis == "tp":
        rings = 4 * micro_batches * -(-MODEL.layers // sizes["pp"])
        return rings * 2 * (n - 1) / n * features, rings * 2 * (n - 1)
    if axis == "pp":
        return 2 * micro_batches * features / sizes["tp"], 2 * micro_batches
    weights = MODEL.layers * MODEL.block_weights(sizes["tp"]) / sizes["pp"]
    return 2 * (n - 1) / n * HALF * weights, 2 * (n - 1)


def inside_a_node(ranks: list[int]) -> bool:
    """Whether these GPUs share a node."""
    return len({rank // HARDWARE.per_node for rank in ranks}) == 1


def seconds_of(axis: str, sizes: dict[str, int], ranks: list[int]) -> float:
    """Seconds of a step that the messages of this axis take, over the links that a group of these ranks has."""
    sent, messages = traffic(axis, sizes)
    link = HARDWARE.inside if inside_a_node(ranks) else HARDWARE.between
    return messages * link.alpha + sent * link.beta


def look(tp: int, pp: int, order: int) -> View:
    """The picture and the numbers for these positions of the sliders."""
    sizes, axes = degrees(tp, pp), ORDERS[order]
    groups = {axis: group(axis, sizes, axes) for axis in ("dp", "pp", "tp")}
    facts, loads = [(_("mesh"), "dp={dp} × pp={pp} × tp={tp}".format(**sizes))], list[Load]()
    for axis, ranks in groups.items():
        sent, seconds, inside = traffic(axis, sizes)[0], seconds_of(axis, sizes, ranks), inside_a_node(ranks)
        where = _("inside the node") if inside else _("between nodes")
        says = _("{bytes} a step, {where}, {seconds}").format(
            bytes=bytes_in_words(sent), where=where, seconds=seconds_in_words(seconds)
        )
        facts.append((axis, says if len(ranks) > 1 else _("nothing to send")))
        loads.append(Load(axis, seconds, seconds_in_words(seconds), inside))
    busy = sum(load.seconds for load in loads)
    facts.append((_("its links are busy"), _("{seconds} a step").format(seconds=seconds_in_words(busy))))

    def name(rank: int) -> str:
        return " ".join(f"{axis[0]}{at}" for axis, at in sorted(coordinates(rank, sizes, axes).items()))

    title = _("GPU {rank} and those it works with, {order}").format(rank=CHOSEN, order=orders()[order])
    nodes = GPUS // HARDWARE.per_node
    return View(mesh_svg(title, nodes, HARDWARE.per_node, CHOSEN, groups, name, loads, SCALE), tuple(facts))


def orders() -> tuple[str, ...]:
    """What lies beside each other, in the slider's order."""
    return _("tp innermost"), _("dp innermost"), _("pp innermost")


def mesh(tp: int = 8, pp: int = 2) -> Explorer:
    """Sliders for tp, pp and the order of the axes over four nodes of eight GPUs."""
    names = tuple(map(str, DEGREES))
    return Explorer(
        (
            Control("tp", _("Tensor ranks"), 0, len(DEGREES) - 1, DEGREES.index(tp), names=names),
            Control("pp", _("Pipeline ranks, at most"), 0, len(DEGREES) - 1, DEGREES.index(pp), names=names),
            Control("order", _("Order of the axes"), 0, len(ORDERS) - 1, 0, names=orders()),
        ),
        look,
    )
