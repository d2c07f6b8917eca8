"""Metrics: what they say, and who may read them."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import os
import queue
import socket
import stat
import threading
from datetime import timedelta

import pytest
from watched_machine import AT, BUSY, HOST, SNAPSHOT, TRAINING, XID, later, with_host, with_work

from tarmac.errors import RequestError
from tarmac.monitor import MetricsAddress, serve_metrics

pytest.importorskip("prometheus_client")
from prometheus_client import openmetrics
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse,
)
from prometheus_client.parser import (
    text_string_to_metric_families as parse_older,
)

from tarmac.monitor.dcgm import dcgm_families
from tarmac.monitor.metrics import MAX_RUNS, XidCounts, families_of

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


class Families:
    """What `prometheus_client` encodes."""

    def __init__(self, families) -> None:
        self.families = list(families)

    def collect(self):
        return self.families


def samples(snapshot, counts=None) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the samples by name and values of labels, as a strict parser reads them."""
    xids = (counts or XidCounts()).take(snapshot)
    text = openmetrics.exposition.generate_latest(Families(families_of(snapshot, xids)))
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in parse(text.decode())
        for sample in family.samples
    }


def named(found, name):
    return {labels: value for (one, labels), value in found.items() if one == name}


def test_a_gpu_is_told_in_base_units():
    found = samples(SNAPSHOT)
    busy = ("0", "n01", "GPU-0")
    assert found["tarmac_gpu_utilization_ratio", busy] == 0.97
    assert found["tarmac_gpu_memory_used_bytes", busy] == 40 * 2**30
    assert found["tarmac_gpu_temperature_celsius", busy] == 64
    assert found["tarmac_gpu_power_watts", busy] == 612.5
    assert found["tarmac_gpu_sm_clock_hertz", busy] == 1755e6
    assert found["tarmac_gpu_energy_joules_total", busy] == 12345.5
    assert found["tarmac_gpu_throttled_seconds_total", (*busy[:1], "n01", "power", "GPU-0")] == 12.5
    assert found["tarmac_gpu_held_idle_seconds", ("1", "n01", "GPU-1")] == 1200


def test_what_is_not_known_is_absent():
    found = samples(SNAPSHOT)
    assert ("0", "n01", "GPU-0") in named(found, "tarmac_gpu_power_watts")
    assert ("1", "n01", "GPU-1") not in named(found, "tarmac_gpu_power_watts")
    assert named(found, "tarmac_gpu_up") == {
        ("0", "n01", "GPU-0"): 1,
        ("1", "n01", "GPU-1"): 1,
        ("2", "n01", "GPU-2"): 0,
    }


def test_units_are_written_and_the_end_is_marked():
    xids = XidCounts().take(SNAPSHOT)
    text = openmetrics.exposition.generate_latest(Families(families_of(SNAPSHOT, xids))).decode()
    assert "# UNIT tarmac_gpu_memory_used_bytes bytes\n" in text
    assert "# UNIT tarmac_gpu_energy_joules joules\n" in text
    assert text.endswith("# EOF\n")


def test_a_run_at_work_has_its_numbers_and_its_gpus():
    found = samples(SNAPSHOT)
    run = ("n01", "brave-fox", "", "")
    assert found["tarmac_run_epoch", run] == 7
    assert found["tarmac_run_loss", run] == 0.25
    assert found["tarmac_run_samples_per_second", run] == 51000
    assert found["tarmac_run_eta_seconds", run] == 42
    assert named(found, "tarmac_run_gpu") == {("n01", "brave-fox", "", "", "GPU-0"): 1}
    assert named(found, "tarmac_run_wait_ratio") == {("data", "n01", "brave-fox", "", ""): 0.06}
    assert named(samples(with_host(work=())), "tarmac_run_epoch") == {}


def test_tasks_and_searches_have_labels_of_their_own():
    work = (
        dataclasses.replace(TRAINING, id="sweep", kind="job"),
        dataclasses.replace(TRAINING, id="sweep/lr-1", kind="task", parent="sweep"),
        dataclasses.replace(TRAINING, id="calm-owl", kind="search"),
        dataclasses.replace(TRAINING, id="calm-owl/17", kind="training", parent="calm-owl"),
    )
    found = named(samples(with_host(work=work)), "tarmac_run_epoch")
    # Trials have none: each would be a new series.
    assert set(found) == {
        ("n01", "sweep", "", ""),
        ("n01", "sweep", "", "lr-1"),
        ("n01", "", "calm-owl", ""),
    }


def test_the_number_of_series_stays_small_however_many_runs_there_are():
    many = tuple(
        dataclasses.replace(TRAINING, id=f"run-{i}", gpu_uuids=("GPU-0",) if i == 999 else ())
        for i in range(1000)
    )
    found = samples(with_host(work=many))
    shown = named(found, "tarmac_run_epoch")
    assert len(shown) == MAX_RUNS
    assert ("n01", "run-999", "", "") in shown
    assert named(found, "tarmac_runs") == {("n01", "training"): 1000}


def test_two_runs_of_one_name_are_one_series():
    assert len(named(samples(with_host(work=(TRAINING, TRAINING))), "tarmac_run_epoch")) == 1


def test_an_xid_is_counted_once_however_often_it_is_shown():
    counts = XidCounts()
    for _ in range(3):
        found = samples(SNAPSHOT, counts)
    assert named(found, "tarmac_gpu_xid_errors_total") == {("n01", "GPU-0", "94"): 1}
    again = dataclasses.replace(XID, at=AT + timedelta(seconds=5))
    found = samples(with_host(findings=(XID, again)), counts)
    assert named(found, "tarmac_gpu_xid_errors_total") == {("n01", "GPU-0", "94"): 2}
    assert counts.last == {("n01", "GPU-0"): "94"}


def test_a_host_that_is_gone_is_down_and_has_no_numbers():
    found = samples(with_host(problem="Connection refused"))
    assert named(found, "tarmac_host_up") == {("n01",): 0}
    assert named(found, "tarmac_gpu_up") == {}


def test_the_exporters_names_have_its_units_and_labels():
    text = generate_latest(Families(dcgm_families(SNAPSHOT, {("n01", "GPU-0"): "94"}))).decode()
    found = {
        (sample.name, sample.labels["gpu"]): sample
        for family in parse_older(text)
        for sample in family.samples
    }
    assert found["DCGM_FI_DEV_GPU_UTIL", "0"].value == 97
    assert found["DCGM_FI_DEV_FB_USED", "0"].value == 40 * 1024
    assert found["DCGM_FI_DEV_FB_FREE", "0"].value == 40 * 1024
    assert found["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "0"].value == 12345500
    assert found["DCGM_FI_DEV_XID_ERRORS", "0"].value == 94
    assert found["DCGM_FI_DEV_XID_ERRORS", "1"].value == 0
    assert ("DCGM_FI_DEV_POWER_USAGE", "1") not in found
    assert found["DCGM_FI_DEV_SM_CLOCK", "0"].labels == {
        "gpu": "0",
        "UUID": "GPU-0",
        "pci_bus_id": "00000000:9C:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA H100",
        "Hostname": "n01",
    }


def test_a_slice_is_not_told_by_the_exporters_names():
    part = dataclasses.replace(BUSY, uuid="MIG-1", parent_uuid="GPU-0")
    (family, *_) = dcgm_families(with_host(gpus=(part,)), {})
    assert family.samples == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9407", MetricsAddress("127.0.0.1", 9407)),
        ("9407", MetricsAddress("127.0.0.1", 9407)),
        (":0", MetricsAddress("127.0.0.1", 0)),
        ("localhost:80", MetricsAddress("127.0.0.1", 80)),
        ("[::1]:80", MetricsAddress("::1", 80)),
    ],
)
def test_an_address_is_read(text, expected):
    assert MetricsAddress.read(text) == expected
    assert not expected.is_open


def test_an_address_that_others_reach_is_known_as_one():
    assert MetricsAddress.read("0.0.0.0:9407").is_open


@pytest.mark.parametrize("text", ["", "unix:", "example.org:80", "::1", "127.0.0.1:99999"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(RequestError, match="--serve"):
        MetricsAddress.read(text)


class Fed:
    """A feed that gives a snapshot when a test says so, and ends when it is told to."""

    def __init__(self) -> None:
        self._snapshots: queue.Queue = queue.Queue()

    def give(self, snapshot) -> None:
        self._snapshots.put(snapshot)

    def next(self):
        snapshot = self._snapshots.get(timeout=60)
        if snapshot is None:
            raise StopIteration
        return snapshot

    def close(self) -> None:
        self.give(None)


@pytest.fixture
def serving():
    """Return a function that serves a feed at an address and returns where that is."""
    ends = []

    def serve(address, **options):
        feed, place = Fed(), queue.Queue()
        feed.give(SNAPSHOT)
        thread = threading.Thread(
            target=serve_metrics, args=(feed, address), kwargs={"tell": place.put, **options}
        )
        thread.start()
        ends.append((feed, thread))
        return feed, place.get(timeout=60)

    yield serve
    for feed, thread in ends:
        feed.close()
        thread.join()


def port_of(place: str) -> int:
    return int(place.removesuffix("/metrics").rpartition(":")[2])


def scrape(port, path="/metrics", headers=OPENMETRICS, host="127.0.0.1"):
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()


def test_scrapes_get_the_newest_snapshot_in_the_form_that_they_ask_for(serving):
    feed, place = serving(MetricsAddress())
    status, kind, text = scrape(port_of(place))
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert "tarmac_run_epoch" in {family.name for family in parse(text)}
    older = scrape(port_of(place), headers={})[1]
    assert older.startswith("text/plain")
    feed.give(with_work(epoch=8))
    feed.give(with_work(epoch=8))
    while 'tarmac_run_epoch{host="n01",run="brave-fox",study="",task=""} 8' not in text:
        text = scrape(port_of(place))[2]
        feed.give(with_work(epoch=8))


def test_the_exporters_names_are_served_where_they_are_asked_for(serving):
    _, place = serving(MetricsAddress(), with_dcgm_names=True)
    text = scrape(port_of(place))[2]
    assert "DCGM_FI_DEV_GPU_UTIL" in text
    assert list(parse(text))
    _, place = serving(MetricsAddress())
    assert "DCGM_FI_DEV_GPU_UTIL" not in scrape(port_of(place))[2]


def test_a_page_of_another_site_cannot_have_them_by_a_name_of_its_own(serving):
    _, place = serving(MetricsAddress())
    port = port_of(place)
    assert scrape(port, headers={"Host": f"evil.example:{port}"})[0] == 421
    assert scrape(port, headers={"Host": f"localhost:{port}"})[0] == 200
    assert scrape(port, path="/etc/passwd")[0] == 404


def test_a_client_that_says_nothing_keeps_nobody_waiting(serving):
    _, place = serving(MetricsAddress())
    with socket.create_connection(("127.0.0.1", port_of(place))):
        assert scrape(port_of(place))[0] == 200


def test_a_port_that_is_taken_is_said(serving):
    _, place = serving(MetricsAddress())
    feed = Fed()
    feed.give(SNAPSHOT)
    with pytest.raises(RequestError, match="it is taken"):
        serve_metrics(feed, MetricsAddress(port=port_of(place)))


def scrape_socket(path) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(path))
        client.sendall(b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n")
        with client.makefile("rb") as answer:
            return answer.read().decode()


def test_a_socket_is_for_its_user_alone_and_gone_at_the_end(serving, tmp_path):
    path = tmp_path / "metrics.sock"
    feed, place = serving(MetricsAddress.read(f"unix:{path}"))
    assert place == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert scrape_socket(path).rstrip().endswith("# EOF")
    again = Fed()
    again.give(SNAPSHOT)
    with pytest.raises(RequestError, match="it is taken"):
        serve_metrics(again, MetricsAddress.read(f"unix:{path}"))
    feed.close()
    while path.exists():
        os.sched_yield()


def test_another_user_cannot_read_a_socket(serving, open_directory, second_user):
    path = open_directory / "metrics.sock"
    serving(MetricsAddress.read(f"unix:{path}"))
    with pytest.raises(PermissionError):
        second_user(lambda: scrape_socket(path))


def test_a_socket_that_nobody_serves_is_taken_over_and_another_file_is_left(serving, tmp_path):
    path = tmp_path / "metrics.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    serving(MetricsAddress.read(f"unix:{path}"))
    assert "# EOF" in scrape_socket(path)
    file = tmp_path / "thesis.txt"
    file.write_text("mine")
    feed = Fed()
    feed.give(SNAPSHOT)
    with pytest.raises(RequestError, match="it is no socket"):
        serve_metrics(feed, MetricsAddress.read(f"unix:{file}"))
    assert file.read_text() == "mine"


def test_several_hosts_are_told_apart():
    other = dataclasses.replace(HOST, host=dataclasses.replace(HOST.host, name="n02"))
    found = samples(dataclasses.replace(later(1), hosts=(HOST, other)))
    assert set(named(found, "tarmac_run_epoch")) == {
        ("n01", "brave-fox", "", ""),
        ("n02", "brave-fox", "", ""),
    }
