"""Every picture, as SVG for a page and as text for a terminal: Gantt charts, memory and time by part, the landscape."""

from minipar.draw.curves import Axis, Curve, curves_svg
from minipar.draw.frame import BACKWARD, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, ink, nice_step, percent, standalone
from minipar.draw.gantt import FILL, Panel, gantt_svg, in_words, shade
from minipar.draw.gantt_text import gantt_text
from minipar.draw.landscape import landscape_svg
from minipar.draw.landscape_text import landscape_text
from minipar.draw.memory import memory_svg, memory_text
from minipar.draw.seconds import seconds_svg, seconds_text
from minipar.draw.split import column_split_svg

__all__ = [
    "BACKWARD",
    "FILL",
    "FORWARD",
    "INPUT_GRADIENT",
    "WEIGHT_GRADIENT",
    "Axis",
    "Curve",
    "Panel",
    "column_split_svg",
    "curves_svg",
    "gantt_svg",
    "gantt_text",
    "in_words",
    "ink",
    "landscape_svg",
    "landscape_text",
    "memory_svg",
    "memory_text",
    "nice_step",
    "percent",
    "seconds_svg",
    "seconds_text",
    "shade",
    "standalone",
]
