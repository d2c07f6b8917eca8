"""Tests of the page of a search, and of the plots over its parameters."""

from __future__ import annotations

import json
import math
import random
import re

import optuna
import pytest

from tarmac.errors import RequestError, TarmacError
from tarmac.pages import render_page, search_page
from tarmac.pages.parameters import Dimension, Tried, parallel, shown_networks, slice_plot
from tarmac.studies import survey
from tarmac.studies.request import make_request
from tarmac.studies.space import Choices, Numbers, Space
from tarmac.studies.study.writer import StudyWriter

MEBIBYTE = 2**20
SPACE = {
    "neurons": Choices((64, 128, 256)),
    "activation": Choices(("relu", "tanh")),
    "rate": Numbers(1e-4, 1e-1, log=True),
    "dropout": Numbers(0.0, 0.5, when={"neurons": (128, 256)}),
}


@pytest.fixture
def study(tmp_path):
    """Return a function that makes a study with so many networks, which were never trained."""

    def make(count, parameters=None, **fields):
        request = make_request({"workload": "mlp", "epochs": 2, "method": "random", **fields})
        space = Space(parameters or SPACE)
        made = StudyWriter.create(
            tmp_path / "runs", "study", request, space, {}, train_size=100, validation_size=20
        )
        rng = random.Random(0)
        distributions = space.distributions()
        trials = []
        for number in range(count):
            params = space.draw(rng)
            worth = 0.9 - 0.1 * abs(math.log10(params.get("rate", 0.01)) + 2)
            values = [worth + rng.gauss(0, 0.01), 1000.0 + number][: len(made.request.objective)]
            attributes = {"epochs": 2, "seconds": 1.5, "num_parameters": 100 * (1 + number % 9)}
            trials.append(
                optuna.trial.create_trial(
                    params=params,
                    distributions={name: distributions[name] for name in params},
                    values=values,
                    user_attrs=attributes,
                )
            )
        trials.append(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState.FAIL,
                user_attrs={"error": "RuntimeError: <b>token=abcdef123456</b>", "epochs": 0},
            )
        )
        made.optuna.add_trials(trials)
        return made

    return make


def html_of(made):
    html = render_page(search_page(made.path))
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len({*ids})
    return html


def section(html, key):
    found = re.search(rf'<section id="{key}".*?</section>', html, re.DOTALL)
    return found[0] if found else ""


def test_a_searchs_page_shows_its_way_its_costs_and_what_matters(study):
    html = html_of(study(15))
    titles = re.findall(r"<h2[^>]*>([^<]+)</h2>", html)
    assert titles == [
        "Result",
        "What failed",
        "Fitness by trial",
        "Cost against fitness",
        "Parallel coordinates",
        "Importance",
        "Slices",
        "Trials in groups",
        "Trials",
        "Request",
    ]
    assert section(html, "slices").count("<figure") == len(SPACE)
    assert ">rate</th>" in section(html, "importance")
    assert "tarmac train mlp" in section(html, "outcome")
    # It has not been trained anew.
    assert "Best so far" in section(html, "outcome")
    assert section(html, "trials").count("<tr>") == 17


def test_failures_are_told_as_text_and_without_secrets(study):
    failures = section(html_of(study(3)), "failures")
    assert "RuntimeError: &lt;b&gt;" in failures
    assert "abcdef123456" not in failures


def test_objectives_are_drawn_against_each_other_with_each_value(study):
    html = html_of(study(12, objective=("val_accuracy", "params")))
    assert section(html, "objectives").count("<circle") == 12
    assert ">1,011</td>" in section(html, "trials")


def test_a_search_without_a_network_says_what_to_type(study):
    made = study(0)
    html = html_of(made)
    assert "No network has been trained to its end yet." in html
    assert f"tarmac search --resume {made.path}" in html


@pytest.mark.parametrize("count", [1, 2])
def test_of_very_few_networks_nothing_is_made_up(study, count):
    html = html_of(study(count))
    assert section(html, "parallel")
    if count < 2:
        assert "Needs 2 networks" in section(html, "importance")


def test_thousands_of_networks_over_many_parameters_make_a_small_page(study):
    many = {f"p{number}": Numbers(0.0, 1.0) for number in range(25)}
    html = html_of(study(1200, many))
    assert len(html.encode()) < MEBIBYTE
    assert "400 of 1,200 networks" in section(html, "parallel")
    assert "of 96 evenly spaced networks" in section(html, "importance")


def test_each_of_few_networks_can_be_seen(study):
    html = html_of(study(4))
    for key, there in (("parallel", "60%"), ("slices", "60%")):
        drawn = section(html, key)
        assert f"var(--s0) {there}" in drawn
        assert "var(--s0) 18%" not in drawn


def test_of_a_long_front_the_best_are_shown_and_the_others_counted(study):
    made = study(130, objective=("val_accuracy", "params"))
    made.update(front=tuple(range(130)))
    front = section(html_of(made), "front")
    assert front.count("<tr>") == 1 + 100
    assert "100 of 130. See all: tarmac search export" in front


def test_a_study_of_a_newer_version_or_a_damaged_one_is_refused_in_words(study, tmp_path):
    made = study(2)
    record = json.loads((made.path / "study.json").read_text())
    (made.path / "study.json").write_text(json.dumps(record | {"schema_version": 99}))
    with pytest.raises(RequestError, match="newer"):
        search_page(made.path)
    (made.path / "study.json").write_text("{")
    with pytest.raises(TarmacError):
        search_page(made.path)


def test_half_a_line_of_a_studys_journal_is_passed_over(study):
    made = study(5)
    with (made.path / "journal.log").open("ab") as journal:
        journal.write(b'{"op_code": 4, "worker')
    assert section(html_of(made), "trials").count("<tr>") == 7


def test_a_survey_tells_the_way_and_the_front(study):
    seen = survey(study(20))
    assert [step.place for step in seen.steps] == [*range(20)]
    assert [step.best for step in seen.steps] == sorted(step.best for step in seen.steps)
    front = [seen.networks[index] for index in seen.front]
    assert [one.num_parameters for one in front] == sorted(one.num_parameters for one in front)
    assert [one.values[0] for one in front] == sorted(one.values[0] for one in front)
    assert max(seen.networks, key=lambda one: one.values[0]) in front
    assert sum(seen.importances.values()) == pytest.approx(1)


NETWORKS = [
    Tried(0, 0.1, {"a": 1, "b": "x"}),
    Tried(1, 0.5, {"a": 2, "b": "y"}),
    Tried(2, 0.9, {"a": 3}),
]


def test_a_network_that_does_not_use_a_parameter_has_a_gap_there():
    dimensions = [Dimension("b", choices=("x", "y")), Dimension("a")]
    drawn = parallel("p", "All", NETWORKS, dimensions, value=Dimension("fitness"))
    paths = re.findall(r' d="([^"]+)"', drawn)
    (best,) = {path for path in paths if path.startswith("M0 0")}
    assert best == "M0 0M10000 0"
    assert drawn.count("</table>") == 1


def test_values_of_another_type_are_not_taken_for_named_ones():
    drawn = slice_plot(
        "s",
        Dimension("flag", choices=(True, False)),
        [Tried(0, 0.5, {"flag": True}), Tried(1, 0.6, {"flag": 1})],
        Dimension("fitness"),
    )
    assert sum(path.count("M") for path in re.findall(r'class="dot"[^>]* d="([^"]+)"', drawn)) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308])
def test_values_that_cannot_be_drawn_break_no_plot(value):
    networks = [*NETWORKS, Tried(3, value, {"a": value, "b": "x"})]
    dimensions = [Dimension("a", is_log=True), Dimension("b", choices=("x", "y"))]
    drawn = parallel("p", "", networks, dimensions, value=Dimension("fitness"))
    drawn += slice_plot("s", dimensions[0], networks, Dimension("fitness"))
    assert "nan" not in " ".join(re.findall(r' d="([^"]+)"', drawn))


def test_of_many_networks_the_best_are_shown_and_evenly_spaced_others():
    networks = [Tried(number, float(number % 977), {}) for number in range(10_000)]
    shown = shown_networks(networks, maximize=False, dimensions=20)
    assert len(shown) == 500
    assert [one.value for one in shown] == sorted((one.value for one in shown), reverse=True)
    best = sorted(one.value for one in networks)[:100]
    assert [one.value for one in shown][::-1][:100] == best
    assert shown_networks(NETWORKS, maximize=True) == NETWORKS


def test_where_a_parameter_is_used_is_said_in_words(study):
    html = section(html_of(study(3)), "asked")
    assert "<td>neurons is 128 or 256</td>" in html
    assert "<td>always</td>" in html
