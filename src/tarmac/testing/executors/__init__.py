"""A conformance suite for executors: `tarmac.jobs.Executor`.

Example::

    import pytest
    from tarmac.testing.executors import EXECUTOR_CHECKS, ExecutorCase

    @pytest.mark.parametrize("check", EXECUTOR_CHECKS)
    def test_mine_is_an_executor(check, tmp_path):
        check(ExecutorCase(kind=MINE, directory=tmp_path))

Each check starts real tasks in its own directory and raises an `AssertionError` that describes the
failure. Tasks are commands for ``sh``. ``directory`` must be the same path on the machines that run
them. The two GPUs are fake: the engine must grant two GPUs without checking that they exist.
"""

from __future__ import annotations

from collections.abc import Callable

from tarmac.testing.executors.case import ExecutorCase
from tarmac.testing.executors.ends import (
    check_a_failure_is_a_result_and_no_exception,
    check_a_stop_leaves_no_process,
    check_a_time_limit_is_kept,
    check_each_end_has_its_cause,
    check_one_attempt_is_ended_and_others_go_on,
)
from tarmac.testing.executors.programs import (
    check_a_later_attempt_adds_to_what_an_earlier_one_printed,
    check_a_secret_is_in_no_command_line,
    check_a_task_sees_its_variables_and_secrets_and_no_others,
    check_an_attempt_runs_in_its_directory,
    check_an_engine_hands_nothing_of_the_runners_environment_on,
    check_every_byte_of_arguments_and_variables_arrives,
    check_inputs_are_brought_and_outputs_kept,
    check_only_the_last_attempts_outputs_are_kept,
    check_what_a_task_keeps_in_the_run_is_there_for_the_next,
)
from tarmac.testing.executors.turns import (
    check_a_graph_of_tasks_goes_through,
    check_a_later_executor_attaches_to_what_an_earlier_one_left,
    check_a_task_without_gpus_sees_none,
    check_an_end_that_nobody_may_have_written_down_is_told_again,
    check_every_attempt_is_answered,
    check_queued_comes_before_began_and_that_before_finished,
    check_the_cluster_is_the_same_for_every_session,
    check_two_tasks_never_share_a_gpu,
    check_waiting_returns_when_patience_ends,
    check_what_can_never_run_is_refused,
)

__all__ = [
    "EXECUTOR_CHECKS",
    "ExecutorCase",
    "check_a_failure_is_a_result_and_no_exception",
    "check_a_graph_of_tasks_goes_through",
    "check_a_later_attempt_adds_to_what_an_earlier_one_printed",
    "check_a_later_executor_attaches_to_what_an_earlier_one_left",
    "check_a_secret_is_in_no_command_line",
    "check_a_stop_leaves_no_process",
    "check_a_task_sees_its_variables_and_secrets_and_no_others",
    "check_a_task_without_gpus_sees_none",
    "check_a_time_limit_is_kept",
    "check_an_attempt_runs_in_its_directory",
    "check_an_end_that_nobody_may_have_written_down_is_told_again",
    "check_an_engine_hands_nothing_of_the_runners_environment_on",
    "check_each_end_has_its_cause",
    "check_every_attempt_is_answered",
    "check_every_byte_of_arguments_and_variables_arrives",
    "check_inputs_are_brought_and_outputs_kept",
    "check_one_attempt_is_ended_and_others_go_on",
    "check_only_the_last_attempts_outputs_are_kept",
    "check_queued_comes_before_began_and_that_before_finished",
    "check_the_cluster_is_the_same_for_every_session",
    "check_two_tasks_never_share_a_gpu",
    "check_waiting_returns_when_patience_ends",
    "check_what_a_task_keeps_in_the_run_is_there_for_the_next",
    "check_what_can_never_run_is_refused",
]

EXECUTOR_CHECKS: tuple[Callable[[ExecutorCase], None], ...] = (
    check_an_attempt_runs_in_its_directory,
    check_a_failure_is_a_result_and_no_exception,
    check_a_task_sees_its_variables_and_secrets_and_no_others,
    check_inputs_are_brought_and_outputs_kept,
    check_what_a_task_keeps_in_the_run_is_there_for_the_next,
    check_only_the_last_attempts_outputs_are_kept,
    check_a_later_attempt_adds_to_what_an_earlier_one_printed,
    check_a_time_limit_is_kept,
    check_a_stop_leaves_no_process,
    check_one_attempt_is_ended_and_others_go_on,
    check_waiting_returns_when_patience_ends,
    check_what_can_never_run_is_refused,
    check_a_graph_of_tasks_goes_through,
    check_every_attempt_is_answered,
    check_queued_comes_before_began_and_that_before_finished,
    check_the_cluster_is_the_same_for_every_session,
    check_two_tasks_never_share_a_gpu,
    check_a_task_without_gpus_sees_none,
    check_each_end_has_its_cause,
    check_a_later_executor_attaches_to_what_an_earlier_one_left,
    check_an_end_that_nobody_may_have_written_down_is_told_again,
    check_a_secret_is_in_no_command_line,
    check_an_engine_hands_nothing_of_the_runners_environment_on,
    check_every_byte_of_arguments_and_variables_arrives,
)
