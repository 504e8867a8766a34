"""Make the README's pictures: python docs/pictures.py."""

from pathlib import Path

from minipar.draw import Panel, gantt_svg
from minipar.pipeline import Costs, gpipe, simulate

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
    return {"bubble.svg": gantt_svg(panels, title, unit, standalone=True)}


if __name__ == "__main__":
    for name, picture in pictures().items():
        (HERE / name).write_text(picture + "\n", encoding="utf-8")
