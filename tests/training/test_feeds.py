"""How samples get to a device: the same ones whatever the feed, in bounded memory where asked."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tarmac import RequestError, data
from tarmac.data import Split, Subset
from tarmac.machine import find_devices
from tarmac.training.engine.columns import samples_of
from tarmac.training.engine.feeds import open_feed
from tarmac.training.planning.feed import choose_feed
from tarmac.training.shares import Shares, cut
from waiting import limit_s

CPU = torch.device("cpu")


def split_of(num_samples: int) -> data.Split:
    inputs = np.arange(num_samples * 6, dtype=np.int64).reshape(num_samples, 2, 3) % 256
    return data.Split(inputs.astype(np.uint8), np.arange(num_samples) % 7)


@given(
    num_samples=st.integers(1, 400),
    batch_size=st.integers(1, 90),
    num_replicas=st.integers(1, 5),
    accumulate=st.integers(1, 4),
    data=st.data(),
)
def test_every_sample_is_in_one_micro_batch(
    num_samples, batch_size, num_replicas, accumulate, data
):
    shares = Shares(
        num_samples=num_samples,
        batch_size=batch_size,
        num_replicas=num_replicas,
        accumulate=accumulate,
    )
    spans = [span for r in range(num_replicas) for span in shares.micro_batches(0, r)]
    assert sorted(i for start, stop in spans for i in range(start, stop)) == list(
        range(num_samples)
    )
    sizes = [stop - start for start, stop in spans]
    assert max(sizes) == shares.largest
    assert min(size for size in sizes if size) == shares.smallest
    step = data.draw(st.integers(0, shares.num_steps - 1))
    slices = [shares.slice_of(step, r) for r in range(num_replicas)]
    assert sum(stop - start for start, stop in slices) == shares.global_size(step)
    for replica in range(num_replicas):
        rest = shares.micro_batches(step, replica)
        assert rest == shares.micro_batches(0, replica)[step * accumulate :]


def test_parts_differ_by_one_at_most():
    assert cut(10, 21, 4) == [(10, 13), (13, 16), (16, 19), (19, 21)]
    assert cut(0, 2, 4) == [(0, 1), (1, 2), (2, 2), (2, 2)]


@pytest.mark.parametrize("name", ["resident", "prefetch", "direct"])
@pytest.mark.parametrize("num_samples", [1, 5, 23])
def test_a_feed_gives_the_samples_of_the_order(name, num_samples):
    split = split_of(23)
    feed = open_feed(name, Subset(split, range(23)), 4, CPU)
    order = torch.randperm(23, generator=torch.Generator().manual_seed(3))[:num_samples]
    spans = [span for start in range(0, num_samples, 4) for span in cut(start, start + 4, 2)]
    spans = [(min(a, num_samples), min(b, num_samples)) for a, b in spans]
    for (start, stop), handed in zip(spans, feed.batches(order, spans), strict=True):
        inputs, targets = feed.samples(*handed)
        index = order[start:stop].numpy()
        assert np.array_equal(inputs.numpy(), split.inputs[index])
        assert np.array_equal(targets.numpy(), split.targets[index])


def test_a_feed_can_be_left_in_mid_epoch():
    feed = open_feed("prefetch", Subset.whole(split_of(64)), 4, CPU)
    order, spans = torch.arange(64), cut(0, 64, 16)
    for _ in range(3):
        next(iter(feed.batches(order, spans)))


def test_an_error_of_a_gathering_thread_reaches_the_caller():
    feed = open_feed("prefetch", Subset.whole(split_of(8)), 4, CPU)
    with pytest.raises(ValueError, match="output array does not match"):
        list(feed.batches(torch.arange(8), [(0, 8)]))


def test_the_feed_follows_from_size_and_memory():
    cpu = dataclasses.replace(find_devices("cpu")[0], available_bytes=3 * 2**30)
    split = split_of(23)
    assert choose_feed("auto", Subset(split, range(23)), cpu) == (
        "resident",
        "the data are in memory already: 23 samples of 14 bytes are 0.0 MiB, cpu has 3.0 GiB free",
    )
    with pytest.raises(RequestError, match="feed is 'fast', expected auto, resident, prefetch"):
        choose_feed("fast", Subset(split, range(23)), cpu)


def test_a_mapped_file_stays_on_the_disk_unless_it_fits_twice(tmp_path):
    mapped = np.memmap(tmp_path / "inputs", np.uint8, "w+", shape=(100, 1016))
    split = data.Split(mapped[:90], np.zeros(90, np.int64))
    (cpu,) = find_devices("cpu")
    small = dataclasses.replace(cpu, available_bytes=100 * 1024)
    large = dataclasses.replace(cpu, available_bytes=200 * 1024)
    name, why = choose_feed("auto", Subset.whole(split), small)
    assert name == "prefetch"
    assert "90 samples of 1,024 bytes are 0.1 MiB" in why
    assert choose_feed("auto", Subset.whole(split), large)[0] == "resident"


def test_data_larger_than_the_memory_allowed_train_by_prefetch(tmp_path):
    """A sparse file of 1.5 GiB, in a process that may hold 1 GiB of its own."""
    program = """
import resource, sys
import numpy as np, torch
import tarmac
from tarmac import data
from tarmac.workloads import SGD, Recipe, Scale, Workload

torch.set_num_threads(1)
shape = (3 * 2**11, 2**18)
np.lib.format.open_memmap(sys.argv[1] + "/inputs.npy", "w+", np.uint8, shape).flush()

def samples():
    inputs = np.load(sys.argv[1] + "/inputs.npy", mmap_mode="r")
    targets = np.arange(len(inputs)) % 2
    test = data.Split(inputs[:4], targets[:4])
    return data.Dataset(name="large", train=data.Split(inputs, targets), test=test, num_classes=2)

large = Workload(
    name="large", summary="", dataset=samples,
    model=lambda: torch.nn.Sequential(torch.nn.Unflatten(1, (1, -1)), torch.nn.AvgPool1d(1024),
                                      torch.nn.Flatten(), torch.nn.Linear(256, 2)),
    recipe=Recipe(optimizer=SGD(learning_rate=0.1, momentum=0.0, nesterov=False),
                  batch_size=32, epochs=1, preprocess=Scale(factor=1 / 255)),
)
resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))
run = tarmac.train(large, feed=sys.argv[2], output=sys.argv[1])
print(run.record.status, run.record.configuration["feed"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), "prefetch"],
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s(200),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "completed prefetch\n"


def test_the_fingerprint_of_a_large_array_sees_its_ends_and_its_middle(tmp_path):
    mapped = np.memmap(tmp_path / "inputs", np.uint8, "w+", shape=(300, 2**20))
    small = data.Split(np.zeros((1, 2**20), np.uint8), np.zeros(1, np.int64))

    def fingerprint(rows: int = 300) -> str:
        split = data.Split(mapped[:rows], np.zeros(rows, np.int64))
        return data.Dataset(name="large", train=split, test=small, num_classes=1).fingerprint

    seen = {fingerprint(), fingerprint(299)}
    for row in (0, 299):
        mapped[row, 5] += 1
        seen.add(fingerprint())
    mapped[100:110] += 1
    seen.add(fingerprint())
    assert len(seen) == 5


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_targets_and_arrays_that_run_backwards_are_gathered(dtype):
    inputs, targets = np.arange(6, dtype=np.float32)[::-1], np.arange(6, dtype=dtype)
    split = Split(inputs, targets)
    feed = open_feed("resident", Subset.whole(split), 2, CPU)
    (handed,) = feed.batches(torch.tensor([4, 1]), [(0, 2)])
    taken, wanted = feed.samples(*handed)
    assert (taken.tolist(), wanted.tolist()) == ([1, 4], [4, 1])
    assert samples_of(Subset.whole(split), 0, 2)[0].tolist() == [5, 4]
