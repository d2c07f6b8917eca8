"""What is asked of Slurm's commands, word by word, and what their recorded answers mean."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from recorded_slurm import ACCOUNTING, HEADER, SACCT, RecordedSlurm
from tarmac.masking import remember
from tarmac.slurm import (
    NoAnswer,
    Request,
    Shape,
    SlurmCommands,
    Submitted,
    Unit,
    write_script,
)

SINCE = datetime(2026, 11, 22, 9, tzinfo=UTC)
USER = f"--user={os.geteuid()}"
TIMED_OUT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"


@pytest.fixture
def recorded(tmp_path):
    return RecordedSlurm(tmp_path)


@pytest.fixture
def slurm(recorded):
    return SlurmCommands(recorded.variables)


@pytest.fixture
def script(tmp_path):
    return write_script(
        Request(
            name="tarmac-1",
            shape=Shape(memory_bytes=2**26),
            command="true",
            directory=tmp_path,
            output="%A_%a.engine",
            elements=2,
        )
    )


def test_a_site_is_asked_once_for_its_limits_and_for_its_nodes_each_time(recorded, slurm):
    assert (slurm.limits().kill_wait_s, slurm.limits().controller) == (15, "head:6817")
    assert [node.name for node in slurm.nodes()] == ["n1", "n2"]
    assert recorded.calls("scontrol") == ["scontrol show config"]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (("a notice\n80\n", "", 0), Submitted),
        (("", "", 0), NoAnswer),
        (("80\n", "", 1), NoAnswer),
        (("", TIMED_OUT, 1), NoAnswer),
        (("", "a wrapper broke", 1), NoAnswer),
        (("", "sbatch: error: invalid partition specified: x", 1), str),
        (("", "sbatch: unrecognized option '--x'", 1), str),
    ],
)
def test_a_submission_is_accepted_refused_or_in_doubt(recorded, slurm, script, said, kind):
    recorded.answer("sbatch --parsable", *said)
    answer = slurm.submit(script, {"PATH": recorded.variables["PATH"]})
    assert isinstance(answer, kind), answer
    if kind is Submitted:
        assert answer == Submitted(80, "tarmac-1")
        assert recorded.sent() == script.text
    if kind is str:
        assert answer == said[1]


def test_what_can_never_run_is_refused_and_silence_is_no_refusal(recorded, slurm, script):
    assert slurm.test(script) is None
    refusal = "allocation failure: Requested node configuration is not available"
    recorded.answer("sbatch --test-only", err=refusal, code=1)
    assert slurm.test(script) == refusal
    recorded.answer("sbatch --test-only", err=TIMED_OUT, code=1)
    assert slurm.test(script) == NoAnswer("sbatch", f"{TIMED_OUT} (exit code 1)")


def test_a_script_is_found_in_the_queue_and_then_in_the_accounts(recorded, slurm):
    assert slurm.find("tarmac-1", SINCE) is None
    assert recorded.calls("squeue")[0].endswith("--states=all --name=tarmac-1")
    queued = "".join(f"tarmac|{job}|tarmac-1|COMPLETED|n1|None\n" for job in (81, 80))
    recorded.answer("squeue", f"{HEADER}{queued}tarmac|7|other|RUNNING|n1|None\n")
    assert slurm.find("tarmac-1", SINCE) == Submitted(80, "tarmac-1")
    recorded.answer("squeue", HEADER)
    recorded.answer("scontrol show config", ACCOUNTING)
    recorded.answer("sacct", SACCT)
    again = SlurmCommands(recorded.variables)
    assert again.find("tarmac-1", SINCE) is None
    (asked,) = recorded.calls("sacct")
    # What had begun before the moment is left out by sacct: it is asked for a day more.
    assert asked.startswith("sacct --duplicates --parsable2 --units=K --format=JobID,State,")
    assert asked.endswith("--starttime=2026-11-21T09:00:00 --name=tarmac-1")
    recorded.answer("sacct", f"{SACCT}90_1|COMPLETED|0:0|n1|||main|1:00|1\n")
    assert again.find("tarmac-1", SINCE) == Submitted(90, "tarmac-1")
    recorded.answer("sacct", err="sacct: error: slurmdbd is gone", code=1)
    assert again.find("tarmac-1", SINCE) == NoAnswer(
        "sacct", "sacct: error: slurmdbd is gone (exit code 1)"
    )
    recorded.answer("squeue", "busy\n")
    assert again.find("tarmac-1", SINCE) == NoAnswer("squeue", "busy")


def test_many_names_are_asked_for_as_all_of_the_users_jobs(recorded, slurm):
    rows = "tarmac|80_[0-1]|job-3|PENDING||Priority\ntarmac|9|other|RUNNING|n1|None\n"
    recorded.answer("squeue", HEADER + rows)
    names = [f"job-{number}" for number in range(64)]
    assert [str(queued.unit) for queued in slurm.queue(names)] == ["80_0", "80_1"]
    assert f"--name={','.join(sorted(names))}" in recorded.calls("squeue")[0]
    assert len(slurm.queue([*names, "one-more"])) == 2
    (asked,) = recorded.calls("squeue")
    assert "--name" not in asked
    assert USER in asked


def test_the_nodes_of_ones_running_jobs_are_named_one_by_one(recorded, slurm):
    assert slurm.own_nodes() == ()
    rows = "tarmac|80|a|RUNNING|n[1-2]|None\ntarmac|81|b|RUNNING|n[1-2]|None\n"
    recorded.answer("squeue", f"{HEADER}{rows}tarmac|82|c|RUNNING|n2|None\n")
    recorded.answer("scontrol show hostnames", "n1\nn2\nn2\n")
    assert slurm.own_nodes() == ("n1", "n2")
    assert recorded.calls("scontrol") == ["scontrol show hostnames n[1-2],n2"]
    recorded.answer("scontrol show hostnames", "a notice of the site\n")
    assert isinstance(slurm.own_nodes(), NoAnswer)
    recorded.answer("squeue", "")
    assert slurm.own_nodes() == NoAnswer("squeue", "printed nothing")


REMEMBERED = (
    "JobId=82 ArrayJobId=80 ArrayTaskId=1 JobName=x JobState=FAILED ExitCode=3:0 NodeList=n1\n"
)


def test_without_accounts_the_controller_is_asked_for_one_job_or_for_all(recorded, slurm):
    recorded.answer("scontrol --oneliner show job", REMEMBERED)
    (accounted,) = slurm.ended([Unit(80, 1), Unit(80, 2)], SINCE)
    assert (accounted.unit, accounted.state, accounted.exit_code) == (Unit(80, 1), "failed", 3)
    assert recorded.calls("scontrol")[-1] == "scontrol --oneliner show job 80"
    assert len(slurm.ended([Unit(80, 1), Unit(81)], SINCE)) == 1
    assert recorded.calls("scontrol") == ["scontrol --oneliner show job"]
    gone = "slurm_load_jobs error: Invalid job id specified"
    recorded.answer("scontrol --oneliner show job", err=gone, code=1)
    assert slurm.ended([Unit(80, 1)], SINCE) == []
    recorded.answer("scontrol --oneliner show job", err="Unable to contact slurm", code=1)
    assert slurm.ended([Unit(80, 1)], SINCE) == NoAnswer(
        "scontrol", "Unable to contact slurm (exit code 1)"
    )


def test_accounts_are_asked_first_and_the_controller_where_they_are_silent(recorded, slurm):
    recorded.answer("scontrol show config", ACCOUNTING)
    recorded.answer("scontrol --oneliner show job", REMEMBERED)
    rows = "80_1|COMPLETED|0:0|n1|||main|1:00|1\n99|COMPLETED|0:0|n1|||main|1:00|1\n"
    recorded.answer("sacct", SACCT + rows)
    (accounted,) = slurm.ended([Unit(81), Unit(80, 1)], SINCE)
    assert (accounted.unit, accounted.state) == (Unit(80, 1), "completed")
    assert recorded.calls("sacct")[0].endswith("--jobs=80,81")
    recorded.answer("sacct", err="sacct: error: slurmdbd is gone", code=1)
    (accounted,) = slurm.ended([Unit(80, 1)], SINCE)
    assert accounted.state == "failed"


def test_many_units_are_asked_for_in_calls_of_five_hundred(recorded, slurm):
    rows = "".join(f"{job}|COMPLETED|0:0|n1|||main|1:00|1\n" for job in range(1, 1002))
    recorded.answer("scontrol show config", ACCOUNTING)
    recorded.answer("sacct", SACCT + rows)
    units = [Unit(job) for job in range(1, 1002)]
    assert [accounted.unit for accounted in slurm.ended(units, SINCE)] == units
    asked = [call.rpartition("=")[2].split(",") for call in recorded.calls("sacct")]
    assert [len(jobs) for jobs in asked] == [500, 500, 1]


def test_units_are_cancelled_by_spans_of_their_elements(recorded, slurm):
    units = [Unit(81), *(Unit(80, element) for element in (7, 1, 2, 3, 9))]
    assert slurm.cancel(units, names=["tarmac-1", "tarmac-2"]) is None
    assert recorded.calls("scancel") == [
        "scancel --quiet 80_[1-3,7,9] 81",
        f"scancel --quiet {USER} --name=tarmac-1",
        f"scancel --quiet {USER} --name=tarmac-2",
    ]
    assert slurm.cancel() is None
    assert recorded.calls("scancel") == []


def test_very_many_units_are_cancelled_in_lines_that_scancel_takes(recorded, slurm):
    assert slurm.cancel([Unit(80, element) for element in range(0, 802, 2)]) is None
    (line,) = recorded.calls("scancel")
    spans = [word.removeprefix("80_[").rstrip("]").split(",") for word in line.split()[2:]]
    assert [len(span) for span in spans] == [200, 200, 1]
    assert spans[2] == ["800"]
    assert slurm.cancel([Unit(job) for job in range(1, 1002)]) is None
    lines = [line.split()[2:] for line in recorded.calls("scancel")]
    assert [len(jobs) for jobs in lines] == [500, 500, 1]
    assert sorted(int(job) for jobs in lines for job in jobs) == [*range(1, 1002)]


def test_what_has_left_is_no_error_and_other_words_are_silence(recorded, slurm):
    gone = "Invalid job id specified"
    for call in ("scancel", "scontrol update"):
        recorded.answer(call, err=f"error: {gone}", code=1)
    assert slurm.cancel([Unit(80)]) is None
    assert slurm.avoid(80, ["n1"]) is None
    assert slurm.throttle(80, 3) is None
    recorded.answer("scontrol update", err="80_1: Job is no longer pending execution", code=1)
    assert slurm.avoid(80, ["n1", "n2"]) is None
    assert recorded.calls("scontrol")[-1] == "scontrol update JobId=80 ExcNodeList=n1,n2"
    assert slurm.throttle(80, 3) == NoAnswer(
        "scontrol", "80_1: Job is no longer pending execution (exit code 1)"
    )
    assert recorded.calls("scontrol")[-1] == "scontrol update JobId=80 ArrayTaskThrottle=3"
    for call in ("scancel", "scontrol update"):
        recorded.answer(call, err="Unable to contact slurm controller", code=1)
    for answer in (slurm.cancel([Unit(80)]), slurm.cancel(names=["x"]), slurm.avoid(80, ["n1"])):
        assert isinstance(answer, NoAnswer)
        assert answer.words == "Unable to contact slurm controller (exit code 1)"


def test_a_silent_controller_is_silence_to_every_question(recorded, slurm, script):
    for call in ("scontrol", "sinfo", "squeue", "sacct", "scancel", "sbatch"):
        recorded.answer(call, err=f"{call}: Unable to contact slurm controller", code=1)
    answers = [
        slurm.limits(),
        slurm.nodes(),
        slurm.test(script),
        slurm.submit(script, recorded.variables),
        slurm.find(script.name, SINCE),
        slurm.queue([script.name]),
        slurm.ended([Unit(1)], SINCE),
        slurm.own_nodes(),
    ]
    assert {type(answer) for answer in answers} == {NoAnswer}


def test_a_program_that_does_not_start_or_says_too_much_is_silence(recorded, slurm, tmp_path):
    recorded.answer("squeue", "x" * 1000)
    assert slurm.queue(["a"]).words == "x" * 500 + "..."
    remember("s3cret" * 10)
    recorded.answer("squeue", "x" * 480 + "s3cret" * 10)
    assert "s3cret" not in slurm.queue(["a"]).words
    (tmp_path / "recorded-slurm/squeue").write_text("not a program")
    assert "cannot be started" in slurm.queue(["a"]).words
