"""Tasks: the model of a job, its expansion into tasks, and what tasks need of a machine.

`tarmac.jobs` offers these names to the rest of Tarmac.
"""
