"""A Slurm that keeps accounts: what sacct knows, limits of an account, an account that expired."""

from __future__ import annotations

import dataclasses
import os
import shutil
from datetime import UTC, datetime

import pytest

from tarmac.slurm import (
    UNIT,
    Accounted,
    NoAnswer,
    Request,
    Shape,
    SlurmCommands,
    Submitted,
    Unit,
    explain_refusal,
    is_amount_limit,
    is_full,
    job_variables,
    write_script,
)
from tarmac.testing.slurm.one_machine import ACCOUNTING_PACKAGES

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def cluster(start_slurm):
    """Return a Slurm with accounts, in which root may submit 3 jobs as `few`."""
    if not all(shutil.which(name) for name in ("slurmdbd", "mariadbd", "munged")):
        pytest.skip(f"no accounts are kept here; provide: apt install {ACCOUNTING_PACKAGES}")
    slurm = start_slurm(
        accounting=True,
        accounts={"many": (), "few": ("MaxSubmitJobs=3",), "small": ("GrpTRES=cpu=1",)},
        settings=("AccountingStorageEnforce=limits,qos", "MinJobAge=2"),
    )
    slurm.run("sacctmgr", "--immediate", "add", "qos", "tight", "GrpTRES=cpu=1")
    slurm.run("sacctmgr", "--immediate", "modify", "user", "root", "set", "qos+=tight")
    return slurm


@pytest.fixture
def request_of(tmp_path, request):
    def make(command: str, elements: int, account: str = "many") -> Request:
        return Request(
            name=f"tarmac-{abs(hash(request.node.nodeid)) % 10**8}-0001",
            shape=Shape(memory_bytes=64 * 2**20, account=account),
            command=command,
            directory=tmp_path,
            output="%A_%a.engine",
            elements=elements,
        )

    return make


def submit(slurm: SlurmCommands, request: Request) -> Submitted | str | NoAnswer:
    return slurm.submit(write_script(request), job_variables(os.environ))


def run_until(cluster, slurm, units, began, states) -> list[Accounted]:
    """Wait until the accounts have all of some units in one of some states."""
    found: list[Accounted] = []

    def are_so() -> bool:
        found[:] = sorted(slurm.ended(units, began), key=lambda one: one.unit)
        return [one.unit for one in found] == units and all(one.state in states for one in found)

    cluster.wait_until(are_so, f"the accounts have {states}")
    return found


def test_ends_are_told_by_the_accounts_when_the_controller_has_forgotten(
    cluster, slurm, request_of, tmp_path
):
    began = datetime.now(UTC)
    # What ends before slurmdbd has heard of its begin is kept without its place in the array.
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    answer = submit(slurm, request_of(f"{wait}; exit {UNIT}", 3))
    assert slurm.limits().has_accounting
    units = [Unit(answer.job, number) for number in range(3)]
    run_until(cluster, slurm, units, began, ("running",))
    (tmp_path / "go").touch()
    cluster.wait_until(
        lambda: "No jobs" in cluster.run("scontrol", "show", "job"), "slurmctld has forgotten"
    )
    found = run_until(cluster, slurm, units, began, ("completed", "failed"))
    assert [(one.state, one.exit_code) for one in found] == [
        ("completed", 0),
        ("failed", 1),
        ("failed", 2),
    ]
    assert all(one.nodes in ("n1", "n2") for one in found)
    assert slurm.find(answer.name, began) == answer
    assert slurm.find("tarmac-of-nobody", began) is None


def test_who_cancelled_is_told_by_the_accounts(cluster, slurm, request_of):
    began = datetime.now(UTC)
    answer = submit(slurm, request_of("sleep 600", 1))
    units = [Unit(answer.job, 0)]
    run_until(cluster, slurm, units, began, ("running",))
    assert slurm.cancel(names=[answer.name]) is None
    (one,) = run_until(cluster, slurm, units, began, ("cancelled",))
    assert one.word == "CANCELLED by 0"


def test_an_account_whose_queue_is_full_is_told_from_one_that_is_refused(
    cluster, slurm, request_of
):
    refused = submit(slurm, request_of("true", 4, "few"))
    assert isinstance(refused, str), refused
    assert is_full(refused)
    refused = submit(slurm, request_of("true", 1, "nobodys"))
    assert isinstance(refused, str), refused
    assert not is_full(refused)
    assert "has expired" in explain_refusal(refused)


def test_accounts_that_are_silent_leave_the_controller_to_be_asked(cluster, slurm, request_of):
    began = datetime.now(UTC)
    assert slurm.limits().has_accounting
    cluster.end_daemon("slurmdbd")
    try:
        request = request_of("exit 3", 1)
        answer = submit(slurm, request)
        assert isinstance(answer, Submitted), answer
        seen = []

        def remembered() -> bool:
            seen[:] = slurm.ended([Unit(answer.job, 0)], began)
            return bool(seen) and seen[0].state == "failed"

        cluster.wait_until(remembered, "scontrol shows the end")
        assert seen[0].exit_code == 3
        # Whether it was ever submitted is not known without the accounts.
        assert isinstance(slurm.find("tarmac-of-nobody", began), NoAnswer)
    finally:
        cluster.start_daemon("slurmdbd")


@pytest.mark.parametrize(
    ("account", "words"),
    [
        ("small", "it asks for cpu=2, and user root of account small allows 1 in all (GrpTRES)"),
        ("small", ""),
        ("tight", "it asks for cpu=2, and QOS tight allows 1 in all (GrpTRES)"),
        ("tight", ""),
    ],
)
def test_a_job_that_a_limit_never_lets_start_is_told_from_one_that_waits(
    cluster, slurm, request_of, account, words
):
    cpus, qos = 2 if words else 1, "tight" if account == "tight" else ""
    request = request_of(f"sleep 30 # {UNIT}", 2, "many" if qos else account)
    shape = dataclasses.replace(request.shape, cpus=cpus, qos=qos)
    submitted = submit(slurm, dataclasses.replace(request, shape=shape))
    assert isinstance(submitted, Submitted), submitted
    try:
        # Another test may have stopped slurmdbd.
        cluster.wait_until(lambda: slurm.why_never(submitted.job) == words, "the limit is told")
        if words:
            cluster.wait_until(
                lambda: all(is_amount_limit(it.reason) for it in slurm.queue([request.name])),
                "squeue names the limit",
            )
    finally:
        cluster.run("scancel", f"--user={os.getuid()}")
