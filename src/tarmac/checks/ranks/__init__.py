"""Checks between machines: which host is slow, dead, or differs from the others.

A launcher (torchrun, srun, mpirun) starts ``tarmac check --ranks all`` several times. `place` reads
the rank of this process. Rank 0 leads (`lead`): all ranks, itself included, connect to it and
follow its commands (`member`). Each rank computes in a separate process, which can be killed where
it hangs (`worker`).
"""
