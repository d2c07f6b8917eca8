"""Each address has its page, and no page shows a file outside of its run."""

from __future__ import annotations

import os

import pytest

from tarmac.errors import TarmacError
from tarmac.pages import render_page
from tarmac.server.addresses import log_address, run_address
from tarmac.server.site import Address, NoSuchPageError


def html(site, address: str) -> str:
    path, _, query = address.partition("?")
    return render_page(site.page(Address.parse(path.encode(), query.encode())))


def test_the_list_shows_all_runs_and_leads_to_them(site, training, damaged):
    training("a", metrics={"test_accuracy": 0.9})
    training("b", status="failed")
    training("winner", above=site._lister.output / "a" / "best")
    shown = html(site, "/")
    for address in ("/runs/a/", "/runs/b/", "/runs/a/best/winner/", "/runs/damaged/"):
        assert f'href="{address}"' in shown
    assert "accuracy 0.9" in shown
    assert "is damaged" in shown


def test_jobs_and_searches_have_lists_of_their_own(site, training, job):
    training("a")
    name = job("echo hello").name
    assert name in html(site, "/jobs")
    assert "/runs/a/" not in html(site, "/jobs")
    assert name not in html(site, "/searches")


def test_a_list_is_found_in_by_words(site, training):
    training("first", metrics={"test_accuracy": 0.25})
    training("second", status="failed")
    assert "/runs/first/" in html(site, "/?q=digits+0.25")
    assert "/runs/second/" not in html(site, "/?q=digits+0.25")
    assert "/runs/second/" in html(site, "/?q=FAILED")
    assert "No run matches" in html(site, "/?q=nothing-like-it")
    assert "<b>" not in html(site, "/?q=%3Cb%3E%22%3E%3Cb%3E")


def test_a_long_list_has_several_pages(site, training, output):
    training("r000")
    record = (output / "r000" / "run.json").read_text()
    for number in range(1, 250):
        (output / f"r{number:03d}").mkdir()
        (output / f"r{number:03d}" / "run.json").write_text(record)
    seen = set()
    for number in (1, 2, 3):
        shown = html(site, f"/?page={number}")
        assert f"Page {number} of 3" in shown
        seen |= {f"r{n:03d}" for n in range(250) if f"/runs/r{n:03d}/" in shown}
    assert len(seen) == 250
    for strange in ("0", "-1", "99999999999", "x", "4", "²"):
        assert "of 3" in html(site, f"/?page={strange}")


def test_an_empty_directory_says_how_to_begin(site):
    assert "tarmac train" in html(site, "/")


@pytest.mark.parametrize("name", ["a b", "é", "100%", "a?b#c", "<b>x", "a&b", '"q"', "new\nline"])
def test_a_run_of_any_name_has_a_page_that_shows_it_as_it_is(site, training, name):
    training(name)
    address = run_address(name)
    assert f'href="{address}"' in html(site, "/")
    assert site.page(Address.parse(address.encode(), b"")).title == name
    assert "<b>x" not in html(site, address)


def test_a_name_that_is_no_text_has_a_page_too(site, training, output):
    training("a").path.rename(output / os.fsdecode(b"\xff\xfe"))
    assert site.page(Address.parse(b"/runs/%FF%FE/", b"")).title == os.fsdecode(b"\xff\xfe")
    render_page(site.page(Address("/"))).encode("utf-8", "replace")


def test_a_damaged_run_has_a_page_that_says_so(site, damaged):
    page = site.page(Address("/runs/damaged/"))
    assert page.status == "cannot be read"
    assert "is damaged" in render_page(page)


def test_a_run_whose_page_cannot_be_made_says_why(site, training, drawing):
    training("a")
    drawing.error = TarmacError("metrics.jsonl:3 is damaged", hint="Remove the line.")
    assert "metrics.jsonl:3 is damaged" in html(site, "/runs/a/")
    drawing.error = PermissionError(13, "Permission denied")
    assert "Permission denied" in html(site, "/runs/a/")


def test_a_run_that_was_removed_meanwhile_has_no_page(site, training, drawing, output):
    run = training("a")

    def remove(paths):
        run.path.rename(output / ".gone")
        raise FileNotFoundError

    site._page_of = remove
    with pytest.raises(NoSuchPageError, match="a has been removed"):
        site.page(Address("/runs/a/"))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "x",
        "//",
        "/nothing",
        "/runs",
        "/runs/",
        "/runs/../",
        "/runs/a/../a/",
        "/runs/nothing/",
        "/runs/a/run.json",
        "/runs/a/tasks/x/",
        "/runs/a/tasks/../",
        "/runs/a/tasks/%2e%2e/",
        "/runs/%00/",
        "/runs/a/best/",
        "/runs/a/log?file=run.json",
        "/runs/a/log?file=../secret",
        "/runs/a/log?file=/etc/passwd",
        "/runs/a/log?file=%00",
        "/compare?run=a&run=nothing",
        "/compare?run=../a&run=a",
    ],
)
def test_what_is_no_page_is_told_as_that(site, training, output, address):
    training("a")
    (output / "secret").write_text("secret")
    with pytest.raises(NoSuchPageError):
        html(site, address)


def test_what_a_task_has_printed_is_shown_as_text_that_does_nothing(site, job):
    run = job(
        "printf '<script>alert(1)</script>\\n\\033[31mred\\033[0m\\n10%%\\r100%%\\n\\001'; "
        "echo HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz"
    )
    shown = html(site, log_address(run.name, "tasks/000000-hello/stdout"))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\nred\n100%\n" in shown
    assert "hf_abc" not in shown
    # Which of its logs, where none is named: one with something in it.
    assert "red" in html(site, f"/runs/{run.name}/log")
    assert log_address(run.name, "tasks/000000-hello/stderr").replace("&", "&amp;") in html(
        site, run_address(run.name)
    )


def test_of_a_long_log_the_end_is_shown(site, training):
    run = training("a")
    (run.path / "logs").mkdir()
    lines = [f"line {number}" for number in range(20_000)]
    (run.path / "logs" / "rank-0").write_text("\n".join(lines))
    shown = html(site, "/runs/a/log?file=logs/rank-0")
    assert "line 19999" in shown
    assert "line 10\n" not in shown
    assert "The last 64 KiB" in shown
    (run.path / "logs" / "rank-0").write_bytes(b"\xff" * 100_000)
    html(site, "/runs/a/log?file=logs/rank-0")


def test_a_log_that_is_a_link_a_pipe_or_elsewhere_is_not_shown(site, training, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "rank-0").write_text("hunter2")
    run = training("a")
    logs = run.path / "logs"
    logs.mkdir()
    (logs / "rank-0").symlink_to(secret / "rank-0")
    (logs / "rank-1").symlink_to("rank-1")
    os.mkfifo(logs / "rank-2")
    (logs / "rank-3").mkdir()
    for number in range(4):
        shown = html(site, f"/runs/a/log?file=logs/rank-{number}")
        assert "cannot be read" in shown
        assert "hunter2" not in shown
    other = training("b")
    (other.path / "logs").symlink_to(secret)
    assert "it lies outside of" in html(site, "/runs/b/log?file=logs/rank-0")


def test_a_task_has_a_page_and_what_a_link_makes_of_it_has_none(site, job, drawing, tmp_path):
    run = job("echo hello")
    address = f"/runs/{run.name}/tasks/000000-hello/"
    assert f'href="{address}"' in html(site, run_address(run.name))
    assert f'href="{run_address(run.name)}"' in html(site, address)
    assert drawing.drawn[-1] == ["000000-hello"]
    (tmp_path / "elsewhere").mkdir()
    (run / "tasks" / "evil").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoSuchPageError):
        html(site, f"/runs/{run.name}/tasks/evil/")


def test_runs_are_compared_side_by_side(site, training, drawing, job, damaged):
    training("a")
    training("b")
    html(site, "/compare?run=b&run=a&run=b")
    assert drawing.drawn[-1] == ["b", "a"]
    assert "at least two runs" in html(site, "/compare?run=a")
    assert "at least two runs" in html(site, "/compare")
    assert "of one kind" in html(site, f"/compare?run=a&run={job('true').name}")
    with pytest.raises(NoSuchPageError):
        html(site, "/compare?run=a&run=damaged")


@pytest.mark.parametrize("address", ["/", "/jobs", "/runs/a/", "/compare?run=a&run=b"])
def test_what_changes_a_page_changes_its_state(site, training, address):
    run = training("a", status="running")
    training("b")
    path, _, query = address.partition("?")
    asked = Address.parse(path.encode(), query.encode())
    before = site.state(asked)
    assert site.state(asked) == before
    run.append_metrics({"loss": 1.0})
    run.update(status="failed")
    assert site.state(asked) != before


def test_a_line_that_is_printed_changes_a_logs_state(site, training):
    run = training("a")
    (run.path / "logs").mkdir()
    log = run.path / "logs" / "rank-0"
    log.write_text("one\n")
    asked = Address("/runs/a/log", (("file", "logs/rank-0"),))
    before = site.state(asked)
    log.write_text("one\ntwo\n")
    assert site.state(asked) != before
