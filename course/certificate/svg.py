"""A page as SVG: letters stay letters, in the reader's fonts, and every text is escaped."""

from __future__ import annotations

from html import escape

from course.certificate.shapes import HEIGHT, PAPER, WIDTH, Box, Face, Line, Page, Shape

FONTS: dict[Face, str] = {
    "serif": "STIX Two Text, STIXGeneral, Times New Roman, Times, serif",
    "sans": "DejaVu Sans, Verdana, sans-serif",
    "mono": "DejaVu Sans Mono, Menlo, Consolas, monospace",
}


def to_svg(page: Page) -> str:
    """The page as one SVG element, 297 by 210 mm."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}mm" height="{HEIGHT:g}mm" '
        f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-labelledby="title description">'
    )
    told = f'<title id="title">{escape(page.title)}</title><desc id="description">{escape(page.description)}</desc>'
    paper = f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" fill="{PAPER}"/>'
    return head + told + paper + "".join(map(_element, page.shapes)) + "</svg>\n"


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        place = f'x="{shape.x:.3f}" y="{shape.y:.3f}" width="{shape.width:.3f}" height="{shape.height:.3f}"'
        return f'<rect {place} fill="{shape.color}" shape-rendering="crispEdges"/>'
    if isinstance(shape, Line):
        place = f'x1="{shape.x1:.3f}" y1="{shape.y1:.3f}" x2="{shape.x2:.3f}" y2="{shape.y2:.3f}"'
        return f'<line {place} stroke="{shape.color}" stroke-width="{shape.thick:g}"/>'
    weight = ' font-weight="bold"' if shape.bold else ""
    return (
        f'<text x="{shape.x:.3f}" y="{shape.y:.3f}" font-size="{shape.size:.3f}" font-family="{FONTS[shape.face]}" '
        f'fill="{shape.color}" text-anchor="{shape.anchor}"{weight} xml:space="preserve">{escape(shape.text)}</text>'
    )
