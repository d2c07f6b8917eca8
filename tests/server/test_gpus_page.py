"""The page of GPUs shows what is known of each, and `-` for what is not."""

from __future__ import annotations

from datetime import UTC, datetime

from tarmac.machine import LiveGpu, LiveHost
from tarmac.monitor import Finding, HostSnapshot, ProcessRow, Snapshot, Work
from tarmac.pages import render_page
from tarmac.server.gpus import gpus_page

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 2**30


def html(*hosts: HostSnapshot, runs: tuple[str, ...] = ()) -> str:
    return render_page(gpus_page(Snapshot(NOW, hosts), runs))


def host(**fields) -> HostSnapshot:
    return HostSnapshot(NOW, LiveHost("node-1", cpu_count=8.0), **fields)


def test_a_gpu_is_shown_with_whose_work_is_on_it():
    gpu = LiveGpu(
        0,
        "GPU-1",
        "NVIDIA A100",
        utilization_ratio=0.97,
        memory_used_bytes=30 * GIB,
        memory_total_bytes=80 * GIB,
        power_watts=312.0,
        power_limit_watts=400.0,
        temperature_c=64.0,
    )
    work = Work("mnist-1", "training", "/r/mnist-1", "running", gpu_uuids=("GPU-1",), epoch=3)
    other = ProcessRow(7, "GPU-1", user="ann", command="python <script>.py")
    own = ProcessRow(8, "GPU-1", work="mnist-1", command="not shown twice")
    shown = html(
        host(gpus=(gpu,), gpu_states={"GPU-1": "busy"}, work=(work,), processes=(other, own)),
        runs=("mnist-1",),
    )
    for text in ("NVIDIA A100", "97 %", "30 GiB of 80 GiB", "312 W of 400 W", "64 °C", "busy"):
        assert text in shown
    assert '<a href="/runs/mnist-1/">mnist-1</a>' in shown
    assert "ann: python &lt;script&gt;.py" in shown
    assert "not shown twice" not in shown
    assert "epoch 3 of -" in shown


def test_what_is_unknown_is_a_dash():
    shown = html(host(gpus=(LiveGpu(0, "GPU-1", "NVIDIA T4"),)))
    assert "None" not in shown
    assert "0 %" not in shown
    assert "- of -" in shown


def test_a_gpu_that_cannot_be_read_says_why_and_the_others_are_shown():
    shown = html(
        host(gpus=(LiveGpu(0, "GPU-1", "?", error="GPU is lost"), LiveGpu(1, "GPU-2", "NVIDIA T4")))
    )
    assert "GPU is lost" in shown
    assert "1: NVIDIA T4" in shown


def test_without_a_gpu_the_page_says_why_and_shows_the_work_just_the_same():
    work = Work("hello/train", "task", "/r/hello/tasks/0", "running", state="hung", slow=("slow",))
    shown = html(host(no_gpu_reason="no driver is loaded", work=(work,)), runs=("hello",))
    assert "No GPU: no driver is loaded" in shown
    assert '<a href="/runs/hello/">hello/train</a>' in shown
    assert "hung" in shown
    assert html(host(work=(Work("elsewhere", "training", "/r", "running"),))).count("/runs/") == 0


def test_findings_are_shown_with_what_to_type_and_a_host_that_is_silent_with_its_age():
    finding = Finding("xid", "failure", "Xid 79: fell off the bus", "sudo reboot")
    shown = html(host(findings=(finding,), problem="does not answer", age_s=90.0))
    assert "Xid 79: fell off the bus" in shown
    assert "<pre>sudo reboot</pre>" in shown
    assert "does not answer" in shown
    assert "1 min 30 s ago" in shown


def test_thousands_of_tasks_at_work_do_not_make_a_page_that_no_browser_shows():
    tasks = tuple(Work(f"job/{n}", "task", f"/r/{n}", "running") for n in range(5000))
    shown = html(host(work=tasks), runs=("job",))
    assert "4,800 more are at work" in shown
    assert len(shown) < 500_000
