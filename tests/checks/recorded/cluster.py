"""Recorded failures of ``failures/cluster.toml``, by code."""

from __future__ import annotations

from recorded.evidence import done, machine, said, text
from tarmac.checks.evidence import Evidence, Limits

RECORDED: dict[str, list[Evidence]] = {
    "shm-small": [
        text(
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm)."
        ),
        text(
            "RuntimeError: DataLoader worker (pid 11011) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory."
        ),
        text(
            "include/shm.h:48 NCCL WARN Error while creating shared memory segment "
            "nccl-shm-recv-1462445a6f01cbfc-1-2-3 (size 9637888)"
        ),
        text(
            "ubuntu:9621:9691 [6] misc/shmutils.cc:71 NCCL WARN Error: failed to extend /dev/shm/"
            "nccl-fjwOOB to 5967876 bytes"
        ),
        text(
            "RuntimeError: unable to write to file </torch_8289_606636967_0>: No space left on "
            "device (28)"
        ),
        text("OSError: [Errno 28] No space left on device: '/dev/shm/pymp-1x'"),
        Evidence(inventory=machine(limits=Limits(shm_bytes=64 * 2**20))),
    ],
    "memlock": [
        text(
            "ib_md.c:325 UCX ERROR ibv_reg_mr(address=0x7f0, length=9) failed: Cannot allocate "
            "memory"
        ),
        text(
            "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot "
            "allocate memory"
        ),
        text(
            "misc/ibvwrap.cc:220 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate "
            "memory"
        ),
        text(
            "[1668693503.473099] [ampere:1188443:0]          ib_log.c:246  UCX  ERROR mlx5_0: "
            "ibv_create_cq() failed: Cannot allocate memory. Please set max locked memory (ulimit "
            "-l) to 'unlimited' (current: 64 kbytes)"
        ),
        Evidence(inventory=machine(limits=Limits(memlock_bytes=65536, infiniband=True))),
    ],
    "nccl-version": [
        text(
            "NCCL WARN Mismatched NCCL version detected : rank 1 version 22105 rank 0 version 21903"
        ),
        text("NCCL WARN NCCL version mismatch: rank 0 has 2.19.3, rank 1 has 2.21.5"),
    ],
    "nccl-interface": [
        text("include/socket.h:409 NCCL WARN Connect to 172.17.0.1<41235> failed"),
        text("bootstrap.cc:120 NCCL WARN NET/Socket : No usable listening interface found"),
        text("node3:118:118 [0] bootstrap.cc:126 NCCL WARN Bootstrap : no socket interface found"),
        text(
            "bootstrap.cc:577 NCCL WARN no device found matching mlx5_9, verify NCCL_OOB_NET_IFNAME"
        ),
        text(
            "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor "
            "AF_INET6(10)"
        ),
        said(
            "torch",
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:"
            "83] ifa != nullptr. Unable to find address for: ib0",
        ),
    ],
    "rank-unreachable": [
        text("misc/socket.cc:484 NCCL WARN Connect to node7<41235> failed : Connection refused"),
        text(
            "[2026-02-25 16:41:56] tpgds-aihub0003:2387398:2387398 [3] os/linux.cc:200 NCCL WARN "
            "ncclOsSocketPollConnect: connect to 10.82.101.249<37857> returned Connection refused, "
            "exceeded error retry count after 35 attempts"
        ),
        text(
            "[2025-05-16 10:49:23] vae-bc5a469e-2296-0:10209:10243 [1] misc/socket.cc:544 NCCL "
            "WARN socketPollConnect: connect returned Connection refused, exceeded error retry "
            "count (35)"
        ),
        text(
            "ubuntu:39964:40044 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed "
            "by remote peer node1<57557>"
        ),
        text(
            "a100-st-p4d24xlarge-22:183006:183220 [1] misc/socket.cc:518 NCCL WARN Net : Call to "
            "recv from 10.200.84.247<58355> failed : Broken pipe"
        ),
        text(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed "
            "by peer [127.0.0.1]:10895"
        ),
        text(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error "
            "[192.168.70.92]:25266: Connection reset by peer"
        ),
    ],
    "imex": [
        text(
            "[2025-11-30 05:55:16] nccl-sleep-c7d759db6-cgz82:3769901:3769901 [1] mnnvl.cc:67 NCCL "
            "WARN MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX "
            "channel configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to "
            "ignore this issue."
        )
    ],
    "duplicate-gpu": [
        text("NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000"),
        text(
            "init.cc:1057 NCCL WARN Multiple Ranks are using the same GPU/Partition. Set "
            "NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration."
        ),
    ],
    "nccl-generic": [
        text(
            "NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL "
            "version 2.25.1\nncclSystemError: System call (e.g. socket, malloc) or external "
            "library call failed or device error. "
        ),
        text(
            "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
            "NCCLUtils.hpp:275, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL "
            "version 2.20.5"
        ),
        text(
            "what(): NCCL error: remote process exited or there was a network error, NCCL version "
            "2.14.3"
        ),
    ],
    "open-files": [
        text(
            "RuntimeError: unable to open shared memory object </torch_710863_755204907_419> in "
            "read-write mode: Too many open files (24)"
        ),
        text("OSError: [Errno 24] Too many open files"),
        text("RuntimeError: received 0 items of ancdata"),
    ],
    "nccl-timeout": [
        text(
            "[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, "
            "NumelOut=9801523, Timeout(ms)=600000) ran for 600020 milliseconds before timing out."
        ),
        text(
            "[rank2]:[E704 13:48:58.260494728 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID "
            "0(default_pg) Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds without "
            "making progress in monitoring enqueued collectives."
        ),
    ],
    "port-refused": [
        text(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
            "local network address. The server socket has failed to bind to [::]:98 (errno: 13 - "
            "Permission denied)."
        ),
        text(
            "RuntimeError: The server socket has failed to bind to [10.0.0.7]:29500 (errno: 99 - "
            "Cannot assign requested address)."
        ),
    ],
    "nccl-shm": [
        text(
            "g148:14937:69361 [0] misc/shmutils.cc:129 NCCL WARN Error while attaching to shared "
            "memory segment /dev/shm/nccl-glnlGK (size 14156128), error: No such file or directory"
            " (2)"
        ),
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

RECORDED["port-in-use"] += [text("OSError: [Errno 98] Address already in use")]
RECORDED["nccl-timeout"] += [
    text(
        "Some NCCL operations have failed or timed out. Due to the asynchronous nature "
        "of CUDA kernels"
    )
]

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "shm-small": [
        Evidence(inventory=machine(limits=Limits(shm_bytes=512 * 2**20))),
        # Another limit: of open files.
        text("unable to open shared memory object </torch_29919_1396182366> in read-write mode"),
        text("NCCL INFO Channel 20 : 5[5] -> 4[4] via SHM/direct/direct"),
    ],
    "nccl-version": [text("NCCL version 2.21.5+cuda12.4")],
    "nccl-interface": [
        text("NCCL INFO Bootstrap : Using eth0:10.244.0.233<0>"),
        text("NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2"),
        text("NCCL INFO NET/Socket : Using [0]docker0:172.17.0.2<0>"),
    ],
    "rank-unreachable": [
        # It tries again, and mostly comes through.
        text(
            "NCCL INFO socketPollConnect: connect returned Connection refused, retrying (34/34) "
            "after sleep for 3400 msec"
        ),
        text("NCCL INFO Call to connect returned Connection refused, retrying"),
        text("ssh: connect to host worker-1 port 22: Connection refused"),
    ],
    "imex": [text("NCCL INFO MNNVL 1 cliqueId 0 cliqueSize 8 cliqueRank 0")],
    "duplicate-gpu": [
        text("NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE")
    ],
    "nccl-timeout": [
        text("ProcessGroupNCCL initialization options: size: 8, TIMEOUT(ms): 600000"),
    ],
    "nccl-shm": [text("NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")],
    "port-refused": [text("The server socket is listening on [::]:29500.")],
    "port-in-use": [
        # A web server's.
        text("Error: listen EADDRINUSE: address already in use :::3000"),
    ],
    "nccl-generic": [text("NCCL INFO NCCL_DEBUG set by environment to INFO")],
    "open-files": [text("open files                      (-n) 1024")],
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
