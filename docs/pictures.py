"""Make the README's pictures: python docs/pictures.py."""

from pathlib import Path

from minipar.draw import Panel, gantt_svg
from minipar.pipeline import Costs, gpipe, interleaved, one_f_one_b, simulate, zb_h1, zb_v

HERE = Path(__file__).parent


def pictures() -> dict[str, str]:
    """Each picture by its file's name."""
    panels = [
        Panel("the batch whole", simulate(gpipe(4, 1))),
        # The same work in eight pieces, each an eighth as long.
        Panel("the batch in 8 micro-batches", simulate(gpipe(4, 8), Costs(1 / 8, 2 / 8))),
    ]
    title = "One training step on 4 ranks: micro-batches shrink the bubble"
    unit = "time, in forwards of the whole batch in one stage"
    # A rank with two stages has half as much of the model in each.
    schedules = [
        Panel("1F1B", simulate(one_f_one_b(4, 8))),
        Panel("interleaved 1F1B, two stages a rank", simulate(interleaved(4, 8), Costs().times(1 / 2))),
        Panel("ZB-H1, backwards split", simulate(zb_h1(4, 8))),
        Panel("ZB-V, two stages a rank, backwards split", simulate(zb_v(4, 8), Costs().times(1 / 2))),
    ]
    shrinking = "The same work on 4 ranks in four orders"
    in_forwards = "time, in forwards of a micro-batch through one rank"
    return {
        "bubble.svg": gantt_svg(panels, title, unit, standalone=True),
        "schedules.svg": gantt_svg(schedules, shrinking, in_forwards, standalone=True),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        (HERE / name).write_text(picture + "\n", encoding="utf-8")
