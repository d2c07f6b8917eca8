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
    check_end_interrupts_one_attempt,
    check_failures_are_results,
    check_failures_have_causes,
    check_stop_leaves_no_process,
    check_timeouts_end_tasks,
)
from tarmac.testing.executors.programs import (
    check_arguments_and_variables_arrive_unchanged,
    check_attempts_run_in_their_directory,
    check_command_lines_have_no_secrets,
    check_inputs_and_outputs_are_staged,
    check_jobs_inherit_no_engine_variables,
    check_later_attempts_append_to_the_log,
    check_retried_attempts_keep_no_outputs,
    check_tasks_have_only_their_variables_and_secrets,
    check_tasks_share_files_of_the_run,
)
from tarmac.testing.executors.turns import (
    check_events_are_in_order,
    check_executors_return_the_same_cluster,
    check_impossible_tasks_are_refused,
    check_later_executors_attach_to_attempts,
    check_start_answers_every_attempt,
    check_tasks_never_share_a_gpu,
    check_tasks_run_after_their_needs,
    check_tasks_without_gpus_see_none,
    check_unrecorded_ends_are_reported_again,
    check_wait_returns_after_its_timeout,
)

__all__ = [
    "EXECUTOR_CHECKS",
    "ExecutorCase",
    "check_arguments_and_variables_arrive_unchanged",
    "check_attempts_run_in_their_directory",
    "check_command_lines_have_no_secrets",
    "check_end_interrupts_one_attempt",
    "check_events_are_in_order",
    "check_executors_return_the_same_cluster",
    "check_failures_are_results",
    "check_failures_have_causes",
    "check_impossible_tasks_are_refused",
    "check_inputs_and_outputs_are_staged",
    "check_jobs_inherit_no_engine_variables",
    "check_later_attempts_append_to_the_log",
    "check_later_executors_attach_to_attempts",
    "check_retried_attempts_keep_no_outputs",
    "check_start_answers_every_attempt",
    "check_stop_leaves_no_process",
    "check_tasks_have_only_their_variables_and_secrets",
    "check_tasks_never_share_a_gpu",
    "check_tasks_run_after_their_needs",
    "check_tasks_share_files_of_the_run",
    "check_tasks_without_gpus_see_none",
    "check_timeouts_end_tasks",
    "check_unrecorded_ends_are_reported_again",
    "check_wait_returns_after_its_timeout",
]

EXECUTOR_CHECKS: tuple[Callable[[ExecutorCase], None], ...] = (
    check_attempts_run_in_their_directory,
    check_failures_are_results,
    check_tasks_have_only_their_variables_and_secrets,
    check_inputs_and_outputs_are_staged,
    check_tasks_share_files_of_the_run,
    check_retried_attempts_keep_no_outputs,
    check_later_attempts_append_to_the_log,
    check_timeouts_end_tasks,
    check_stop_leaves_no_process,
    check_end_interrupts_one_attempt,
    check_wait_returns_after_its_timeout,
    check_impossible_tasks_are_refused,
    check_tasks_run_after_their_needs,
    check_start_answers_every_attempt,
    check_events_are_in_order,
    check_executors_return_the_same_cluster,
    check_tasks_never_share_a_gpu,
    check_tasks_without_gpus_see_none,
    check_failures_have_causes,
    check_later_executors_attach_to_attempts,
    check_unrecorded_ends_are_reported_again,
    check_command_lines_have_no_secrets,
    check_jobs_inherit_no_engine_variables,
    check_arguments_and_variables_arrive_unchanged,
)
