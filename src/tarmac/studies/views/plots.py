"""A study as one page of plots that needs nothing else."""

from __future__ import annotations

import importlib
import warnings
from html import escape
from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import TrialState

from tarmac.distribution import require
from tarmac.errors import TarmacError
from tarmac.studies.ledger import GENERATION
from tarmac.studies.objectives import front
from tarmac.studies.views.totals import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optuna.trial import FrozenTrial

    from tarmac.studies.study.study import Study

__all__ = ["render_page"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
       color: #1d2733; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 2rem 0 0 }
p { margin: .3rem 0; color: #42526b }
table { border-collapse: collapse } td { padding: .1rem 1rem .1rem 0 }
"""
_INK, _FAINT, _STRONG = "#1f5fa8", "#9db4cf", "#c2410c"
# Optuna's slices and importances say nothing below that.
_LEAST_TRIALS = 2


def render_page(study: Study) -> str:
    """Return the page's HTML, with plotly's program in it.

    Raises:
        RequestError: plotly is not installed.
        TarmacError: No network of the study has been trained to its end yet.
    """
    require("plotly")
    study.ledger.refresh()
    complete = [one for one in study.ledger.trials if one.state == TrialState.COMPLETE]
    if not complete:
        raise TarmacError(
            f"study {study.name} has no network yet that was trained to its end",
            hint=f"Go on with it: tarmac search --resume {study.path}",
        )
    program = importlib.import_module("plotly.offline").get_plotlyjs()
    body = "\n".join(_sections(study, complete))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(study.name)}</title><style>{_STYLE}</style>"
        f"<script>{program}</script></head>\n<body>\n{body}\n</body></html>\n"
    )


def _sections(study: Study, complete: list[FrozenTrial]) -> Iterator[str]:
    request, totals = study.request, summarize(study)
    name = request.objective[0]
    yield f"<h1>{escape(study.name)}: {escape(study.status)}</h1>"
    yield (
        f"<p>{escape(request.workload)} by {request.method}, seed {request.seed}: "
        f"{totals.trained:,} networks trained, {totals.distinct:,} distinct, "
        f"{totals.saved:,} trainings saved, {totals.pruned:,} stopped early, "
        f"{totals.failed:,} failed</p>"
    )
    best = study.best
    if best is not None:
        test = "" if best.test_accuracy is None else f"; test accuracy {best.test_accuracy:.4f}"
        made = ", ".join(f"{key} {value}" for key, value in best.settings.items())
        yield f"<p>Best: network {best.number}, {name} {best.values[name]:.4g}{test}: "
        yield f"{escape(made)}</p>"
    evolves = study.has_generations
    yield f"<h2>Fitness {'per generation' if evolves else 'by trial'}</h2>"
    yield _html(_fitness(study, complete))
    yield "<h2>Cost against fitness</h2><p>The line joins the networks that none beats in both.</p>"
    yield _html(_cost(study, complete))
    figures = optuna.visualization
    for title, draw in (
        ("Parallel coordinates", figures.plot_parallel_coordinate),
        ("Importance", _importances),
        ("Slices", figures.plot_slice),
    ):
        yield f"<h2>{title}</h2>"
        yield _drawn_by_optuna(draw, study, complete, name)


def _fitness(study: Study, complete: list[FrozenTrial]) -> Any:
    go = importlib.import_module("plotly.graph_objects")

    evolves = study.has_generations
    better = max if study.maximize[0] else min
    figure = go.Figure()
    places = [
        trial.system_attrs.get(GENERATION, 0) if evolves else trial.number for trial in complete
    ]
    values = [trial.values[0] for trial in complete]
    figure.add_scatter(
        x=places,
        y=values,
        mode="markers",
        name="network",
        marker={"color": _FAINT, "size": 7},
        text=[_hover(trial) for trial in complete],
    )
    best_so_far: list[float] = []
    means: list[float] = []
    ordered = sorted(set(places))
    for place in ordered:
        here = [value for at, value in zip(places, values, strict=True) if at == place]
        means.append(sum(here) / len(here))
        best_so_far.append(better([better(here), *best_so_far[-1:]]))
    if evolves:
        figure.add_scatter(
            x=ordered, y=means, mode="lines", name="mean of the new", line={"color": _INK}
        )
    figure.add_scatter(
        x=ordered, y=best_so_far, mode="lines", name="best so far", line={"color": _STRONG}
    )
    figure.update_layout(
        xaxis={"title": "generation" if evolves else "trial", "dtick": max(1, max(places) // 10)},
        yaxis_title=study.request.objective[0],
    )
    return figure


def _cost(study: Study, complete: list[FrozenTrial]) -> Any:
    go = importlib.import_module("plotly.graph_objects")

    known = [trial for trial in complete if "num_parameters" in trial.user_attrs]
    points = [(float(trial.user_attrs["num_parameters"]), trial.values[0]) for trial in known]
    figure = go.Figure()
    figure.add_scatter(
        x=[cost for cost, _ in points],
        y=[value for _, value in points],
        mode="markers",
        name="network",
        marker={
            "color": [float(trial.user_attrs.get("seconds", 0)) for trial in known],
            "colorscale": "Blues",
            "showscale": True,
            "colorbar": {"title": "seconds"},
            "size": 8,
            "line": {"width": 1, "color": _INK},
        },
        text=[_hover(trial) for trial in known],
    )
    best = sorted(points[index] for index in front(points, [False, study.maximize[0]]))
    figure.add_scatter(
        x=[cost for cost, _ in best],
        y=[value for _, value in best],
        mode="lines",
        name="front",
        line={"color": _STRONG, "shape": "hv"},
    )
    figure.update_layout(
        xaxis={"title": "parameters", "type": "log"},
        yaxis_title=study.request.objective[0],
        legend={"orientation": "h", "y": 1.08},
    )
    return figure


def _importances(study: optuna.Study, **target: Any) -> Any:
    # Optuna's default asks what makes the best few better; fANOVA, what matters in the whole space.
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return optuna.visualization.plot_param_importances(study, evaluator=evaluator, **target)


def _drawn_by_optuna(
    draw: Callable[..., Any], study: Study, complete: list[FrozenTrial], name: str
) -> str:
    if len(complete) < _LEAST_TRIALS:
        return f"<p>Needs {_LEAST_TRIALS} networks that were trained to their end.</p>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # With one objective Optuna knows itself whether more is better, and colours so.
            target = {"target": lambda trial: trial.values[0]} if len(study.maximize) > 1 else {}
            figure = draw(study.optuna, target_name=name, **target)
        except (ValueError, RuntimeError, ImportError) as error:
            return f"<p>Optuna does not draw it: {escape(str(error))}</p>"
    figure.update_layout(title=None)
    return _html(figure)


def _hover(trial: FrozenTrial) -> str:
    made = "<br>".join(f"{name} {value}" for name, value in trial.params.items())
    return f"network {trial.number}<br>{made}"


def _html(figure: Any) -> str:
    # Optuna gives some figures a width of their own, which a narrow window would cut.
    figure.update_layout(
        template="plotly_white", margin={"t": 40, "r": 20}, width=None, autosize=True
    )
    return str(figure.to_html(full_html=False, include_plotlyjs=False, default_height="460px"))
