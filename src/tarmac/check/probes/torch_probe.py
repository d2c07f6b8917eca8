"""Makes PyTorch compute on every device it sees, and writes down what came of it.

    python torch_probe.py RESULT quick|normal|deep [DEVICE ...]

Stands alone: it runs under whatever interpreter holds the framework. RESULT is rewritten after
every stage, so that a crash or a hang leaves the stage it came in.
"""

import contextlib
import faulthandler
import importlib.util
import json
import os
import sys
import time
import traceback
import warnings

RESULT, DEPTH, WANTED = sys.argv[1], sys.argv[2], sys.argv[3:]
# Seconds that each measured rate may take, and the size of a product that fills a GPU or a CPU.
SECONDS = {"quick": 0.0, "normal": 0.15, "deep": 1.0}[DEPTH]
SIZE = {"cpu": 768 if DEPTH == "normal" else 2048, "cuda": 8192}

result = {"framework": "torch", "stage": "import", "devices": [], "notes": [], "error": None}


def stage(name):
    result["stage"] = name
    with open(RESULT + ".part", "w") as file:
        json.dump(result, file)
    os.replace(RESULT + ".part", RESULT)


@contextlib.contextmanager
def turn():
    """Measure while no other probe does, where several run together."""
    if "TARMAC_PROBE_TURN" not in os.environ:
        yield
        return
    import fcntl

    with open(os.environ["TARMAC_PROBE_TURN"]) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def relative(ours, reference):
    return float((ours.double().cpu() - reference).abs().max() / reference.abs().max())


def judged(error, tolerance):
    # A NaN is no smaller than anything.
    return {"error": error, "tolerance": tolerance, "ok": bool(error <= tolerance)}


def rate(work, function, synchronize):
    """Return work per second of the fastest of several runs."""
    function()
    synchronize()
    best, end = 0.0, time.perf_counter() + SECONDS
    while True:
        start = time.perf_counter()
        for _ in range(3):
            function()
        synchronize()
        now = time.perf_counter()
        best = max(best, 3 * work / (now - start))
        if now > end:
            return best


def probe(torch, device):
    on_gpu = device.type != "cpu"
    synchronize = (lambda: torch.cuda.synchronize(device)) if on_gpu else (lambda: None)
    found = {"name": str(device), "kind": "gpu" if on_gpu else "cpu"}
    result["devices"].append(found)
    if on_gpu:
        properties = torch.cuda.get_device_properties(device)
        found["chip"] = properties.name
        found["uuid"] = "GPU-%s" % properties.uuid if hasattr(properties, "uuid") else None
        found["capability"] = [properties.major, properties.minor]
        found["free_bytes"], found["memory_bytes"] = torch.cuda.mem_get_info(device)
    generator = torch.Generator().manual_seed(0)
    stage("product on %s" % device)
    a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
    product = a.to(device) @ b.to(device)
    found["placement"] = str(product.device)
    found["matmul"] = judged(relative(product, a.double() @ b.double()), 1e-3)
    stage("convolution on %s" % device)
    images = torch.randn(4, 8, 16, 16, generator=generator)
    kernels = torch.randn(8, 8, 3, 3, generator=generator)
    convolved = torch.nn.functional.conv2d(images.to(device), kernels.to(device), padding=1)
    expected = torch.nn.functional.conv2d(images.double(), kernels.double(), padding=1)
    # cuDNN may use TF32, of ten bits.
    found["convolution"] = judged(relative(convolved, expected), 5e-3)
    stage("training on %s" % device)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    ).to(device)
    inputs = torch.randn(64, 32, generator=generator).to(device)
    targets = torch.randint(0, 4, (64,), generator=generator).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    found["training"] = {"losses": losses, "ok": losses[0] > losses[1] > losses[2]}
    if SECONDS:
        with turn():
            measure(torch, device, found, synchronize)


def measure(torch, device, found, synchronize):
    on_gpu = device.type != "cpu"
    size = SIZE["cuda" if on_gpu else "cpu"]
    types = {"fp32": torch.float32, "bf16": torch.bfloat16}
    if on_gpu:
        types["fp16"] = torch.float16
        if found["capability"] < [8, 0]:
            # Emulated before Ampere: seconds for each product.
            del types["bf16"]
    found["flops"] = {}
    for name, dtype in types.items():
        stage("%s rate on %s" % (name, device))
        # Random numbers: products of zeros draw less power, and run faster.
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        out = torch.empty(size, size, device=device, dtype=dtype)
        found["flops"][name] = rate(
            2.0 * size**3, lambda a=a, b=b, out=out: torch.mm(a, b, out=out), synchronize
        )
        del a, b, out
    stage("copies on %s" % device)
    count = (1 << 28) if on_gpu else (1 << 25)
    here = torch.empty(count, dtype=torch.uint8, device=device)
    there = torch.empty_like(here)
    # A copy reads and writes.
    found["copies"] = {"memory": rate(2.0 * count, lambda: there.copy_(here), synchronize)}
    if on_gpu:
        pinned = torch.empty(count, dtype=torch.uint8, pin_memory=True)
        found["copies"]["to_device"] = rate(
            count, lambda: here.copy_(pinned, non_blocking=True), synchronize
        )
        found["copies"]["from_device"] = rate(
            count, lambda: pinned.copy_(here, non_blocking=True), synchronize
        )
        found["copies"]["pinned"] = True
        stage("allocation on %s" % device)
        del here, there, pinned
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info(device)[0]
        taken = int(free * 0.9) if DEPTH == "deep" else min(free // 2, 1 << 30)
        block = torch.empty(taken, dtype=torch.uint8, device=device)
        found["allocated_bytes"] = block.numel()
        # Back to the driver, for the probes beside this one.
        del block
        torch.cuda.empty_cache()


def main():
    result["wanted"] = WANTED
    if importlib.util.find_spec("torch") is None:
        result["absent"] = True
        return
    stage("import")
    start = time.perf_counter()
    import torch

    result["import_s"] = time.perf_counter() - start
    result["version"] = torch.__version__
    stage("devices")
    build = {"cuda": torch.version.cuda, "hip": torch.version.hip, "cudnn": None}
    build["architectures"] = torch.cuda.get_arch_list() if torch.version.cuda else []
    result["build"] = build
    count = torch.cuda.device_count()
    if count == 0 and torch.version.cuda:
        # Asking for one makes the driver say why there is none.
        try:
            torch.cuda.init()
        except Exception as error:
            result["notes"].append("%s: %s" % (type(error).__name__, error))
    if count:
        build["cudnn"] = torch.backends.cudnn.version()
    names = ["cuda:%d" % index for index in range(count)] + ["cpu"]
    for name in names:
        if not WANTED or name in WANTED or name.split(":")[0] in WANTED:
            probe(torch, torch.device(name))
    stage("done")


def libraries():
    """Return the CUDA libraries that are loaded, by where they are."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if line.count("/") > 1}
    except OSError:
        return []
    names = ("libcuda.so", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvidia-ml")
    return sorted(path for path in paths if os.path.basename(path).startswith(names))


if "TARMAC_PROBE_LIMIT_S" in os.environ:
    # Says where it hangs, and ends, should nobody be left to end it.
    faulthandler.dump_traceback_later(float(os.environ["TARMAC_PROBE_LIMIT_S"]) + 5, exit=True)

if __name__ == "__main__":
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            main()
        except BaseException as error:
            result["error"] = {
                "type": type(error).__name__,
                "message": str(error),
                "traceback": traceback.format_exc(),
            }
    result["notes"] += [str(warning.message) for warning in caught]
    result["libraries"] = libraries()
    stage(result["stage"])
    sys.exit(1 if result["error"] else 0)
