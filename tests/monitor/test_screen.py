"""The screen, driven by keys and the mouse as a user does."""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys

import pytest
from rich.cells import cell_len
from textual.widgets import Input
from top_scenes import HOST, SCENES, full_node, gpu, hostile, node, one, training, two_hosts

from tarmac.errors import TarmacError
from tarmac.monitor import ProcessRow, ScreenOptions, Work
from tarmac.monitor.screen.app import TopApp
from tarmac.monitor.screen.dialogs import Page, Question
from tarmac.monitor.screen.watching import Came, Failed
from waiting import wait_until_async

_SIZES = ((80, 24), (120, 40), (40, 15), (20, 10), (200, 50), (1, 1))


@pytest.fixture(autouse=True)
def long_said(monkeypatch):
    """What is said stays until it is read, however busy the machine is."""
    monkeypatch.setattr("tarmac.monitor.screen.app._SAID_S", 600.0)


class Given:
    """A feed of given snapshots; of an error where one is given."""

    def __init__(self, *snapshots):
        self._left = list(snapshots)
        self.is_closed = False

    def next(self):
        if not self._left:
            raise StopIteration
        first = self._left.pop(0)
        if isinstance(first, Exception):
            raise first
        return first

    def close(self):
        self.is_closed = True


@contextlib.asynccontextmanager
async def shown(*snapshots, size=(120, 40), feed=None, **options):
    app = TopApp(feed or Given(*snapshots), ScreenOptions(interval_s=0.01, **options))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app._has_ended)
        yield app, pilot


async def until(pilot, is_so):
    await wait_until_async(is_so, "the screen")
    await pilot.pause()


def lines_of(app):
    """Return what the terminal shows."""
    height = app.size.height
    rendered = app.screen._compositor.render_strips()
    assert len(rendered) <= height
    return ["".join(segment.text for segment in strip) for strip in rendered]


def text_of(app):
    return "\n".join(lines_of(app))


def driven(test):
    """Run a test in a loop of its own."""

    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    run.__name__ = test.__name__
    return run


@pytest.mark.parametrize("size", _SIZES)
def test_every_scene_is_shown_at_every_size(size):
    async def look():
        async with shown(full_node(), size=size) as (app, pilot):
            for make in SCENES.values():
                app.post_message(Came(make()))
                for key in ("4", "2", "1"):
                    await pilot.press(key)
                    assert all(cell_len(line) <= size[0] for line in lines_of(app))
            for key in ("enter", "escape", "c", "escape", "3", "question_mark"):
                await pilot.press(key)
                assert all(cell_len(line) <= size[0] for line in lines_of(app))

    asyncio.run(look())


@driven
async def test_gpus_are_shown_with_the_work_on_them():
    async with shown(full_node()) as (app, _):
        text = text_of(app)
        assert "H100 80GB HBM3" in text
        assert "epoch 7/20  loss 0.0312" in text
        assert "F GPU 7: Xid 79" in text
        assert "sudo reboot" in text


@driven
async def test_keys_and_clicks_lead_to_the_views():
    async with shown(full_node()) as (app, pilot):
        await pilot.press("2")
        assert "SAMPLES/S" in text_of(app)
        await pilot.press("3")
        assert "rank 0  113k/s" in text_of(app)
        await pilot.press("tab")
        assert "FREE" in text_of(app)
        await pilot.click("#tabs", offset=(2, 0))
        assert "TEMP" in text_of(app)


@driven
async def test_the_chosen_row_stays_chosen_when_rows_come_before_it():
    work = training(gpu_uuids=("GPU-1",))
    first = one(node([gpu(0), gpu(1)], work=(work,)))
    more = ProcessRow(5, "GPU-0", "bob", "python")
    second = one(node([gpu(0), gpu(1)], work=(work,), processes=(more,)))
    async with shown(first) as (app, pilot):
        await pilot.press("down", "down")
        chosen = app._rows.chosen
        assert chosen.key[2] == work.id
        app.post_message(Came(second))
        await until(pilot, lambda: "bob" in text_of(app))
        assert app._rows.chosen.key == chosen.key


def test_details_of_a_training_have_its_loss_its_gpus_and_the_end_of_its_log(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text("begins\nHF_TOKEN=abcdefghijk\nlast words\n")
    (tmp_path / "metrics.jsonl").write_text(
        '{"epoch": 1, "loss": 0.9}\n{"epoch": 2, "loss": 0.1}\n{"ep'
    )
    work = training(gpu_uuids=("GPU-0",), path=str(tmp_path))
    scene = one(node([gpu(0)], work=(work,)))

    async def look():
        async with shown(scene, scene) as (app, pilot):
            await pilot.press("down", "enter")
            text = text_of(app)
            assert "loss by epoch  now 0.1" in text
            assert "utilization  now 97%" in text
            assert "watts  now 612" in text
            assert "last words" in text
            assert "abcdefghijk" not in text
            await pilot.press("escape")
            assert "TEMP" in text_of(app)
            await pilot.press("l")
            assert "HF_TOKEN=(hidden)" in text_of(app)

    asyncio.run(look())


@driven
async def test_a_filter_leaves_what_has_the_text_with_what_it_belongs_to():
    async with shown(full_node()) as (app, pilot):
        await pilot.press("slash", *"bob")
        await pilot.press("enter")
        rows = ["".join(span.text for span in row.line) for row in app._rows.rows]
        assert len(rows) == 2
        assert rows[0].startswith("4   I")
        await pilot.press("escape")
        assert len(app._rows.rows) > 10
        assert app.query_one(Input).value == ""


@driven
async def test_columns_can_be_hidden():
    async with shown(full_node()) as (app, pilot):
        assert "WATTS" in text_of(app)
        await pilot.press("o")
        for _ in range(5):
            await pilot.press("down")
        assert "[x] watts" in text_of(app)
        await pilot.press("space")
        assert "[ ] watts" in text_of(app)
        await pilot.press("escape")
        assert "WATTS" not in text_of(app)


@driven
async def test_a_paused_screen_stands_still():
    later = one(node([gpu(0, util=0.11)]))
    async with shown(one(node([gpu(0)]))) as (app, pilot):
        await pilot.press("p")
        app.post_message(Came(later))
        await pilot.pause()
        assert "97%" in text_of(app)
        assert "PAUSED" in text_of(app)
        await pilot.press("p")
        app.post_message(Came(later))
        await until(pilot, lambda: "11%" in text_of(app))


@driven
async def test_a_feed_that_fails_is_asked_again_and_its_problem_is_shown_meanwhile():
    feed = Given(one(node([gpu(0)])), TarmacError("the driver does not answer"))
    async with shown(feed=feed) as (app, pilot):
        await until(pilot, lambda: "the driver does not answer" in text_of(app))
        await until(pilot, lambda: "97%" in text_of(app))
        app.post_message(Failed(""))
        await until(pilot, lambda: "does not answer" not in text_of(app))
    assert feed.is_closed


@driven
async def test_an_error_that_nobody_foresaw_ends_the_screen_and_is_told():
    app = TopApp(Given(ZeroDivisionError("oh")), ScreenOptions(interval_s=0.01))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.error is not None)
    assert isinstance(app.error, ZeroDivisionError)


@driven
async def test_the_end_of_a_recording_leaves_its_last_picture():
    async with shown(full_node()) as (app, _):
        assert "the recording has ended" in text_of(app)
        assert "epoch 7/20" in text_of(app)


@driven
async def test_names_of_others_cannot_move_the_cursor():
    async with shown(hostile()) as (app, pilot):
        for key in ("1", "2", "enter", "escape", "c"):
            await pilot.press(key)
            assert all(line.isprintable() for line in lines_of(app))


@driven
async def test_ascii_alone_is_drawn_where_it_is_asked_for():
    async with shown(full_node(), size=(60, 12), ascii_only=True) as (app, pilot):
        for key in ("1", "2", "enter", "escape", "o"):
            await pilot.press(key)
            assert text_of(app).isascii()


def test_no_colour_is_shown_where_none_is_wanted(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    async def look():
        async with shown(full_node()) as (app, _):
            strips = app.screen._compositor.render_strips()
            filtered = [
                s.apply_filter(f, app.background_colors[0]) for s in strips for f in app._filters
            ]
            for strip in filtered:
                for segment in strip:
                    for colour in (segment.style.color, segment.style.bgcolor):
                        rgb = colour.get_truecolor() if colour else (0, 0, 0)
                        assert len({*rgb}) == 1

    asyncio.run(look())


def own_process():
    """Start a process of ours that only waits."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def scene_of(process, **changes):
    here = dataclasses.replace(HOST, name=os.uname().nodename)
    work = training(gpu_uuids=("GPU-0",), pids=(process.pid,), path="/nowhere", **changes)
    return one(node([gpu(0)], host=here, work=(work,)))


@pytest.mark.parametrize(("key", "number"), [("s", signal.SIGTERM), ("K", signal.SIGKILL)])
def test_own_work_is_stopped_once_that_is_agreed_to(key, number):
    process = own_process()

    async def act():
        async with shown(scene_of(process)) as (app, pilot):
            await pilot.press("down", key)
            assert isinstance(app.screen, Question)
            assert ("saves a checkpoint" in text_of(app)) == (key == "s")
            await pilot.press("enter")
            assert process.poll() is None
            await pilot.press(key, "y")
            await until(pilot, lambda: process.poll() is not None)
            assert f"sent {number.name} to 1 process" in text_of(app)

    try:
        asyncio.run(act())
        assert process.returncode == -number
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"is_own": False, "user": "bob"}, {}, "is bob's, not yours"),
        ({}, {"readonly": True}, "read-only"),
        ({"kind": "task"}, {}, "is a task; stop its job"),
    ],
)
def test_what_may_not_be_stopped_is_not_asked_about(changes, options, said):
    process = own_process()
    scene = scene_of(process)
    work = dataclasses.replace(scene.hosts[0].work[0], **changes)
    scene = one(dataclasses.replace(scene.hosts[0], work=(work,)))

    async def act():
        async with shown(scene, **options) as (app, pilot):
            await pilot.press("down", "s")
            assert said in text_of(app)
            assert not isinstance(app.screen, Question)

    try:
        asyncio.run(act())
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


@driven
async def test_work_of_another_machine_is_not_stopped_from_here():
    async with shown(two_hosts()) as (app, pilot):
        await pilot.press("2", "s")
        assert "only work of this machine is stopped here" in text_of(app)


def test_the_processes_and_environment_of_work_are_shown_without_secrets(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 30)
    monkeypatch.setenv("HARMLESS", "seen")
    process = own_process()

    async def look():
        async with shown(scene_of(process), size=(200, 300)) as (app, pilot):
            await pilot.press("down", "t")
            assert str(process.pid) in text_of(app)
            assert "input()" in text_of(app)
            await pilot.press("escape", "e")
            assert "HARMLESS=seen" in text_of(app)
            assert "HF_TOKEN=(hidden)" in text_of(app)

    try:
        asyncio.run(look())
    finally:
        process.kill()
        process.communicate()


@driven
async def test_what_has_gone_is_told_to_have_gone():
    async with shown(full_node()) as (app, pilot):
        await pilot.press("down", "enter")
        assert isinstance(app.screen, Page)
        app.post_message(Came(one(node([gpu(0)]))))
        await until(pilot, lambda: "no longer there" in text_of(app))


@driven
async def test_what_lies_below_a_page_is_drawn_anew_once_that_is_left():
    async with shown(one(node([gpu(0)]))) as (app, pilot):
        await pilot.press("enter")
        app.post_message(Came(one(node([gpu(0, util=0.11)]))))
        await pilot.resize_terminal(100, 30)
        await pilot.press("escape")
        await until(pilot, lambda: "11%" in text_of(app))
        assert lines_of(app)[-1].startswith("q leave")


@driven
async def test_a_screen_that_goes_on_shows_what_came_last():
    async with shown(one(node([gpu(0)]))) as (app, pilot):
        await pilot.press("p")
        app.post_message(Came(one(node([gpu(0, util=0.11)]))))
        await pilot.press("p")
        await until(pilot, lambda: "11%" in text_of(app))


@pytest.mark.parametrize(("key", "said"), [("2", "SAMPLES/S"), ("tab", "SAMPLES/S")])
def test_keys_of_views_lead_away_from_a_page(key, said):
    async def look():
        async with shown(full_node()) as (app, pilot):
            await pilot.press("enter", "c", key)
            assert not isinstance(app.screen, Page)
            assert said in text_of(app)

    asyncio.run(look())


@driven
async def test_a_question_is_not_left_by_the_keys_of_views():
    process = own_process()
    try:
        async with shown(scene_of(process)) as (app, pilot):
            await pilot.press("down", "s", "tab", "2")
            assert isinstance(app.screen, Question)
            assert app._view == 0
    finally:
        process.kill()
        process.communicate()


@driven
async def test_what_comes_of_a_key_is_said_on_a_page_too():
    async with shown(full_node(), readonly=True) as (app, pilot):
        await pilot.press("down", "enter", "s")
        assert isinstance(app.screen, Page)
        assert "this screen is read-only" in lines_of(app)[-1]
        await pilot.press("p")
        assert "PAUSED" in lines_of(app)[0]


@driven
async def test_a_page_s_key_stops_what_the_page_is_of_and_not_what_is_marked():
    process = own_process()
    try:
        async with shown(scene_of(process)) as (app, pilot):
            await pilot.press("space", "enter", "s")
            assert isinstance(app.screen, Question)
            assert "3f2a: it saves" in text_of(app)
    finally:
        process.kill()
        process.communicate()


@driven
async def test_a_filter_can_be_typed_from_a_page():
    async with shown(full_node()) as (app, pilot):
        await pilot.press("enter", "slash")
        await until(pilot, lambda: app._field.has_focus)
        await pilot.press(*"bob", "enter")
        assert len(app._rows.rows) == 2


def many_tasks():
    """Return a job with more tasks than are shown in one place."""
    whole = Work("nightly", "job", "/runs/nightly", "running")
    tasks = [
        Work(f"nightly/fold-{n}", "task", f"/runs/nightly/{n}", "running", parent="nightly")
        for n in range(40)
    ]
    return one(node([gpu(0)], work=(whole, *tasks)))


@driven
async def test_a_filter_finds_parts_that_are_folded_and_leaves_their_siblings_out():
    async with shown(many_tasks()) as (app, pilot):
        assert "fold-37" not in text_of(app)
        await pilot.press("slash", *"fold-37")
        assert [row.key[2] for row in app._rows.rows if row.key] == ["nightly", "nightly/fold-37"]


@driven
async def test_a_filter_finds_names_for_which_there_is_no_room():
    async with shown(full_node(), size=(30, 12)) as (app, pilot):
        await pilot.press("2", "slash", *"77aa")
        (row,) = (row for row in app._rows.rows if row.key)
        assert row.key[2].endswith("77aa")


@driven
async def test_a_number_is_shown_whole_and_a_state_said_on_twenty_columns():
    async with shown(full_node(), size=(20, 10)) as (app, pilot):
        await pilot.press("2", "p")
        assert "7/20" in text_of(app)
        assert "PAUSED" in text_of(app)


@pytest.mark.parametrize("key", ["l", "t", "e"])
def test_files_and_processes_of_other_machines_are_not_looked_for_here(tmp_path, key):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text("of this machine\n")
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "loss": 0.9}\n')
    here = dataclasses.replace(HOST, name=os.uname().nodename)
    work = training(gpu_uuids=("GPU-0",), path=str(tmp_path), pids=(os.getpid(),))
    scene = one(node([gpu(0)], host=here, work=(work,)))

    async def look():
        async with shown(scene, scene, elsewhere="it is on another machine") as (app, pilot):
            await pilot.press("down", "enter")
            text = text_of(app)
            assert "it is on another machine: its files are not read here" in text
            assert "loss by epoch" not in text
            assert "of this machine" not in text
            # What the snapshots tell of it is shown.
            assert "loss  now 0.0312" in text
            await pilot.press(key)
            assert "it is on another machine" in lines_of(app)[-1]

    asyncio.run(look())


def test_details_of_a_training_reach_back_to_its_start_by_its_own_samples(tmp_path):
    session = {"kind": "session", "at_s": 0.0, "host": "node-a", "cpu_count": 8}
    session["gpus"] = [{"uuid": "GPU-0", "index": 0, "power_limit_watts": 700.0}]
    lines = [json.dumps(session)]
    for n in range(1, 60):
        own = {"utilization_ratio": 0.42, "power_watts": 333.0}
        point = {"kind": "sample", "at_s": 5.0 * n, "cpu_ratio": 0.25, "gpus": {"GPU-0": own}}
        lines.append(json.dumps(point))
    (tmp_path / "samples.jsonl").write_text("\n".join(lines) + '\n{"kind": "sam')
    work = training(gpu_uuids=("GPU-0",), path=str(tmp_path))
    scene = one(node([gpu(0)], work=(work,)))

    async def look():
        async with shown(scene) as (app, pilot):
            await pilot.press("down", "enter")
            text = text_of(app)
            assert "GPU since it began  now 42%" in text
            assert "watts since it began  now 333" in text
            assert "CPU since it began  now 25%" in text

    asyncio.run(look())


def test_gpus_that_a_training_could_not_sample_are_plotted_as_the_screen_has_seen_them(tmp_path):
    points = [{"kind": "sample", "at_s": 5.0 * n, "cpu_ratio": 0.25} for n in range(9)]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(p) + "\n" for p in points))
    scene = one(node([gpu(0)], work=(training(gpu_uuids=("GPU-0",), path=str(tmp_path)),)))

    async def look():
        async with shown(scene) as (app, pilot):
            await pilot.press("down", "enter")
            text = text_of(app)
            assert "utilization  now 97%" in text
            assert "CPU since it began  now 25%" in text

    asyncio.run(look())
