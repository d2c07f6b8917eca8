"""Recorded failures of ``failures/cluster.toml``, by code."""

from __future__ import annotations

from recorded.evidence import done, machine, text
from tarmac.checks.evidence import Evidence, Limits

RECORDED: dict[str, list[Evidence]] = {
    "shm-small": [
        text(
            "RuntimeError: DataLoader worker (pid 11011) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory."
        ),
        text(
            "include/shm.h:48 NCCL WARN Error while creating shared memory segment "
            "nccl-shm-recv-1462445a6f01cbfc-1-2-3 (size 9637888)"
        ),
        Evidence(inventory=machine(limits=Limits(shm_bytes=64 * 2**20))),
    ],
    "memlock": [
        text(
            "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot "
            "allocate memory"
        ),
        Evidence(inventory=machine(limits=Limits(memlock_bytes=65536, infiniband=True))),
    ],
    "nccl-version": [
        text("NCCL WARN NCCL version mismatch: rank 0 has 2.19.3, rank 1 has 2.21.5"),
    ],
    "nccl-interface": [
        text("include/socket.h:409 NCCL WARN Connect to 172.17.0.1<41235> failed"),
        text("misc/socket.cc:484 NCCL WARN Connect to node7<41235> failed : Connection refused"),
    ],
    "duplicate-gpu": [
        text("NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000")
    ],
    "nccl-timeout": [
        text(
            "[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, "
            "NumelOut=9801523, Timeout(ms)=600000) ran for 600020 milliseconds before timing out."
        )
    ],
    "port-in-use": [
        text(
            "The server socket has failed to listen on any local network address. port: 29500, "
            "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
        )
    ],
    "all-reduce-wrong": [
        done("all-reduce", all_reduce={"problem": "wrong", "detail": "on rank 1"}),
    ],
    "all-reduce-hung": [
        done(
            "all-reduce",
            all_reduce={"problem": "hung", "detail": "rank 1 at: all-reduce, after 96 s"},
        )
    ],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "shm-small": [Evidence(inventory=machine(limits=Limits(shm_bytes=512 * 2**20)))],
    "memlock": [
        # Nothing here needs locked memory.
        Evidence(inventory=machine(limits=Limits(memlock_bytes=65536))),
        Evidence(inventory=machine(limits=Limits(infiniband=True))),
    ],
    "all-reduce-wrong": [
        done("all-reduce", all_reduce={"problem": None, "detail": "", "gbytes_per_s": 12.0})
    ],
    "all-reduce-hung": [
        done("all-reduce", all_reduce={"problem": "wrong", "detail": "on rank 1"}),
    ],
}
