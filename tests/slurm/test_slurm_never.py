"""What a limit never lets start, from what scontrol and sacctmgr of 22.05 and 24.11 print."""

from __future__ import annotations

import pytest

from tarmac.slurm import SlurmCommands, is_amount_limit
from tarmac.slurm.never import read_asked, why_never

JOB = (
    "JobId=342 ArrayJobId=342 ArrayTaskId=0-9 JobName=x UserId=me(1000) Account=vision QOS=small "
    "JobState=PENDING Reason=QOSGrpCpuLimit Partition=gpu NumCPUs=4 "
    "TRES=cpu=4,mem=2G,node=2,billing=4,gres/gpu=8,gres/gpu:a100=8 Comment=/a b\n"
)
NEW = JOB.replace("TRES=", "ReqTRES=", 1).replace(" Comment", " AllocTRES=(null) Comment")


@pytest.mark.parametrize("text", [JOB, NEW])
def test_what_a_job_asks_for_is_read(text):
    asked = read_asked(f"a notice of the site\n{text}")
    assert (asked.qos, asked.account, asked.partition) == ("small", "vision", "gpu")
    assert asked.tres["cpu"] == 4
    assert asked.tres["mem"] == 2048
    assert asked.tres["gres/gpu:a100"] == 8


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error: Invalid job id specified", "JobId=1"])
def test_what_is_no_job_is_none(text):
    assert read_asked(text) is None


@pytest.mark.parametrize(
    ("qos", "associations", "words"),
    [
        (["small|cpu=2|||"], [], "it asks for cpu=4, and QOS small allows 2 in all (GrpTRES)"),
        (["small|cpu=4|||"], [], ""),
        (["small||cpu=2||"], [], "QOS small allows 2 for a job (MaxTRES)"),
        (["small|||gres/gpu=4|"], [], "it asks for gres/gpu=8, and QOS small allows 4 for a user"),
        (["small||||node=1"], [], "it asks for node=2, and QOS small allows 1 for an account"),
        (["small|mem=1G|||"], [], "it asks for mem=2048 MiB, and QOS small allows 1024 MiB"),
        (["small|mem=4096|||"], [], ""),
        (["small|||||"], [], ""),
        (["small|license/matlab=1|||"], [], ""),
        ([], ["vision||cpu=2|"], "account vision allows 2 in all (GrpTRES)"),
        ([], ["vision|me||cpu=2"], "user me of account vision allows 2 for a job (MaxTRES)"),
        ([], ["vision|other|cpu=1|"], ""),
        (["small|cpu=N|||"], [], ""),
    ],
)
def test_more_than_a_limit_allows_in_all_never_starts(qos, associations, words):
    found = why_never(read_asked(JOB), "me", qos, associations)
    assert (found == "") if not words else (words in found)


@pytest.mark.parametrize(
    ("reason", "is_so"),
    [
        ("QOSGrpCpuLimit", True),
        ("QOSGrpGRES", True),
        ("AssocGrpMemLimit", True),
        ("QOSMaxCpuPerUserLimit", True),
        ("AssocGrpNodeLimit", True),
        ("QOSMaxJobsPerUserLimit", False),
        ("AssocMaxJobsLimit", False),
        ("AssocGrpCPUMinutesLimit", True),
        ("Priority", False),
        ("Resources", False),
    ],
)
def test_limits_of_amounts_are_told_from_other_reasons(reason, is_so):
    assert is_amount_limit(reason) is is_so


def test_a_site_without_sacctmgr_says_nothing(tmp_path):
    command = tmp_path / "scontrol"
    command.write_text(f"#!/bin/sh\ncat <<'EOF'\n{JOB}EOF\n")
    command.chmod(0o755)
    slurm = SlurmCommands({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    # The machine that tests run on may have Slurm's.
    command = tmp_path / "sacctmgr"
    command.write_text(
        "#!/bin/sh\necho 'You are not running a supported accounting plugin' >&2\nexit 1\n"
    )
    command.chmod(0o755)
    assert slurm.why_never(342) == ""
    command.write_text("#!/bin/sh\necho notice\necho 'small|cpu=2|||'\n")
    assert "allows 2 in all" in slurm.why_never(342)
