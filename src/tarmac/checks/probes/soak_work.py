"""The work of a soak: products, copies and memory patterns, each compared bit for bit.

`Soak` works round after round on one device, and writes its progress at each step.
"""

import time

# Size of a product that fills the device, and number of products compared in a round. fp32 products
# take some 15 times as long as those of matrix units.
PRODUCT_SIZE = {"gpu": 8192, "cpu": 1024}
PRODUCTS = {"bf16": 8, "fp16": 8, "fp32": 2}

# Bytes of a copy, and of a block of memory; number of blocks checked in a round.
COPY_BYTES = 1 << 24
BLOCK_BYTES = {"gpu": 1 << 27, "cpu": 1 << 25}
BLOCKS = {"gpu": 8, "cpu": 1}

# Share of the free memory to use; other programs may take the rest.
SHARE = 0.9

PATTERNS = ("walking ones", "addresses", "random")

# Mismatches that are kept with details; further ones are only counted.
KEPT = 20

# Multiplying by this spreads numbers over all bits (Knuth, The Art of Computer Programming, 6.4).
SPREAD = 0x9E3779B97F4A7C15


class Soak:
    """The soak of one device.

    ``state`` has the results so far: ``comparisons``, ``bytes`` compared, ``mismatches`` (the first
    ones) and ``num_mismatches``, ``rounds``, ``memory_bytes`` under patterns, and the ``fastest_s``
    and ``slowest_s`` time of a round's products.
    """

    def __init__(self, torch, device, following, say):
        self.torch = torch
        self.device = torch.device(device)
        self.kind = "cpu" if self.device.type == "cpu" else "gpu"
        self.following = torch.device(following) if following else None
        self.state = {
            "step": "set-up",
            "version": torch.__version__,
            "rounds": 0,
            "comparisons": 0,
            "bytes": 0,
            "memory_bytes": 0,
            "num_mismatches": 0,
            "mismatches": [],
            "fastest_s": None,
            "slowest_s": None,
        }
        self._say = say
        self._verify_s = 0.0

    def step(self, name):
        """Write the name of a step that starts, with the state."""
        self.state["step"] = name
        self._say(**self.state)

    def run(self, end):
        """Work until a time of `time.monotonic`, at least one round."""
        self.prepare()
        while True:
            self.step("products")
            self.multiply()
            self.step("copies")
            self.copy()
            self.step("memory")
            for _ in range(BLOCKS[self.kind]):
                self.visit()
            self.state["rounds"] += 1
            # Leaves time to compare all blocks once more before the end.
            if time.monotonic() + 1.2 * self._verify_s * len(self.blocks) >= end:
                break
        self.step("memory, at the end")
        for number in range(len(self.blocks)):
            if time.monotonic() >= end:
                break
            self.see(number)
        self.step("done")

    def prepare(self):
        """Make the products' inputs, the copied data, and the patterns."""
        torch, device = self.torch, self.device
        if self.kind == "gpu":
            torch.cuda.set_device(device)
            self.state["chip"] = torch.cuda.get_device_name(device)
            has_bf16 = torch.cuda.get_device_capability(device) >= (8, 0)
            types = {"bf16": torch.bfloat16} if has_bf16 else {"fp16": torch.float16}
            types["fp32"] = torch.float32
        else:
            types = {"fp32": torch.float32}
        self.step("set-up")
        generator = torch.Generator(device=device).manual_seed(0)
        size = PRODUCT_SIZE[self.kind]
        self.products = {}
        for name, dtype in types.items():
            a, b = (
                torch.randn(size, size, generator=generator, device=device).to(dtype)
                for _ in range(2)
            )
            self.products[name] = [a, b, torch.mm(a, b), torch.empty_like(a)]
        self.sent = self.random(COPY_BYTES, generator)
        self.back = torch.empty_like(self.sent)
        # The targets of copies: name, tensor, and the expected content, copied by way of the host.
        self.places = []
        here = self.sent.cpu()
        if self.kind == "gpu":
            self.places.append(("the host", torch.empty_like(here, pin_memory=True), here.clone()))
            if self.following is not None:
                there = here.to(self.following)
                name = str(self.following)
                self.places.append((name, torch.empty_like(there), there))
        else:
            self.places.append(("other memory", torch.empty_like(here), here.clone()))
        words = BLOCK_BYTES[self.kind] // 8
        self.positions = torch.arange(words, device=device).mul_(8)
        shifts = torch.arange(words + 64, device=device).bitwise_and_(63)
        self.walking = torch.ones_like(shifts).bitwise_left_shift_(shifts)
        del shifts
        self.noise = self.random(BLOCK_BYTES[self.kind], generator)
        self.expected = torch.empty_like(self.noise)
        self.blocks = []
        self.visits = []
        self.turn = 0
        self.most = int(SHARE * self.free_bytes()) // BLOCK_BYTES[self.kind]

    def random(self, num_bytes, generator):
        """Return random words of 64 bits."""
        torch = self.torch
        halves = torch.empty(num_bytes // 4, dtype=torch.int32, device=self.device)
        halves.random_(-(1 << 31), (1 << 31) - 1, generator=generator)
        return halves.view(torch.int64)

    def free_bytes(self):
        """Return the free memory of the device in bytes."""
        if self.kind == "gpu":
            self.torch.cuda.synchronize(self.device)
            return self.torch.cuda.mem_get_info(self.device)[0]
        return min([_available_bytes()] + list(_group_bytes()))

    def multiply(self):
        """Repeat the products, and compare each result with the first."""
        torch = self.torch
        start = time.perf_counter()
        for name, product in self.products.items():
            a, b, first, again = product
            for _ in range(PRODUCTS[name]):
                torch.mm(a, b, out=again)
                if self.same("product in %s" % name, first, again):
                    continue
                torch.mm(a, b, out=first)
                if not torch.equal(_bits(torch, first), _bits(torch, again)):
                    # The repeat was wrong; the recomputed first result stays the reference.
                    torch.mm(a, b, out=again)
        seconds = time.perf_counter() - start
        # The first round also loads kernels.
        if self.state["rounds"]:
            known = self.state["fastest_s"] is not None
            self.state["fastest_s"] = min(self.state["fastest_s"], seconds) if known else seconds
            self.state["slowest_s"] = max(self.state["slowest_s"], seconds) if known else seconds

    def copy(self):
        """Copy to each target and back, and compare both copies."""
        for name, there, expected in self.places:
            there.copy_(self.sent)
            if not self.same("copy to %s" % name, expected, there):
                there.copy_(expected)
            self.back.copy_(there)
            self.same("copy from %s" % name, self.sent, self.back)

    def visit(self):
        """Check the next block of memory, then fill it with the inverse pattern."""
        if self.turn == len(self.blocks) < self.most and not self.grow():
            self.most = len(self.blocks)
        if not self.blocks:
            return
        number = self.turn % len(self.blocks)
        self.turn = number + 1
        if self.visits[number]:
            self.see(number)
        self.visits[number] += 1
        self.write(number, inverse=False)
        start = time.perf_counter()
        self.see(number, inverse=False)
        self._verify_s = time.perf_counter() - start
        # Stays in memory until the block is checked again.
        self.write(number, inverse=True)

    def grow(self):
        """Allocate another block; return False where memory has run out."""
        try:
            self.blocks.append(self.torch.empty_like(self.noise))
        except RuntimeError:
            return False
        self.visits.append(0)
        self.state["memory_bytes"] += BLOCK_BYTES[self.kind]
        return True

    def pattern(self, number, inverse):
        """Fill `expected` with a block's current pattern, and return the pattern's name."""
        visits = self.visits[number]
        name = PATTERNS[(number + visits) % len(PATTERNS)]
        if name == "walking ones":
            shift = (number + visits) % 64
            self.expected.copy_(self.walking[shift : shift + len(self.expected)])
        elif name == "addresses":
            self.torch.add(self.positions, self.blocks[number].data_ptr(), out=self.expected)
        else:
            key = (number + visits) * SPREAD % (1 << 64) - (1 << 63)
            self.torch.bitwise_xor(self.noise, key, out=self.expected)
        if inverse:
            self.expected.bitwise_not_()
        return name + (", inverse" if inverse else "")

    def write(self, number, inverse):
        self.pattern(number, inverse)
        self.blocks[number].copy_(self.expected)

    def see(self, number, inverse=True):
        """Compare a block with the pattern that was written to it."""
        name = self.pattern(number, inverse)
        self.same("memory (%s)" % name, self.expected, self.blocks[number])

    def same(self, operation, expected, actual):
        """Compare two tensors bit for bit; record differences, and return whether they are equal.

        ``operation`` is the name of the work in a recorded mismatch.
        """
        torch = self.torch
        expected, actual = _bits(torch, expected.flatten()), _bits(torch, actual.flatten())
        self.state["comparisons"] += 1
        self.state["bytes"] += expected.numel() * expected.element_size()
        if torch.equal(expected, actual):
            return True
        self.state["num_mismatches"] += 1
        if len(self.state["mismatches"]) < KEPT:
            # Compared on the host, as the device may compute wrongly.
            expected, actual = expected.cpu(), actual.cpu()
            differing = (expected != actual).nonzero().flatten()
            # A difference may vanish when the tensors are read again: show element 0 then.
            first = int(differing[0]) if len(differing) else 0
            self.state["mismatches"].append(
                {
                    "operation": operation,
                    "elements": len(differing),
                    "of": expected.numel(),
                    "first": first,
                    "expected": _hex(expected[first]),
                    "found": _hex(actual[first]),
                }
            )
        return False


def _bits(torch, tensor):
    """Return a tensor's bits as integers; floats would not compare NaN and -0 bit for bit."""
    return tensor.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def _hex(element):
    bits = 8 * element.element_size()
    return "0x%0*x" % (bits // 4, int(element) % (1 << bits))


def _available_bytes():
    """Return the machine's available memory in bytes; see MemAvailable in proc(5)."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


def _group_bytes():
    """Yield the free bytes under each memory limit of this process's control groups (v1 or v2)."""
    with open("/proc/self/cgroup") as file:
        lines = file.read().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mounted = "/sys/fs/cgroup" + ("/memory" if controllers else "")
        most, used = "memory.max", "memory.current"
        if controllers:
            most, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        parts = path.strip("/").split("/")
        # A container that sees only its part of the tree has its own control group at the root.
        for depth in range(len(parts) + 1):
            group = "/".join([mounted] + parts[:depth]).rstrip("/")
            try:
                with open(group + "/" + most) as limit, open(group + "/" + used) as usage:
                    yield max(0, int(limit.read()) - int(usage.read()))
            except (OSError, ValueError):
                # The group does not exist here, or its limit is "max".
                continue
