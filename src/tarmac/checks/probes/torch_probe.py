"""Computes with PyTorch on every device that it sees, and writes the result.

    python torch_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result.
"""

import platform
import re
import time

from harness import COPIED_BYTES, judged, relative, run, trained

# Packages with a version for each version of PyTorch, from the same index.
COMPANIONS = ("torchvision", "torchaudio", "torchtext", "torchdata", "torchcodec", "xformers")

# Size of a product in a type that the CPU emulates: 1 s; one of 2,048 takes half a minute.
EMULATED_SIZE = 768


def compute(probe, torch, device):
    on_gpu = device.type != "cpu"
    wait = (lambda _: torch.cuda.synchronize(device)) if on_gpu else (lambda _: None)
    entry = probe.device(str(device), on_gpu)
    if on_gpu:
        properties = torch.cuda.get_device_properties(device)
        entry["chip"] = properties.name
        entry["uuid"] = "GPU-%s" % properties.uuid if hasattr(properties, "uuid") else None
        entry["capability"] = [properties.major, properties.minor]
        entry["multiprocessors"] = properties.multi_processor_count
        entry["free_bytes"], entry["memory_bytes"] = torch.cuda.mem_get_info(device)
    generator = torch.Generator().manual_seed(0)
    probe.stage("product on %s" % device)
    a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
    there = a.to(device)
    product = there @ b.to(device)
    entry["placement"] = str(product.device)
    probe.ran(entry, "Tensor.to", there.device)
    probe.ran(entry, "mm", product.device)
    entry["matmul"] = judged(relative(product.double().cpu(), a.double() @ b.double()), 1e-3)
    probe.stage("convolution on %s" % device)
    images = torch.randn(4, 8, 16, 16, generator=generator)
    kernels = torch.randn(8, 8, 3, 3, generator=generator)
    convolved = torch.nn.functional.conv2d(images.to(device), kernels.to(device), padding=1)
    probe.ran(entry, "conv2d", convolved.device)
    expected = torch.nn.functional.conv2d(images.double(), kernels.double(), padding=1)
    # cuDNN may use TF32, whose mantissa has ten bits.
    entry["convolution"] = judged(relative(convolved.double().cpu(), expected), 5e-3)
    probe.stage("training on %s" % device)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    ).to(device)
    inputs = torch.randn(64, 32, generator=generator).to(device)
    targets = torch.randint(0, 4, (64,), generator=generator).to(device)
    parameters = list(model.parameters())
    losses = []
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        for parameter in parameters:
            parameter.grad = None
        loss.backward()
        # By hand: torch.optim imports the compiler, which takes as long as PyTorch itself.
        with torch.no_grad():
            for parameter in parameters:
                parameter.sub_(0.5 * parameter.grad)
        losses.append(float(loss.detach()))
    weight = parameters[0]
    probe.ran(entry, "Parameter", weight.device)
    probe.ran(entry, "cross_entropy", loss.device)
    probe.ran(entry, "backward", weight.grad.device)
    entry["training"] = trained(losses)
    if probe.seconds:
        with probe.turn(entry):
            measure(probe, torch, device, entry, wait)


def measure(probe, torch, device, entry, wait):
    on_gpu = device.type != "cpu"
    size = probe.sizes["gpu" if on_gpu else "cpu"]
    types = {"fp32": torch.float32, "bf16": torch.bfloat16}
    if on_gpu:
        types["fp16"] = torch.float16
        if entry["capability"] < [8, 0]:
            # bf16 is emulated before Ampere, and takes seconds for each product.
            del types["bf16"]
    entry["flops"] = {}
    for name, dtype in types.items():
        probe.stage("%s rate on %s" % (name, device))
        if name == "bf16" and not on_gpu and emulates(torch, dtype):
            size = min(size, EMULATED_SIZE)
        # Random numbers, as products of zeros draw less power and run faster.
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        out = torch.empty(size, size, device=device, dtype=dtype)
        entry["flops"][name] = probe.rate(
            2.0 * size**3, lambda a=a, b=b, out=out: torch.mm(a, b, out=out), wait
        )
        del a, b, out
    probe.stage("copies on %s" % device)
    count = COPIED_BYTES
    here = torch.empty(count, dtype=torch.uint8, device=device)
    there = torch.empty_like(here)
    # A copy reads and writes.
    entry["copies"] = {"memory": probe.rate(2.0 * count, lambda: there.copy_(here), wait)}
    if on_gpu:
        pinned = torch.empty(count, dtype=torch.uint8, pin_memory=True)
        entry["copies"]["to_device"] = probe.rate(
            count, lambda: here.copy_(pinned, non_blocking=True), wait
        )
        entry["copies"]["from_device"] = probe.rate(
            count, lambda: pinned.copy_(here, non_blocking=True), wait
        )
        entry["copies"]["pinned"] = True
        probe.stage("allocation on %s" % device)
        del here, there, pinned
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info(device)[0]
        taken = int(free * 0.9) if probe.depth == "deep" else min(free // 2, 1 << 30)
        # Memory is returned to the driver, for the probes that run in parallel.
        with probe.alone():
            block = torch.empty(taken, dtype=torch.uint8, device=device)
            entry["allocated_bytes"] = block.numel()
            del block
            torch.cuda.empty_cache()


def emulates(torch, dtype):
    """Return whether the CPU has no instructions for a type: PyTorch then takes seconds."""
    operand = torch.ones(256, 256, dtype=dtype)
    for _ in range(2):
        start = time.perf_counter()
        operand @ operand
    return time.perf_counter() - start > 0.005


def companions():
    """Return the version of each installed companion, and the PyTorch version that it needs."""
    try:
        from importlib.metadata import PackageNotFoundError, requires, version
    except ImportError:
        return {}
    packages = {}
    for name in COMPANIONS:
        try:
            needs = [re.match(r"torch *\(?==+ *([^\s;)+]+)", line) for line in requires(name) or ()]
            packages[name] = {
                "version": version(name),
                "needs": next((match.group(1) for match in needs if match), None),
            }
        except PackageNotFoundError:
            continue
    return packages


def releases(torch):
    """Return this release's builds: CUDA version to processor to chips; empty where unknown."""
    own = getattr(torch.cuda, "PYTORCH_RELEASES_CODE_CC", None) or {}
    here = platform.machine()
    # The table has a level for processors from PyTorch 2.12 on.
    return {
        cuda: {
            processor: sorted(codes)
            for processor, codes in (table if isinstance(table, dict) else {here: table}).items()
        }
        for cuda, table in own.items()
    }


def main(probe):
    if probe.lacks("torch"):
        return
    probe.result["companions"] = companions()
    with probe.importing():
        import torch

    probe.result["version"] = torch.__version__
    probe.stage("devices")
    build = {"cuda": torch.version.cuda, "hip": torch.version.hip, "cudnn": None}
    build["architectures"] = torch.cuda.get_arch_list() if build["cuda"] or build["hip"] else []
    build["releases"] = releases(torch)
    probe.result["build"] = build
    count = torch.cuda.device_count()
    if count == 0 and torch.version.cuda:
        # Initializing CUDA yields the driver's error, which says why there is no GPU.
        try:
            torch.cuda.init()
        except Exception as error:
            probe.result["notes"].append("%s: %s" % (type(error).__name__, error))
    if count:
        build["cudnn"] = torch.backends.cudnn.version()
    names = ["cuda:%d" % index for index in range(count)] + ["cpu"]
    for name in names:
        if probe.wants(name):
            compute(probe, torch, torch.device(name))
    probe.stage("done")


if __name__ == "__main__":
    run("torch", main)
