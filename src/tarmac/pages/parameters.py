"""Plots over the parameters of a search: parallel coordinates, and a slice for each parameter.

Thousands of networks are drawn in a few paths, one for each colour strength, so that a page stays
small. From too many networks, the best and evenly spaced others are drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from tarmac.pages.figure import (
    STRETCH,
    DataTable,
    Key,
    alt,
    area,
    axes,
    figure,
    percent,
    scale_data,
)
from tarmac.pages.numbers import UNKNOWN, known, worded
from tarmac.pages.scales import Axis, Scale, Tick, scale_of
from tarmac.wording import counted

# Limit for the lines and dots of all plots together. More make a page too large.
_MAX_PLACES = 10_000
_MAX_SHOWN = 1000
_LEAST_SHOWN = 200
# Colour strengths in percent, from the palest.
_STRENGTHS = (18, 36, 56, 78, 100)
# A few networks must all be visible: their contrast to the background is 3 to 1.
_STRENGTHS_OF_FEW = (60, 70, 80, 90, 100)
_FEW = 50
# Named values that have room beside an axis.
_MAX_NAMED = 12
_LONGEST_NAME = 14
# Keeps texts readable where lines pass behind them.
_HALO = "stroke:var(--ground);stroke-width:4px;paint-order:stroke"
# Width of an axis in parallel coordinates. If it is narrower, names overlap.
_LEAST_WIDTH_REM = 6


@dataclasses.dataclass(frozen=True)
class Dimension:
    """A parameter, or the metric by which networks are judged.

    Attributes:
        name: Name of the parameter or of the metric.
        is_log: Whether the axis is logarithmic. Default False.
        choices: Named values in their order. Empty for a range.
        low: Lower end of a range. Default: the smallest value of the networks.
        high: Upper end of a range. Default: the largest value of the networks.
    """

    name: str
    is_log: bool = False
    choices: Sequence[object] = ()
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Tried:
    """A network that was tried.

    Attributes:
        number: Number of the trial in the study, from 0.
        value: Value of the metric that the network is judged by.
        params: Values of the parameters that the network uses, by name.
    """

    number: int
    value: float
    params: Mapping[str, object]


def shown_networks(
    networks: Sequence[Tried], *, maximize: bool, dimensions: int = 1
) -> list[Tried]:
    """Return all networks, or the best and evenly spaced others, the worst first.

    Args:
        networks: Networks to choose from, in any order.
        maximize: Whether a larger value is better.
        dimensions: Number of parameters to draw. More parameters mean fewer networks. Default 1.
    """
    ordered = sorted(networks, key=lambda network: network.value if maximize else -network.value)
    most = min(_MAX_SHOWN, max(_LEAST_SHOWN, _MAX_PLACES // max(1, dimensions)))
    if len(ordered) <= most:
        return ordered
    num_best = most // 5
    others, best = ordered[:-num_best], ordered[-num_best:]
    count = most - num_best
    return [others[place * len(others) // count] for place in range(count)] + best


def parallel(
    key: str,
    title: str,
    networks: Sequence[Tried],
    dimensions: Sequence[Dimension],
    *,
    value: Dimension,
) -> Markup:
    """Draw a line for each network through its value and its parameters.

    Args:
        key: ID of the figure, unique in the page.
        title: Caption of the figure. Empty for none.
        networks: Networks from `shown_networks`, the worst first. A better one has a stronger
            colour.
        dimensions: Parameters to draw, an axis for each.
        value: Metric that the networks are judged by, drawn as the first axis.
    """
    scales = [_scale(value, [network.value for network in networks])]
    scales += [_scale(dimension, _values(networks, dimension.name)) for dimension in dimensions]
    lasts = max(1, len(scales) - 1)
    words: list[list[str]] = [[] for _ in _STRENGTHS]
    for number, network in enumerate(networks):
        words[_strength(number, len(networks))].append(_path(network, dimensions, scales))
    strengths = _STRENGTHS_OF_FEW if len(networks) <= _FEW else _STRENGTHS
    # A line that several networks share is drawn once.
    drawn = Markup("").join(
        _stroke("line", "".join(dict.fromkeys(paths)), strengths[number], "--s0")
        for number, paths in enumerate(words)
        if paths
    )
    if networks:
        drawn += _stroke("line", _path(networks[-1], dimensions, scales), 100, "--s1", width=3)
    content = alt(key, title, _told(networks, value)) + _stretched(drawn)
    # After the lines, which would otherwise cover the texts.
    content += _upright([value, *dimensions], scales)
    names = [
        Tick(number / lasts, dimension.name)
        for number, dimension in enumerate([value, *dimensions])
    ]
    content += _names(names)
    picture = Markup(
        '<div class="scroll" role="group" tabindex="0" aria-label="{}">'
        '<div style="min-width:{}rem">{}</div></div>'
    ).format(
        title or "Parallel coordinates",
        _LEAST_WIDTH_REM * len(scales),
        area(key, content, height=320),
    )
    rows = [
        [
            str(network.number),
            worded(network.value),
            *(_worded(network.params.get(d.name)) for d in dimensions),
        ]
        for network in reversed(networks)
    ]
    return figure(
        key,
        title,
        picture,
        legend=[Key("the best", "s1"), Key("the stronger, the better", "s0")],
        data=[
            DataTable(["network", value.name, *(dimension.name for dimension in dimensions)], rows)
        ],
    )


def slice_plot(
    key: str, dimension: Dimension, networks: Sequence[Tried], value: Dimension
) -> Markup:
    """Draw the value of each network over one parameter; later trials have stronger colours.

    Args:
        key: ID of the figure, unique in the page.
        dimension: Parameter to draw along the x axis.
        networks: Networks in any order. Those without the parameter are left out.
        value: Metric that the networks are judged by, drawn along the y axis.
    """
    using = sorted(
        (network for network in networks if dimension.name in network.params),
        key=lambda network: network.number,
    )
    along = _scale(dimension, _values(using, dimension.name))
    up = scale_of(Axis(value.name), [network.value for network in using])
    words: list[list[str]] = [[] for _ in _STRENGTHS]
    for number, network in enumerate(using):
        x, y = _place(dimension, along, network.params[dimension.name]), up.place(network.value)
        if x is not None and y is not None:
            spot = f"M{_fitted(x)} {_fitted(1 - y)}h0"
            words[_strength(number, len(using))].append(spot)
    drawn = Markup("").join(
        _stroke("dot", "".join(dict.fromkeys(spots)), _STRENGTHS_OF_FEW[number], "--s0")
        for number, spots in enumerate(words)
        if spots
    )
    content = (
        alt(key, dimension.name, f"{counted(len(using), 'network')} over {dimension.name}.")
        + axes(_ticks(dimension, along), up.ticks(4), "")
        + _stretched(drawn)
    )
    data = (
        scale_data(up, "y") if dimension.choices else scale_data(along, "x") + scale_data(up, "y")
    )
    rows = [
        [_worded(network.params[dimension.name]), worded(network.value), str(network.number)]
        for network in using
    ]
    return figure(
        key,
        dimension.name,
        area(key, content, height=170, attributes=data),
        data=[DataTable([dimension.name, value.name, "network"], rows)],
    )


def _scale(dimension: Dimension, values: Sequence[object]) -> Scale:
    if dimension.choices:
        # Free space at both ends, so that no value lies on an edge.
        return scale_of(Axis(low=-0.4, high=len(dimension.choices) - 0.6), ())
    axis = Axis(dimension.name, is_log=dimension.is_log, low=dimension.low, high=dimension.high)
    return scale_of(axis, values)


def _place(dimension: Dimension, scale: Scale, value: object) -> float | None:
    if not dimension.choices:
        return scale.place(value)
    for number, choice in enumerate(dimension.choices):
        if choice == value and type(choice) is type(value):
            return scale.place(float(number))
    return None


def _ticks(dimension: Dimension, scale: Scale) -> list[Tick]:
    if not dimension.choices:
        return scale.ticks(4)
    every = -(-len(dimension.choices) // _MAX_NAMED)
    return [
        Tick(scale.place(float(number)) or 0.0, _short(choice))
        for number, choice in enumerate(dimension.choices)
        if number % every == 0
    ]


def _path(network: Tried, dimensions: Sequence[Dimension], scales: Sequence[Scale]) -> str:
    """Return a network's line, with gaps at parameters that it does not use."""
    places = [scales[0].place(network.value)]
    places += [
        _place(dimension, scale, network.params[dimension.name])
        if dimension.name in network.params
        else None
        for dimension, scale in zip(dimensions, scales[1:], strict=True)
    ]
    words: list[str] = []
    is_open = False
    for number, place in enumerate(places):
        if place is None:
            is_open = False
            continue
        left = round(number / max(1, len(scales) - 1) * STRETCH)
        words.append(f"{'L' if is_open else 'M'}{left} {_fitted(1 - place)}")
        is_open = True
    return "".join(words)


def _upright(dimensions: Sequence[Dimension], scales: Sequence[Scale]) -> Markup:
    """Draw the axes with their values."""
    drawn = Markup('<g class="axes" aria-hidden="true">')
    for number, (dimension, scale) in enumerate(zip(dimensions, scales, strict=True)):
        left = percent(number / max(1, len(scales) - 1))
        drawn += Markup('<line class="base" x1="{0}" x2="{0}" y2="100%"/>').format(left)
        for tick in _ticks(dimension, scale):
            drawn += Markup(
                '<text class="y" x="{}" dx="-6" y="{}" dy=".32em" style="{}">{}</text>'
            ).format(left, percent(1 - tick.place), _HALO, tick.text)
    return drawn + Markup("</g>")


def _names(ticks: Sequence[Tick]) -> Markup:
    drawn = Markup('<g aria-hidden="true">')
    for tick in ticks:
        side = "end" if tick.place > 0.97 else "mid" if tick.place > 0 else ""
        drawn += Markup('<text class="x {}" x="{}" y="100%" dy="1.6em">{}</text>').format(
            side, percent(tick.place), _short(tick.text)
        )
    return drawn + Markup("</g>")


def _stretched(drawn: Markup) -> Markup:
    return Markup(
        '<svg class="stretch" viewBox="0 0 {0} {0}" preserveAspectRatio="none" width="100%" '
        'height="100%" overflow="visible">{1}</svg>'
    ).format(STRETCH, drawn)


def _stroke(kind: str, path: str, strength: int, colour: str, width: float | None = None) -> Markup:
    thin = 1.2 if kind == "line" else None
    size = width or thin
    return Markup(
        '<path class="{}" style="--c:color-mix(in oklab,var({}) {}%,var(--ground)){}" d="{}"/>'
    ).format(kind, colour, strength, f";stroke-width:{size}" if size else "", path)


def _strength(number: int, count: int) -> int:
    return min(len(_STRENGTHS) - 1, number * len(_STRENGTHS) // max(1, count))


def _values(networks: Sequence[Tried], name: str) -> list[object]:
    return [network.params[name] for network in networks if name in network.params]


def _told(networks: Sequence[Tried], value: Dimension) -> str:
    if not networks:
        return "No networks."
    best = networks[-1]
    made = ", ".join(f"{name} {_worded(setting)}" for name, setting in best.params.items())
    return (
        f"{counted(len(networks), 'network')}. The best, {value.name} {worded(best.value)}: {made}."
    )


def _worded(value: object) -> str:
    if value is None:
        return UNKNOWN
    return str(value) if known(value) is None else worded(value)


def _short(value: object) -> str:
    text = _worded(value)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _fitted(place: float) -> int:
    return round(min(max(place, -0.02), 1.02) * STRETCH)
