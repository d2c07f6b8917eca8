"""Chunks as jobs and arrays of Slurm's: what sbatch gets, and what recorded answers mean."""

from __future__ import annotations

import pytest

from recorded_slurm import CONFIG, HEADER, RecordedSlurm
from tarmac.executors.queueing import (
    Accepted,
    ChunkFiles,
    Full,
    Refused,
    Silent,
    UnitName,
)
from tarmac.executors.slurm import SlurmEngine
from tarmac.jobs import parse_job, plan_tasks
from tarmac.slurm import SlurmCommands

BUSY = "Unable to contact slurm controller"
SILENT = Silent(f"squeue: {BUSY} (exit code 1)")
# As slurmstepd prints it.
CANCELLED = "slurmstepd: error: *** JOB 80 ON n1 CANCELLED AT 2026-11-22T10:00:00{} ***\n"


@pytest.fixture
def recorded(tmp_path):
    return RecordedSlurm(tmp_path)


@pytest.fixture
def files(tmp_path):
    return ChunkFiles(tmp_path / "run")


@pytest.fixture
def engine(recorded, files, tmp_path):
    slurm = SlurmCommands(recorded.variables)
    return SlurmEngine(slurm, tmp_path / "run/agent.pyz", files, {"PATH": "/bin"}, 3)


@pytest.fixture
def chunk_of(engine, files, tmp_path):
    """Return a function that makes a chunk of some attempts, as job 80."""

    def make(number: int = 3, *, per_unit: int = 1, job: str = "80", **needs):
        # Tasks of one name have one shape.
        name = f"x{len(str(needs))}-{needs.get('gpus')}"
        job_text = f"{{name: {name}, command: 'true', priority: 1, resources: {needs or {}}}}"
        (task,) = plan_tasks(parse_job(job_text), tmp_path)
        attempts = [(index, 1) for index in range(number)]
        record = files.make(dict(engine.shape(task)), attempts, per_unit)
        files.output(record).mkdir(parents=True)
        return record.model_copy(update={"job": job})

    return make


def test_a_site_says_how_many_units_a_chunk_may_have_and_which_cluster_it_is(
    engine, recorded, files, monkeypatch, tmp_path
):
    monkeypatch.delenv("SLURM_CONF", raising=False)
    assert engine.most_units == 1000
    assert engine.cluster().uid == "tarmac@head:6817"
    monkeypatch.setenv("SLURM_CONF", "/etc/a b")
    assert engine.cluster().way == "SLURM_CONF='/etc/a b'"

    def another(config: str, code: int = 0) -> SlurmEngine:
        recorded.answer("scontrol show config", config, code=code)
        return SlurmEngine(SlurmCommands(recorded.variables), tmp_path / "agent.pyz", files, {})

    few = another(CONFIG.replace("1001", "11").replace("SlurmctldHost", "Host"))
    assert (few.most_units, few.cluster().uid) == (10, "")
    silent = another("", 1)
    assert (silent.most_units, silent.cluster()) == (1000, None)
    assert another(CONFIG.replace("1001", "1")).most_units == 1


def test_an_array_gets_a_line_for_each_of_its_rules(engine, recorded, chunk_of, files, tmp_path):
    chunk = chunk_of(3, gpus=1, memory="1 GiB")
    assert engine.submit(chunk, most_at_once=2, excluded=["n2", "n1"]) == Accepted("80")
    lines = recorded.sent().splitlines()
    assert f"#SBATCH --job-name={chunk.name}" in lines
    assert "#SBATCH --array=0-2%2" in lines
    assert "#SBATCH --exclude=n1,n2" in lines
    assert any(line.startswith("#SBATCH --gres=gpu:1") for line in lines)
    # The agent's own memory comes to the program's.
    assert f"#SBATCH --mem={1024 + 64}M" in lines
    # Two steps behind the run's most urgent task.
    assert "#SBATCH --nice=200" in lines
    output = f"--output={tmp_path}/run/chunks/0000/%A_%a.engine"
    assert any(output in line.replace('"', "") for line in lines)
    assert lines[-1].startswith(f"exec sh {tmp_path}/run/agent.pyz {files.spec(chunk)} ")
    assert lines[-1].endswith('"${SLURM_ARRAY_TASK_ID:-0}"'), lines[-1]
    assert sum("sinfo" in call for call in recorded.calls()) == 1
    engine.submit(chunk, most_at_once=None, excluded=())
    assert "#SBATCH --array=0-2" in recorded.sent().splitlines()
    # Nodes are known by then.
    assert not [call for call in recorded.calls() if "sinfo" in call]


def test_one_unit_is_no_array_and_several_attempts_in_one_are_counted(engine, recorded, chunk_of):
    engine.submit(chunk_of(5, per_unit=5), most_at_once=None, excluded=())
    text = recorded.sent()
    assert "--array" not in text
    assert "%j.engine" in text
    assert text.splitlines()[-1].endswith(" 5")
    engine.submit(chunk_of(5, per_unit=2), most_at_once=None, excluded=())
    assert "#SBATCH --array=0-2\n" in recorded.sent()
    assert recorded.sent().splitlines()[-1].endswith(" 2")


@pytest.mark.parametrize(
    ("err", "answer"),
    [
        (
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission "
            "failed: Job violates accounting/QOS policy (job submit limit, user's size and/or "
            "time limits)",
            Full(""),
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid partition name specified",
            Refused("Invalid partition"),
        ),
        (f"sbatch: error: {BUSY}", Silent(f"sbatch: sbatch: error: {BUSY}")),
    ],
)
def test_what_sbatch_does_not_take_is_full_refused_or_unknown(
    engine, recorded, chunk_of, err, answer
):
    recorded.answer("sbatch --parsable", err=err, code=1)
    said = engine.submit(chunk_of(), most_at_once=None, excluded=())
    assert isinstance(said, type(answer)), said
    assert answer.words.lower() in said.words.lower()


def test_what_no_node_has_is_refused_with_what_to_do_and_silent_nodes_are_silence(
    engine, recorded, chunk_of
):
    recorded.answer("sinfo", err=BUSY, code=1)
    silent = Silent(f"sinfo: {BUSY} (exit code 1)")
    assert engine.submit(chunk_of(gpus=1), most_at_once=None, excluded=()) == silent
    assert engine.avoid(chunk_of(gpus=1), ["n1"]) == silent
    recorded.answer("sinfo", NODES_OF_TWO_KINDS)
    refused = engine.submit(chunk_of(gpus=3), most_at_once=None, excluded=())
    assert isinstance(refused, Refused)
    assert "no node of this Slurm has more than 2" in f"{refused}"
    assert engine.avoid(chunk_of(gpus=3), ["n1"]) is None


NODES_OF_TWO_KINDS = """\
tarmac|NODELIST|PARTITION|STATE|CPUS|MEMORY|TIMELIMIT|AVAIL_FEATURES|GRES|REASON
tarmac|n1|main*|IDLE|4|4096|infinite|(null)|gpu:a100:2|none
tarmac|n2|main*|IDLE|4|4096|infinite|(null)|gpu:v100:1|none
"""


def test_a_chunk_is_found_by_its_name(engine, recorded, chunk_of):
    chunk = chunk_of(job="")
    assert engine.find(chunk) is None
    recorded.answer("squeue", f"{HEADER}tarmac|80_1|{chunk.name}|RUNNING|n1|None\n")
    assert engine.find(chunk) == Accepted("80")
    recorded.answer("squeue", err=BUSY, code=1)
    assert engine.find(chunk) == SILENT


def test_what_squeue_shows_is_a_phase_with_its_reason(engine, recorded, chunk_of):
    chunk = chunk_of(8)
    rows = [
        "80_0|PENDING||Priority",
        "80_1|PENDING||None",
        "80_2|RUNNING|n1|None",
        "80_3|COMPLETING|n2|None",
        "80_4|SUSPENDED|n1|None",
        "80_5|COMPLETED|n1|None",
        "80_6|REQUEUED||BeginTime",
        "80_7|SIGNALING|n1|None",
    ]
    lines = [f"tarmac|{row.partition('|')[0]}|{chunk.name}|{row.partition('|')[2]}" for row in rows]
    other = "tarmac|7|of-another|RUNNING|n1|None"
    recorded.answer("squeue", HEADER + "\n".join([*lines, other]) + "\n")
    shown = engine.look([chunk])
    assert [name.unit for name in shown] == [*range(8)]
    assert {name.chunk for name in shown} == {0}
    assert [one.phase for one in shown.values()] == [
        *("waiting", "waiting", "running", "running", "running", "over", "waiting"),
        shown[UnitName(0, 7)].phase,
    ]
    assert shown[UnitName(0, 0)].reason == "waits for its turn (Priority)"
    assert shown[UnitName(0, 1)].reason == ""
    assert (shown[UnitName(0, 2)].host, shown[UnitName(0, 2)].job) == ("n1", "80")
    assert shown[UnitName(0, 4)].reason == "is suspended by Slurm"
    recorded.answer("squeue", err=BUSY, code=1)
    assert engine.look([chunk]) == SILENT


def test_a_limit_that_never_lets_a_job_start_is_asked_for_once(engine, recorded, chunk_of):
    chunk = chunk_of(2)
    row = f"|{chunk.name}|PENDING||QOSGrpCpuLimit\n"
    recorded.answer("squeue", f"{HEADER}tarmac|80_0{row}tarmac|80_1{row}")
    job = "JobId=80 UserId=me(1000) Account=vision QOS=small Partition=gpu TRES=cpu=4,node=1 A=b\n"
    recorded.answer("scontrol --oneliner show job", job)
    recorded.answer("scontrol --oneliner show partition", "PartitionName=gpu QoS=N/A\n")
    # RecordedSlurm has no sacctmgr: a site may not let its limits be read.
    shown = engine.look([chunk])
    assert not shown[UnitName(0, 0)].reason.startswith("can never start")
    calls = recorded.calls("scontrol")
    assert calls.count("scontrol --oneliner show job 80") == 1


SHOWN = "JobId=80 ArrayJobId=80 ArrayTaskId={} JobName=x JobState={} ExitCode={} NodeList=n1\n"


def test_ends_are_told_by_the_controller_and_else_by_what_slurmstepd_printed(
    engine, recorded, chunk_of, files
):
    chunk = chunk_of(4)
    said = SHOWN.format(0, "COMPLETED", "0:0") + SHOWN.format(1, "FAILED", "1:0")
    recorded.answer("scontrol --oneliner show job", said)
    output = files.output(chunk)
    (output / "80_1.engine").write_text("one\n\n  two  \n")
    (output / "80_2.engine").write_text(CANCELLED.format(" DUE TO TIME LIMIT"))
    endings = engine.endings([(chunk, number) for number in range(4)])
    assert {name.unit for name in endings} == {0, 1, 2}
    assert endings[UnitName(0, 0)].cause is None
    failed = endings[UnitName(0, 1)]
    assert failed.cause == "start"
    assert failed.words.endswith("(exit code 1) on n1, and its job printed: one / two")
    limit = endings[UnitName(0, 2)]
    assert (limit.cause, limit.words, limit.host) == (
        *("timeout", "the time limit of its job in Slurm"),
        "n1",
    )
    assert engine.final_status(chunk, 2) == limit
    assert engine.final_status(chunk, 3) is None
    assert engine.endings([(chunk_of(job=""), 0)]) == {}
    assert engine.final_status(chunk_of(job=""), 0) is None
    recorded.answer("scontrol --oneliner show job", err=BUSY, code=1)
    assert engine.endings([(chunk, 0)]) == Silent(f"scontrol: {BUSY} (exit code 1)")


def test_only_the_last_lines_that_a_job_printed_are_told(engine, recorded, chunk_of, files):
    chunk = chunk_of(1)
    said = SHOWN.replace("ArrayJobId=80 ArrayTaskId={} ", "").format("FAILED", "9:0")
    recorded.answer("scontrol --oneliner show job", said)
    printed = "".join(f"line {number}\n" for number in range(2000))
    (files.output(chunk) / "80.engine").write_text(printed)
    (ending,) = engine.endings([(chunk, 0)]).values()
    assert ending.words.endswith("printed: " + " / ".join(f"line {n}" for n in range(1995, 2000)))


def test_units_and_chunks_are_cancelled_by_number_and_by_name(engine, recorded, chunk_of):
    array, one, unknown = chunk_of(3), chunk_of(1, job="81"), chunk_of(job="")
    assert engine.cancel([(array, 1), (array, 2), (one, 0), (unknown, 0)], [unknown]) is None
    calls = recorded.calls("scancel")
    assert calls[0] == "scancel --quiet 80_[1-2] 81"
    assert calls[1].endswith(f"--name={unknown.name}")
    recorded.answer("scancel", err=BUSY, code=1)
    assert engine.cancel([(one, 0)]) == Silent(f"scancel: {BUSY} (exit code 1)")


def test_a_host_is_avoided_unless_no_other_would_do(engine, recorded, chunk_of):
    chunk = chunk_of()
    assert engine.avoid(chunk, ["n2", "n1"]) is None
    update = "scontrol update JobId=80 ExcNodeList=n1,n2"
    assert recorded.calls("scontrol")[-1] == update
    refusal = "allocation failure: Requested node configuration is not available"
    recorded.answer("sbatch --test-only", err=refusal, code=1)
    assert engine.avoid(chunk, ["n1", "n2"]) is None
    assert recorded.calls("scontrol") == []
    recorded.answer("sbatch --test-only", err=BUSY, code=1)
    assert engine.avoid(chunk, ["n1"]) == Silent(f"sbatch: {BUSY} (exit code 1)")
    recorded.answer("sbatch --test-only")
    recorded.answer("scontrol update", err=BUSY, code=1)
    silent = Silent(f"scontrol: {BUSY} (exit code 1)")
    assert engine.avoid(chunk, ["n1"]) == silent
    assert engine.throttle(chunk, 4) == silent


def test_an_array_is_throttled(engine, recorded, chunk_of):
    assert engine.throttle(chunk_of(), 4) is None
    assert recorded.calls("scontrol")[-1] == "scontrol update JobId=80 ArrayTaskThrottle=4"
