"""Snapshots as CSV."""

from __future__ import annotations

import csv
import io

from watched_machine import SNAPSHOT, with_host, with_work

from tarmac.monitor import csv_header, csv_rows


def rows(snapshot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_header() + csv_rows(snapshot))))


def test_every_gpu_has_a_line_with_its_work_and_users():
    first, second, third = rows(SNAPSHOT)
    assert (first["host"], first["index"], first["work"], first["users"]) == (
        *("n01", "0", "brave-fox", "ann"),
    )
    assert (first["power_watts"], first["throttle_reasons"]) == ("612.5", "power")
    assert (second["state"], second["idle_s"], second["power_watts"]) == ("held", "1200.0", "")
    assert third["error"] == "GPU is lost"


def test_a_host_without_a_gpu_has_a_line_too():
    (only,) = rows(with_host(gpus=()))
    assert (only["host"], only["uuid"], only["host_cpu_ratio"]) == ("n01", "", "0.5")


def test_names_with_commas_quotes_and_line_breaks_stay_in_their_cell():
    name = 'a,"b"\nc'
    assert rows(with_work(id=name))[0]["work"] == name
