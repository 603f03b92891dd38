"""Small plots side by side, as SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 250, 190  # Of one panel, pixels.
LEFT, RIGHT, TOP, BOTTOM = 52, 22, 24, 34
LEGEND = 26
# Told apart by anybody, on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
STYLE = "font-family:sans-serif;font-size:11px;fill:#333"


@dataclass(frozen=True)
class Series:
    name: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Both axes are logarithmic. Ticks of x stand where something was measured."""

    title: str
    x_ticks: Sequence[tuple[float, str]]
    series: Sequence[Series] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """Panels with one scale of y."""

    y_title: str
    panels: Sequence[Panel]

    def bounds(self) -> tuple[float, float]:
        """Whole powers of ten around everything."""
        values = [
            y for panel in self.panels for line in panel.series for _, y in line.points if y > 0
        ]
        low, high = min(values, default=1), max(values, default=10)
        low, high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return 10.0**low, 10.0 ** max(high, low + 1)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies between two others, on a logarithmic scale."""
    return math.log(value / low) / math.log(high / low) if high > low else 0.5


def _power(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _panel(panel: Panel, low: float, high: float, left: float, top: float) -> list[str]:
    x0, x1 = left + LEFT, left + WIDTH - RIGHT
    y0, y1 = top + HEIGHT - BOTTOM, top + TOP
    first, last = panel.x_ticks[0][0], panel.x_ticks[-1][0]

    def place(x: float, y: float) -> tuple[float, float]:
        return x0 + _share(x, first, last) * (x1 - x0), y0 + _share(y, low, high) * (y1 - y0)

    parts = [_text((x0 + x1) / 2, top + 14, panel.title, more='font-weight="bold"')]
    power = low
    while power <= high * 1.001:
        y = place(first, power)[1]
        parts += [_line(x0, y, x1, y), _text(x0 - 4, y + 4, _power(power), "end")]
        power *= 10
    for x, label in panel.x_ticks:
        at = place(x, low)[0]
        parts += [_line(at, y0, at, y1), _text(at, y0 + 14, label)]
    for line, colour in zip(panel.series, COLOURS, strict=False):
        places = [place(x, y) for x, y in line.points if y > 0]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    return parts


def _legend(row: Row, top: float) -> list[str]:
    parts = [_text(8, top + 16, row.y_title, "start", 'font-weight="bold"')]
    left = 30 + 7 * len(row.y_title)
    names = [line.name for line in row.panels[0].series]
    for name, colour in zip(names, COLOURS, strict=False):
        parts.append(f'<rect x="{left}" y="{top + 8}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(left + 14, top + 17, name, "start"))
        left += 30 + 7 * len(name)
    return parts


def svg(rows: Sequence[Row]) -> str:
    """A whole file. Every row has a legend of its own, that of its first panel."""
    width = WIDTH * max(len(row.panels) for row in rows)
    height = (HEIGHT + LEGEND) * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" style="{STYLE}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for number, row in enumerate(rows):
        top = number * (HEIGHT + LEGEND)
        parts += _legend(row, top)
        for column, panel in enumerate(row.panels):
            parts += _panel(panel, *row.bounds(), column * WIDTH, top + LEGEND)
    return "\n".join([*parts, "</svg>", ""])
