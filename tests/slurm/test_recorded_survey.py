"""A survey of nodes that are only recorded: their jobs run here, or never."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from recorded_slurm import HEADER, RecordedSlurm
from tarmac.errors import TarmacError
from tarmac.slurm import NoAnswer, Shape, SlurmCommands, Submitted, survey, survey_nodes

NODES = """\
tarmac|NODELIST|PARTITION|STATE|CPUS|MEMORY|TIMELIMIT|AVAIL_FEATURES|GRES|REASON
tarmac|n1|main*|IDLE|4|4096|infinite|(null)|(null)|none
tarmac|n2|main*|IDLE|4|4096|infinite|(null)|(null)|none
tarmac|n3|main*|DRAINED|4|4096|infinite|(null)|(null)|fan broken
tarmac|g1|gpu|IDLE|64|4096|infinite|a100|gpu:a100:4|none
"""


class Site(SlurmCommands):
    """A recorded site whose jobs run in this process's own shell, for nodes that a test names.

    Attributes:
        scripts: By name, what was submitted.
        answers: Of submissions, by the node's name, in the place of a job.
        runs: Nodes whose jobs run.
    """

    def __init__(self, recorded: RecordedSlurm) -> None:
        super().__init__(recorded.variables)
        self.scripts: dict[str, str] = {}
        self.answers: dict[str, object] = {}
        self.runs = {"n1", "n2", "g1"}
        self.cancelled: list[str] = []

    def submit(self, script, variables):
        self.scripts[script.name] = script.text
        node = script.name.rpartition("-")[2]
        if node in self.answers:
            return self.answers[node]
        if node in self.runs:
            own = {**os.environ, **variables, "SLURMD_NODENAME": node}
            subprocess.run(["sh", "-c", script.text], env=own, check=True)
        return Submitted(80 + len(self.scripts), script.name)

    def cancel(self, units=(), *, names=()):
        self.cancelled += names


@pytest.fixture
def recorded(tmp_path):
    slurm = RecordedSlurm(tmp_path)
    slurm.answer("sinfo", NODES)
    return slurm


@pytest.fixture
def look(recorded, tmp_path, monkeypatch):
    """Return a function that surveys a site, and what it finds by node."""
    monkeypatch.setattr(survey, "_LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(survey, "_LATE_S", 0.01)
    look_script = survey.look_script
    # Without the GPUs of this machine.
    monkeypatch.setattr(survey, "look_script", lambda *words: look_script(*words, tmp_path / "bus"))
    place = tmp_path / "place"
    place.mkdir()

    def survey_site(site: Site, **options):
        options = {"python": sys.executable, "patience_s": 0.05, **options}
        variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        nodes = survey_nodes(site, place, variables=variables, **options)
        assert [*place.iterdir()] == []
        return {node.name: node for node in nodes}

    return survey_site


def test_each_usable_node_of_the_default_partition_is_looked_at_by_a_job(look, recorded):
    site = Site(recorded)
    nodes = look(site)
    assert {name: node.state for name, node in nodes.items()} == {
        "n1": "looked",
        "n2": "looked",
        "n3": "failed",
    }
    assert nodes["n3"].words == ("is drained: fan broken",)
    assert nodes["n1"].words == []
    assert nodes["n1"].python.startswith("3.")
    assert (nodes["n1"].user_id, nodes["n1"].has_interpreter) == (os.getuid(), True)
    assert [name.rpartition("-")[2] for name in site.scripts] == ["n1", "n2"]
    # Their names are this survey's own, and nothing is left in the queue.
    assert len({name.rpartition("-")[0] for name in site.scripts}) == 1
    assert site.cancelled == [*site.scripts]
    lines = next(iter(site.scripts.values())).splitlines()
    assert {"#SBATCH --nodelist=n1", "#SBATCH --partition=main", "#SBATCH --mem=128M"} <= {*lines}
    assert [line for line in lines if line.startswith("#SBATCH --time")]


def test_the_options_of_a_profile_choose_the_partition_and_go_with_the_jobs(look, recorded):
    site = Site(recorded)
    nodes = look(site, shape=Shape(partition="gpu", account="a", extra=("--licenses=x",)))
    assert [*nodes] == ["g1"]
    assert nodes["g1"].words == ["Slurm gives 4 GPUs there; no driver has any"]
    (text,) = site.scripts.values()
    assert {"#SBATCH --account=a", "#SBATCH --licenses=x"} <= {*text.splitlines()}


def test_of_many_nodes_one_of_each_kind_is_looked_at(look, recorded):
    site = Site(recorded)
    (node,) = look(site, most=1).values()
    assert (node.state, node.name) == ("looked", "n1")
    assert "n2" in node.alike
    assert len(site.scripts) == 1


def test_a_node_whose_job_waits_says_why(look, recorded):
    site = Site(recorded)
    site.runs = {"n1"}
    queue = site.queue

    def waiting(names):
        rows = "".join(f"tarmac|82|{name}|PENDING||Resources\n" for name in names)
        recorded.answer("squeue", HEADER + rows)
        return queue(names)

    site.queue = waiting
    nodes = look(site)
    assert nodes["n1"].state == "looked"
    assert nodes["n2"].state == "waits"
    assert nodes["n2"].words == ("is next; waits for free resources (Resources)",)
    recorded.answer("squeue", err="busy", code=1)
    site.queue = queue
    silent = look(site)["n2"]
    assert (silent.state, silent.words) == ("waits", ("squeue: busy (exit code 1)",))


def test_a_job_that_has_ended_without_an_answer_works_in_another_directory(look, recorded):
    site = Site(recorded)
    site.runs = {"n1"}
    nodes = look(site, patience_s=60)
    assert nodes["n2"].state == "blind"
    assert "is that another directory there? Choose one that all nodes see" in nodes["n2"].words[0]


def test_a_job_that_was_refused_or_not_answered_is_said_in_slurms_words(look, recorded):
    site = Site(recorded)
    site.answers = {
        "n1": "sbatch: error: Batch job submission failed: Invalid account\nmore",
        "n2": NoAnswer("sbatch", "printed nothing"),
    }
    nodes = look(site)
    assert {node.state for node in nodes.values()} == {"failed"}
    assert "Invalid account" in nodes["n1"].words[0]
    assert "\n" not in nodes["n1"].words[0]
    assert nodes["n2"].words == ("sbatch: printed nothing",)
    # It may be in the queue all the same.
    assert len(site.cancelled) == 2


def test_a_site_that_is_silent_is_no_site_without_nodes(look, recorded):
    recorded.answer("sinfo", err="busy", code=1)
    with pytest.raises(TarmacError, match="Slurm does not answer: sinfo: busy"):
        look(Site(recorded))
