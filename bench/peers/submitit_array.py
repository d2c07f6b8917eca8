"""A program many times through submitit's array: ``python submitit_array.py FOLDER COUNT``."""

from __future__ import annotations

import subprocess
import sys

import submitit


def work(number):
    subprocess.run(["true"], check=True)
    return number


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
    executor.update_parameters(
        timeout_min=10, cpus_per_task=1, slurm_mem="64M", slurm_array_parallelism=count
    )
    jobs = executor.map_array(work, range(count))
    assert [job.result() for job in jobs] == [*range(count)]


if __name__ == "__main__":
    main()
