"""What Slurm says, read and put in words: recorded texts of its commands."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tarmac.errors import RequestError
from tarmac.slurm import (
    Gres,
    SlurmNode,
    Unit,
    explain_full,
    explain_reason,
    explain_refusal,
    is_full,
    read_gres,
    read_state,
    request_gpus,
)
from tarmac.slurm.answers import (
    read_accounting,
    read_job_number,
    read_jobs,
    read_limits,
    read_nodes,
    read_queue,
)
from tarmac.slurm.words import is_silence

HEADER = "tarmac|JOBID|NAME|STATE|NODELIST|REASON\n"


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("PENDING", "pending"),
        ("CONFIGURING", "pending"),
        ("COMPLETING", "completing"),
        ("CANCELLED by 1002", "cancelled"),
        ("CANCELLED+", "cancelled"),
        ("DEADLINE", "timeout"),
        ("BOOT_FAIL", "node_fail"),
        ("REQUEUE_HOLD", "requeued"),
        ("STOPPED", "suspended"),
        ("SOMETHING_NEW", "other"),
        ("", "other"),
    ],
)
def test_a_state_is_known_by_its_word(word, state):
    assert read_state(word) == state


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "waits for its turn (Priority)"),
        (
            "PartitionConfig",
            "it requests more than its partition allows; request less, or choose another "
            "`partition` (PartitionConfig)",
        ),
        ("(Resources)", "is next; waits for free resources (Resources)"),
        (
            "QOSMaxGRESPerUser",
            "waits until the QOS is below its limit of GPUs (QOSMaxGRESPerUser)",
        ),
        (
            "QOSMaxCpuPerUserLimit",
            "waits until the QOS is below its limit of CPUs (QOSMaxCpuPerUserLimit)",
        ),
        (
            "AssocGrpGRES",
            "waits until the account or its user is below its limit of GPUs (AssocGrpGRES)",
        ),
        (
            "AssocGrpCpuLimit",
            "waits until the account or its user is below its limit of CPUs (AssocGrpCpuLimit)",
        ),
        (
            "AssocMaxJobsLimit",
            "waits until the account or its user is below its limit of jobs (AssocMaxJobsLimit)",
        ),
        (
            "QOSMaxNodePerJobLimit",
            "requests more nodes than the QOS allows per job; request less (QOSMaxNodePerJobLimit)",
        ),
        (
            "launch failed requeued held",
            "could not be started and is held; read its node's log, then release it: scontrol "
            "release JOB (launch failed requeued held)",
        ),
        *(
            (
                f"Job's {kind} not {why} use this partition (gpu allows b)",
                f"never starts: its partition does not accept its {kind}; choose another "
                f"`partition` or another `{kind.lower()}` (Job's {kind} not {why} use this "
                "partition (gpu allows b))",
            )
            for kind in ("QOS", "account")
            for why in ("permitted to", "known, so it can't")
        ),
        ("SomethingNew (of late)", "waits: SomethingNew (of late)"),
        ("(SomethingNew)", "waits: SomethingNew"),
        ("SomethingNew", "waits: SomethingNew"),
        ("", "waits"),
    ],
)
def test_a_reason_to_wait_is_said_in_words_with_slurms_beside_them(reason, words):
    assert explain_reason(reason) == words


def test_a_reason_that_names_nodes_keeps_them():
    reason = "ReqNodeNotAvail, UnavailableNodes:n[1-2]"
    assert explain_reason(reason).endswith("(ReqNodeNotAvail, UnavailableNodes:n[1-2])")
    assert "shorten `time`" in explain_reason(reason)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "sbatch: error: invalid partition specified: nowhere\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified",
            "`sinfo` lists them",
        ),
        (
            "sbatch: error: Batch job submission failed: "
            "Invalid account or account/partition combination specified",
            "has expired",
        ),
        (
            "allocation failure: Requested node configuration is not available",
            "enough CPUs, GPUs or memory",
        ),
        (
            "sbatch: error: Batch job submission failed: Requested time limit is invalid "
            "(missing or exceeds some limit)",
            "Shorten `time`",
        ),
    ],
)
def test_a_refusal_keeps_slurms_words_and_says_what_to_do(said, advice):
    first, second = explain_refusal(said).splitlines()
    assert not first.startswith("sbatch: ")
    assert advice in second


def test_an_unknown_refusal_is_said_as_it_is():
    assert explain_refusal("sbatch: error: the site's own words") == "the site's own words"


# Of slurm_errno.c and threads of other projects, versions 20.11 to 24.05.
SILENT = [
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
    "sbatch: error: Batch job submission failed: Unexpected message received",
    "slurm_load_jobs error: Slurm backup controller in standby mode",
    "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to "
    "host:localhost:6819: Connection refused",
    "sbatch: error: Munge encode failed: Failed to connect to any munged",
]


@pytest.mark.parametrize("said", SILENT)
def test_what_only_says_that_slurm_was_not_reached_is_silence(said):
    assert is_silence(said)
    assert not is_full(said)


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        (
            "sbatch: error: AssocMaxSubmitJobLimit\n"
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy",
            "(AssocMaxSubmitJobLimit)",
        ),
        (
            "sbatch: error: Batch job submission failed: Slurm temporarily unable to accept job, "
            "sleeping and retrying",
            "(Batch job submission failed: Slurm temporarily unable to accept job, sleeping and "
            "retrying)",
        ),
    ],
)
def test_a_full_queue_is_said_in_words_with_slurms_beside_them(said, limit):
    words = explain_full(said)
    assert words.startswith(
        "the site accepts no more of your jobs now; the others follow as jobs end ("
    )
    assert words.endswith(limit)


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job "
        "violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "sbatch: error: QOSMaxSubmitJobPerUserLimit",
    ],
)
def test_a_queue_that_is_full_for_a_user_is_told_from_a_refusal_for_ever(said):
    assert is_full(said)
    assert not is_silence(said)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("80\n", 80),
        ("80;cluster\n", 80),
        ("Welcome! 12 jobs run.\n2026\n\n* read the news\n80\n", 80),
        ("Submitted batch job 80\n", None),
        ("", None),
    ],
)
def test_a_jobs_number_is_read_behind_a_sites_notices(said, number):
    assert read_job_number(said) == number


def test_an_array_that_waits_is_shown_as_its_units():
    said = (
        "a notice\n"
        + HEADER
        + "tarmac|80_[0-2,7,10-14:2%3]|tarmac-1|PENDING||Priority\n"
        + "tarmac|80_3|tarmac-1|RUNNING|n1|None\n"
        + "tarmac|81|tarmac-2|COMPLETING|n[1-2]|None\n"
    )
    shown = read_queue(said)
    assert [str(queued.unit) for queued in shown] == [
        *("80_0", "80_1", "80_2", "80_7", "80_10", "80_12", "80_14", "80_3", "81")
    ]
    assert {queued.state for queued in shown[:7]} == {"pending"}
    assert (shown[7].nodes, shown[8].state, shown[8].nodes) == ("n1", "completing", "n[1-2]")


@pytest.mark.parametrize(
    "said",
    [
        "",
        "garbage\n",
        "tarmac|80_3|tarmac-1|RUNNING|n1|None\n",
        HEADER + "tarmac|80_3|tarmac-1|RUN",
        HEADER + "tarmac|80_[0-2,...]|tarmac-1|PENDING||Priority\n",
        HEADER + "tarmac|what|tarmac-1|PENDING||Priority\n",
    ],
)
def test_what_is_no_list_of_jobs_is_no_answer(said):
    assert read_queue(said) is None


def test_an_empty_queue_is_told_from_no_answer_by_its_header():
    assert read_queue(HEADER) == []


SACCT = """\
JobID|State|ExitCode|NodeList|MaxRSS|End|Partition|Timelimit|Elapsed
80_0|PREEMPTED|0:15|n1||2026-11-22T09:00:00|main|1-00:30:00|00:10:00
80_0.batch|CANCELLED|0:15|n1|10K|2026-11-22T09:00:00|||00:10:00
80_0|COMPLETED|0:0|n2||2026-11-22T10:00:00|main|1-00:30:00|00:10:00
80_0.batch|COMPLETED|0:0|n2|2048K|2026-11-22T10:00:00|||00:10:00
80_1|FAILED|1:0|n1||2026-11-22T10:00:00|main|1-00:30:00|00:10:00
80_1.batch|OUT_OF_MEMORY|0:125|n1|4096K|2026-11-22T10:00:00|||00:10:00
80_2|CANCELLED by 1002|0:0|None assigned||2026-11-22T10:00:00|main|1-00:30:00|00:10:00
80_[3-4]|CANCELLED by 1002|0:0|None assigned||2026-11-22T10:00:00|main|1-00:30:00|00:10:00
81|RUNNING|0:0|n[1-2]||Unknown|main|UNLIMITED|00:10:00
"""


def test_accounts_tell_the_last_try_and_the_most_memory_of_a_unit():
    found = {str(one.unit): one for one in read_accounting(SACCT)}
    assert list(found) == ["80_0", "80_1", "80_2", "80_3", "80_4", "81"]
    first = found["80_0"]
    assert (first.state, first.nodes, first.max_rss_bytes) == ("completed", "n2", 2048 * 1024)
    assert first.ended_at == datetime(2026, 11, 22, 10, tzinfo=UTC)
    assert (first.partition, first.time_limit_s, first.ran_s) == ("main", 88200.0, 600.0)
    assert found["81"].time_limit_s is None
    assert (found["80_1"].state, found["80_1"].exit_code) == ("out_of_memory", 1)
    assert (found["80_2"].state, found["80_2"].word) == ("cancelled", "CANCELLED by 1002")
    assert found["80_2"].nodes == ""
    # What was cancelled before it began stands in one line.
    assert found["80_4"].state == "cancelled"
    assert (found["81"].state, found["81"].ended_at) == ("running", None)


def test_accounts_without_their_header_are_no_answer():
    assert read_accounting("80|COMPLETED|0:0|n1||Unknown\n") is None
    assert read_accounting("Slurm accounting storage is disabled\n") is None
    assert read_accounting(SACCT.partition("\n")[0]) == []


def test_jobs_that_the_controller_remembers_are_read_one_a_line():
    said = (
        "JobId=82 ArrayJobId=80 ArrayTaskId=1 JobName=tarmac-1 JobState=NODE_FAIL Reason=NodeDown "
        "ExitCode=1:0 EndTime=2026-11-22T10:00:00 NodeList=n1 Comment=JobState=x\n"
        "JobId=80 ArrayJobId=80 ArrayTaskId=2-9%2 JobName=tarmac-1 JobState=PENDING ExitCode=0:0\n"
        "JobId=90 JobName=other JobState=RUNNING ExitCode=0:0 NodeList=n2\n"
    )
    first, *waiting, second = read_jobs(said)
    assert [one.unit.element for one in waiting] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert {one.state for one in waiting} == {"pending"}
    assert (first.unit, first.state, first.nodes) == (Unit(80, 1), "node_fail", "n1")
    assert (second.unit, second.state) == (Unit(90), "running")
    assert read_jobs("No jobs in the system\n") == []
    assert read_jobs("") is None


def test_limits_are_read_only_from_an_answer():
    said = "JobRequeue = 0\nMaxArraySize = 11\nKillWait = 30 sec\nSLURM_VERSION = 24.05.1\n"
    limits = read_limits(said + "AccountingStorageType = accounting_storage/slurmdbd\n")
    assert (limits.version, limits.max_array_size, limits.kill_wait_s) == ("24.05.1", 11, 30)
    assert limits.has_accounting
    assert not limits.requeues
    assert read_limits("MaxArraySize = 11\n") is None


def test_a_cluster_is_known_by_its_name_and_its_first_controller():
    said = (
        "SLURM_VERSION = 24.05.1\nClusterName = c\nSlurmctldPort = 6817\n"
        "SlurmctldHost[0] = head(10.0.0.1)\nSlurmctldHost[1] = backup\n"
    )
    limits = read_limits(said)
    assert (limits.cluster, limits.controller) == ("c", "head:6817")
    assert read_limits("SLURM_VERSION = 17.11\nClusterName = c\n").controller == ""


def test_nodes_are_read_with_their_gpus_and_the_reason_why_one_is_down():
    said = (
        "tarmac|NODELIST|PARTITION|STATE|CPUS|MEMORY|TIMELIMIT|AVAIL_FEATURES|GRES|REASON\n"
        "tarmac|n1|gpu*|IDLE|64|1000000|1-00:00:00|a100,ib|gpu:a100:4(S:0-1)|none\n"
        "tarmac|n2|gpu*|DRAINED*|64|1000000|1-00:00:00|(null)|(null)|fan | broken\n"
    )
    first, second = read_nodes(said)
    assert first.gres == (Gres("gpu", "a100", 4),)
    assert (first.partition, first.is_default, first.features) == ("gpu", True, ("a100", "ib"))
    assert first.is_usable
    assert not second.is_usable
    assert (second.gres, second.features, second.reason) == ((), (), "fan | broken")
    assert read_nodes("") is None


@pytest.mark.parametrize(
    ("words", "gres"),
    [
        ("gpu:2", [Gres("gpu", "", 2)]),
        ("gpu:a100:4(S:0-1)", [Gres("gpu", "a100", 4)]),
        (
            "gpu:a100_3g.20gb:8(S:0,1),shard:a100:16(S:0,1)",
            [Gres("gpu", "a100_3g.20gb", 8), Gres("shard", "a100", 16)],
        ),
        ("gpu:2080ti:4", [Gres("gpu", "2080ti", 4)]),
        ("gpu", [Gres("gpu", "", 1)]),
        ("(null)", []),
    ],
)
def test_generic_resources_are_read_with_kind_and_number(words, gres):
    assert list(read_gres(words)) == gres


def node(gres: str, partition: str = "main") -> SlurmNode:
    return SlurmNode(
        name="n1",
        partition=partition,
        is_default=True,
        state="idle",
        cpus=8,
        memory_bytes=2**30,
        gres=read_gres(gres),
    )


@pytest.mark.parametrize(
    ("gres", "gpus", "kind", "asked"),
    [
        ("gpu:2", 2, "", "gpu:2"),
        ("gpu:a100:4,gpu:v100:2", 3, "a100", "gpu:a100:3"),
        ("gpu:a100:4,gpu:v100:2", 5, "", "gpu:5"),
        ("gpu:4,shard:16", 0.5, "", "shard:2"),
        ("gpu:2,mps:200", 0.25, "", "mps:25"),
        ("gpu:1,shard:3", 0.5, "", "shard:2"),
    ],
)
def test_gpus_are_asked_for_as_the_site_has_them(gres, gpus, kind, asked):
    assert request_gpus([node(gres)], gpus, kind=kind) == asked


@pytest.mark.parametrize(
    ("gres", "gpus", "kind", "words"),
    [
        ("(null)", 1, "", "no node of this Slurm has GPUs"),
        ("gpu:2", 3, "", "no node of this Slurm has more than 2"),
        ("gpu:a100:2,gpu:v100:4", 3, "a100", "no node of this Slurm has more than 2"),
        ("gpu:a100:2", 1, "a10", "did you mean 'a100'"),
        ("gpu:2", 1, "a100", "have no kinds"),
        ("gpu:2", 0.5, "", "cuts GPUs into parts"),
    ],
)
def test_gpus_that_no_node_has_are_refused_in_words(gres, gpus, kind, words):
    with pytest.raises(RequestError, match=words):
        request_gpus([node(gres)], gpus, kind=kind)


def test_gpus_of_another_partition_do_not_count():
    nodes = [node("gpu:4", "gpu"), node("(null)", "cpu")]
    assert request_gpus(nodes, 4, partition="gpu") == "gpu:4"
    with pytest.raises(RequestError, match="no node of partition 'cpu' has GPUs") as refused:
        request_gpus(nodes, 1, partition="cpu")
    assert refused.value.hint == "GPUs are in the partitions gpu: `partition` in options.slurm."
