"""What a device is soaked with: products, copies and memory patterns, each compared bit for bit.

`Soak` does one round after another on one device, and writes down after each step how far it is.
"""

import time

# A product that fills the device, and how many of it are compared in a round. fp32 products take
# some 15 times as long as those of matrix units.
PRODUCT_SIZE = {"gpu": 8192, "cpu": 1024}
PRODUCTS = {"bf16": 8, "fp16": 8, "fp32": 2}

# Bytes of a copy, and of a block of memory; how many blocks have their turn in a round.
COPY_BYTES = 1 << 24
BLOCK_BYTES = {"gpu": 1 << 27, "cpu": 1 << 25}
BLOCKS = {"gpu": 8, "cpu": 1}

# Of the free memory; the rest is left to what else runs.
SHARE = 0.9

PATTERNS = ("walking ones", "addresses", "random")

# Mismatches that are kept in full; the others are counted.
KEPT = 20

# Multiplying by it spreads numbers over all bits (Knuth, The Art of Computer Programming, 6.4).
SPREAD = 0x9E3779B97F4A7C15


class Soak:
    """The work on one device.

    ``state`` is what is known by now: ``comparisons``, ``bytes`` compared, ``mismatches`` (the
    first ones) and ``num_mismatches``, ``rounds``, ``memory_bytes`` under patterns, and the
    ``fastest_s`` and ``slowest_s`` time of a round's products.
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
        """Write down what is begun."""
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
            # What lies in memory is looked at once more before the end.
            if time.monotonic() + 1.2 * self._verify_s * len(self.blocks) >= end:
                break
        self.step("memory, at the end")
        for number in range(len(self.blocks)):
            if time.monotonic() >= end:
                break
            self.see(number)
        self.step("done")

    def prepare(self):
        """Make the inputs of products, what is copied, and patterns."""
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
        # Each place that copies go to, and what is to be there, which came over the host.
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
        """Return how much memory may be had."""
        if self.kind == "gpu":
            self.torch.cuda.synchronize(self.device)
            return self.torch.cuda.mem_get_info(self.device)[0]
        return min([_available_bytes()] + list(_group_bytes()))

    def multiply(self):
        """Repeat the products, and compare each with the first."""
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
                    # The odd one out was the repetition: the first is computed once more, and kept.
                    torch.mm(a, b, out=again)
        seconds = time.perf_counter() - start
        # The first round also loads kernels.
        if self.state["rounds"]:
            known = self.state["fastest_s"] is not None
            self.state["fastest_s"] = min(self.state["fastest_s"], seconds) if known else seconds
            self.state["slowest_s"] = max(self.state["slowest_s"], seconds) if known else seconds

    def copy(self):
        """Copy to each place and back, and see what arrives."""
        for name, there, expected in self.places:
            there.copy_(self.sent)
            if not self.same("copy to %s" % name, expected, there):
                there.copy_(expected)
            self.back.copy_(there)
            self.same("copy from %s" % name, self.sent, self.back)

    def visit(self):
        """Let the next block of memory have its turn."""
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
        # Lies there until the next turn.
        self.write(number, inverse=True)

    def grow(self):
        """Take another block; return whether there was one."""
        try:
            self.blocks.append(self.torch.empty_like(self.noise))
        except RuntimeError:
            return False
        self.visits.append(0)
        self.state["memory_bytes"] += BLOCK_BYTES[self.kind]
        return True

    def pattern(self, number, inverse):
        """Return the name of what a block holds since its last turn; `expected` is then that."""
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
        """Compare a block with what was written there."""
        name = self.pattern(number, inverse)
        self.same("memory (%s)" % name, self.expected, self.blocks[number])

    def same(self, operation, expected, found):
        """Compare two tensors bit for bit, and write down where they differ."""
        torch = self.torch
        expected, found = _bits(torch, expected.flatten()), _bits(torch, found.flatten())
        self.state["comparisons"] += 1
        self.state["bytes"] += expected.numel() * expected.element_size()
        if torch.equal(expected, found):
            return True
        self.state["num_mismatches"] += 1
        if len(self.state["mismatches"]) < KEPT:
            # Looked at on the host: the device has just computed wrongly.
            expected, found = expected.cpu(), found.cpu()
            differing = (expected != found).nonzero().flatten()
            # What is not there any more once it is read again is shown as it is.
            first = int(differing[0]) if len(differing) else 0
            self.state["mismatches"].append(
                {
                    "operation": operation,
                    "elements": len(differing),
                    "of": expected.numel(),
                    "first": first,
                    "expected": _hex(expected[first]),
                    "found": _hex(found[first]),
                }
            )
        return False


def _bits(torch, tensor):
    """Return a tensor as whole numbers: NaN differs from itself, and 0 not from -0."""
    return tensor.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def _hex(element):
    bits = 8 * element.element_size()
    return "0x%0*x" % (bits // 4, int(element) % (1 << bits))


def _available_bytes():
    """Return what of the machine's memory is free or can be made so; see proc(5)."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


def _group_bytes():
    """Yield what each control group of this process, of version 1 or 2, leaves free."""
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
        # A container that sees only its part of the tree has its own group at the root.
        for depth in range(len(parts) + 1):
            group = "/".join([mounted] + parts[:depth]).rstrip("/")
            try:
                with open(group + "/" + most) as limit, open(group + "/" + used) as usage:
                    yield max(0, int(limit.read()) - int(usage.read()))
            except (OSError, ValueError):
                # No such group here, or "max".
                continue
