"""Checks of scheduling: answers, order of events, GPUs, and attaching to earlier attempts."""

from __future__ import annotations

import itertools

from tarmac.errors import RequestError
from tarmac.jobs import Began, Busy, Finished, Queued, Silent, run_tasks
from tarmac.testing.executors.case import ExecutorCase, Watch, printed


def check_impossible_tasks_are_refused(case: ExecutorCase) -> None:
    """Check that a task that needs more than any machine has is refused by name, before a start."""
    tasks = case.tasks("{name: greedy, command: a, resources: {cpus: 1000000}}")
    message = ""
    try:
        case.kind.refuse(tasks, 0)
    except RequestError as error:
        message = error.message
    assert "greedy" in message, f"no error names the task that needs a million CPUs: {message!r}"


def check_start_answers_every_attempt(case: ExecutorCase) -> None:
    """Check that 100 attempts at once get 100 answers, and each accepted attempt ends once."""
    tasks = case.tasks(
        "{name: x, sweep: {repeat: 100}, resources: {cpus: 0.1}, command: [sleep, '600']}"
    )
    attempts = [case.attempt(task) for task in tasks]
    with case.opened(tasks) as executor:
        executor.attach(lambda *_: None)
        answers = executor.start(attempts)
        assert len(answers) == len(attempts)
        taken = [answer.attempt for answer in answers if not isinstance(answer, Busy)]
        assert taken, "the executor accepted no attempt"
        assert taken == attempts[: len(taken)], "a later attempt was accepted before an earlier one"
        if executor.queues:
            assert all(isinstance(answer, (Queued, Busy)) for answer in answers)
        executor.stop()
        watch = Watch(executor)
        assert {end.outcome for end in watch.finish(taken).values()} == {"interrupted"}


def check_wait_returns_after_its_timeout(case: ExecutorCase) -> None:
    """Check that `Executor.wait` returns after its timeout, without ends of running attempts."""
    (task,) = case.tasks("{name: x, command: 'echo; exec sleep 600'}")
    attempt = case.attempt(task)
    with case.watched([task]) as watch:
        watch.start([attempt])
        watch.until_printed(attempt)
        watch.hear(0.05)
        assert not watch.ends, watch.ends
    assert watch.ends["x"].outcome == "interrupted"


def check_events_are_in_order(case: ExecutorCase) -> None:
    """Check the order of an attempt's events, and the GPUs and host in them."""
    (task,) = case.tasks("{name: x, command: 'true', resources: {cpus: 0.5, gpus: 1}}")
    with case.watched([task]) as watch:
        attempt = case.attempt(task)
        watch.start([attempt])
        watch.finish([attempt])
        events = [event for event in watch.events if isinstance(event, Queued | Began | Finished)]
        kinds = [kind for kind, _ in itertools.groupby(events, type)]
        expected = [Queued, Began, Finished] if watch.executor.queues else [Began, Finished]
        assert kinds == expected, events
        if watch.executor.queues:
            last = [event for event in events if isinstance(event, Queued)][-1]
            assert last.place, "the event lacks the engine's name of the attempt"
        began = next(event for event in watch.events if isinstance(event, Began))
        assert len(began.grant.gpus) == 1, began
        assert began.host == watch.ends["x"].host, (began, watch.ends)


def check_executors_return_the_same_cluster(case: ExecutorCase) -> None:
    """Check that executors of one cluster return the same cluster, which binds a run to it.

    Executors without ``cluster`` are skipped; Tarmac's own queueing executors have it.
    """
    (task,) = case.tasks("{name: x, command: 'true'}")
    clusters = []
    for _ in range(2):
        with case.opened([task]) as executor:
            if not hasattr(executor, "cluster"):
                return
            clusters.append(executor.cluster)
    first, second = clusters
    assert first is not None, "the executor has no cluster"
    assert first == second, clusters
    assert first.name or first.uid, first


def check_tasks_never_share_a_gpu(case: ExecutorCase) -> None:
    """Check that tasks with one GPU each have different GPUs or run one after another."""
    job = """
        name: x
        sweep: {repeat: 6}
        resources: {cpus: 0.1, gpus: 1}
        command: date +%s%N; sleep 0.3; date +%s%N
        """
    tasks = case.tasks(job)
    attempts = [case.attempt(task) for task in tasks]
    held: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    with case.watched(tasks) as watch:
        watch.start(attempts)
        ends = watch.finish(attempts)
        assert {end.outcome for end in ends.values()} == {"succeeded"}, ends
        for event in watch.events:
            if isinstance(event, Began):
                assert len(event.grant.gpus) == 1, event
                first, last = map(int, printed(event.attempt).split())
                held.setdefault((event.host, *event.grant.gpus), []).append((first, last))
    assert sum(map(len, held.values())) == len(attempts)
    for spans in held.values():
        for (_, end), (begin, _) in itertools.pairwise(sorted(spans)):
            assert end <= begin, f"two attempts had the same GPU: {held}"


def check_tasks_without_gpus_see_none(case: ExecutorCase) -> None:
    """Check that ``CUDA_VISIBLE_DEVICES`` is empty for a task without GPUs."""
    (attempt,), _ = case.finish("{name: x, command: \"echo '<'$CUDA_VISIBLE_DEVICES'>'\"}")
    assert printed(attempt) == "<>\n"


def check_tasks_run_after_their_needs(case: ExecutorCase) -> None:
    """Check that tasks run after their needs, failures skip dependents, and the last task runs."""
    log = case.directory / "log"
    tasks = case.tasks(
        f"""
        name: x
        tasks:
          - {{name: top, command: echo top >> {log}}}
          - {{name: side, needs: [top], sweep: {{repeat: 6}}, command: exit 0}}
          - {{name: broken, needs: [top], command: exit 1}}
          - {{name: after, needs: [broken], command: exit 0}}
          - {{name: bottom, needs: [side], command: echo bottom >> {log}}}
        after_all: {{name: last, command: echo last >> {log}}}
        """
    )
    with case.opened(tasks) as executor:
        (case.directory / "run/tasks").mkdir()
        counts = run_tasks(tasks, case.directory / "run", executor, Silent())
    assert counts == {"succeeded": 9, "failed": 1, "skipped": 1}, counts
    assert log.read_text(encoding="utf-8") == "top\nbottom\nlast\n"


def check_later_executors_attach_to_attempts(case: ExecutorCase) -> None:
    """Check that attempts outlive their executor, and each ends once in a later executor."""
    go = case.directory / "go"
    tasks = case.tasks(
        f"""
        name: x
        resources: {{cpus: 0.1}}
        tasks:
          - {{name: early, command: echo early}}
          - {{name: settled, command: echo settled}}
          - {{name: late, command: 'echo began; until [ -e {go} ]; do sleep 0.1; done; echo late'}}
        """
    )
    early, settled, late = attempts = [case.attempt(task) for task in tasks]
    with case.opened(tasks) as executor:
        executor.attach(lambda *_: None)
        if not executor.queues:
            return
        watch = Watch(executor)
        watch.start(attempts)
        watch.until_printed(late)
        watch.finish([settled])
        executor.detach()
    anew = [early, late] if "early" not in watch.ends else [late]
    with case.opened(tasks) as executor:
        watch = Watch(executor)
        answers = watch.attach(anew)
        assert [answer.attempt for answer in answers] == anew, answers
        go.touch()
        watch.finish(anew)
        assert {end.outcome for end in watch.ends.values()} == {"succeeded"}, watch.ends
        watch.hear(0.0)
        assert "settled" not in watch.ends
    assert printed(late) == "began\nlate\n"


def check_unrecorded_ends_are_reported_again(case: ExecutorCase) -> None:
    """Check that a later executor reports an end again that may not have been recorded."""
    tasks = case.tasks("{name: x, command: exit 3}")
    attempt = case.attempt(tasks[0])
    for is_first in (True, False):
        with case.opened(tasks) as executor:
            if not executor.queues:
                return
            watch = Watch(executor)
            answers = watch.attach([] if is_first else [attempt])
            assert [answer.attempt for answer in answers] == ([] if is_first else [attempt]), (
                answers
            )
            if is_first:
                watch.start([attempt])
            end = watch.finish([attempt])["x"]
            assert (end.outcome, end.exit_code, end.cause) == ("failed", 3, "exit"), end
            executor.detach()
