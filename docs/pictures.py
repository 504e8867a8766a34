"""Make the README's pictures: python docs/pictures.py."""

from pathlib import Path

from course.widgets import matmul, mesh
from course.widgets.planner import planner
from minipar.draw import Panel, gantt_svg, memory_svg, standalone
from minipar.pipeline import Costs, gpipe, interleaved, one_f_one_b, simulate, zb_h1, zb_v
from minipar.plan import Bench, Numbers, hardware_by_name, model_by_name, predict
from minipar.plan.generations import usual_software
from minipar.recompute import Recompute

HERE = Path(__file__).parent


def bubble() -> str:
    """The same work as one piece and as eight."""
    panels = [
        Panel("the batch whole", simulate(gpipe(4, 1))),
        # The same work in eight pieces, each an eighth as long.
        Panel("the batch in 8 micro-batches", simulate(gpipe(4, 8), Costs(1 / 8, 2 / 8))),
    ]
    title = "One training step on 4 ranks: micro-batches shrink the bubble"
    return gantt_svg(panels, title, "time, in forwards of the whole batch in one stage")


def schedules() -> str:
    """The same work in four orders; a rank with two stages has half as much of the model in each."""
    panels = [
        Panel("1F1B", simulate(one_f_one_b(4, 8))),
        Panel("interleaved 1F1B, two stages a rank", simulate(interleaved(4, 8), Costs().times(1 / 2))),
        Panel("ZB-H1, backwards split", simulate(zb_h1(4, 8))),
        Panel("ZB-V, two stages a rank, backwards split", simulate(zb_v(4, 8), Costs().times(1 / 2))),
    ]
    unit = "time, in forwards of a micro-batch through one rank"
    return gantt_svg(panels, "The same work on 4 ranks in four orders", unit)


def memory() -> str:
    """What fills a GPU, and what each technique takes away."""
    hardware = hardware_by_name("h100")
    bench, model = Bench(hardware, usual_software(hardware)), model_by_name("llama3-8b")
    layouts = {
        "one GPU": Numbers(),
        "64 replicas": Numbers(dp=64),
        "64 replicas, ZeRO-1": Numbers(dp=64, zero=1),
        "and all computed again": Numbers(dp=64, zero=1, recompute=Recompute.FULL),
        "split over 8 by tp": Numbers(dp=8, tp=8, sequence_parallel=True),
        "tp=4, pp=2": Numbers(dp=8, tp=4, pp=2, micro_batches=8, sequence_parallel=True),
    }
    bars = [(name, predict(model, layout, bench)) for name, layout in layouts.items()]
    return memory_svg(bars, "Llama 3 8B on H100: what a GPU must hold")


def pictures() -> dict[str, str]:
    """Each picture by its file's name. The last three are what explorers show at one position of their sliders."""
    cut, place, plan = matmul(), mesh(), planner()
    cut.values = {**cut.values, "way": 2}
    return {
        "bubble.svg": bubble(),
        "schedules.svg": schedules(),
        "memory.svg": memory(),
        "matmul.svg": str(cut.picture),
        "mesh.svg": str(place.picture),
        "landscape.svg": str(plan.picture),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        (HERE / name).write_text(standalone(picture), encoding="utf-8")
