"""Checks between machines: which host is slow, dead, or differs from the others.

A launcher (torchrun, srun, mpirun) starts ``tarmac check --ranks all`` several times. `place` says
which of them this process is. Rank 0 leads (`lead`): all others, and itself, connect to it and do
what it tells them (`member`). What computes is a program in a process of its own, which can be
ended where it hangs (`worker`).
"""
