"""Choose the precision and compilation by rule, and give the reason."""

from __future__ import annotations

from collections.abc import Callable

from tarmac.errors import RequestError
from tarmac.machine import Device, find_chip
from tarmac.training.engine.strategy import StrategySpec
from tarmac.training.plan import Precision
from tarmac.training.planning.compiler_place import why_no_compiler
from tarmac.training.planning.products import bf16_speedup

# Cost of the casts around bf16 products in a step on a CPU, as fp32 matrix work of the same
# duration. bench/precision_rule.py measures it: some 25e6 on an AMD EPYC with AVX512_BF16, and
# 120e6 on an Intel Xeon with AMX, where steps between 60 and 160 MFLOP are within a tenth either
# way. This value costs at most a tenth in both results. 100e6 made some steps of the EPYC half as
# long again.
_CASTS_AS_FP32_FLOPS = 40e6

# Bytes per parameter that an fp16 step reads and writes in a GPU's memory beyond an fp32 step:
# 8 to divide the gradient by the scale, 6 to cast the weight, and 84 to keep the weight and two
# values of an optimizer and to choose them again (`Update.step`).
_FP16_BYTES_PER_PARAMETER = 98

# A100 whitepaper, 2020: "TF32 tensor cores".
_TF32_SINCE = (8, 0)

# Compiling takes tens of seconds, which a long training must earn back.
_COMPILE_MIN_FLOPS = 1e17


def choose_precision(
    request: str,
    device: Device,
    step_flops: int,
    speedup_of: Callable[[Device], float] = bf16_speedup,
    *,
    num_parameters: int | None = None,
) -> tuple[Precision, str]:
    """Choose the fastest precision for a device.

    On a CPU bf16 products run ``speedup`` times as fast as in fp32. bf16 pays if a step saves more
    than the casts cost: ``step_flops * (1 - 1 / speedup)`` exceeds the casts' cost as fp32 work.

    On a GPU with matrix units for fp16 but not bf16, such as a V100 or T4, fp16 pays if its
    products save more than scaling the loss costs, by the rates of its data sheet in `find_chip`.

    Args:
        request: ``"auto"``, ``"fp32"`` (IEEE's on every device), ``"tf32"``, ``"bf16"``,
            ``"fp16"`` (with a scaled loss), or ``"fp64"`` (for proofs).
        device: Device on which the training runs.
        step_flops: Matrix work of one training step on one device, in FLOP.
        speedup_of: Function that returns the speed of a CPU's bf16 products over fp32; called only
            if the choice depends on it.
        num_parameters: Number of trained parameters; None if the loss cannot be scaled.

    Returns:
        The precision, and the reason in words.

    Raises:
        RequestError: The request is unknown, or is tf32 on a device without it.
    """
    match request:
        case "fp32" | "bf16" | "fp16" | "fp64":
            return request, "as requested"
        case "tf32" if device.compute_capability is None or device.compute_capability < _TF32_SINCE:
            raise RequestError(
                f"precision is 'tf32', which {device.name} does not have",
                hint="NVIDIA's GPUs have it since Ampere. Use --precision fp32, or leave it out.",
            )
        case "tf32":
            return "tf32", "as requested"
        case "auto" if device.type == "cpu":
            return _faster_on_cpu(step_flops, lambda: speedup_of(device))
        case "auto" if not device.bf16_matrix_units:
            return _without_bf16(device, step_flops, num_parameters)
        case "auto":
            return "bf16", "the device has matrix units for bf16"
        case _:
            raise RequestError(
                f"precision is {request!r}, expected auto, fp32, tf32, bf16, fp16 or fp64"
            )


def _faster_on_cpu(step_flops: int, measure: Callable[[], float]) -> tuple[Precision, str]:
    too_few = f"{step_flops / 1e6:.0f} MFLOP a step are too few for bf16 to be faster"
    if step_flops <= _CASTS_AS_FP32_FLOPS:
        return "fp32", too_few
    speedup = measure()
    measured = f"bf16 products were measured at {speedup:.2f} times the speed of fp32's"
    if speedup <= 1:
        return "fp32", measured
    if step_flops * (1 - 1 / speedup) <= _CASTS_AS_FP32_FLOPS:
        return "fp32", f"{measured}, and {too_few}"
    return "bf16", measured


def _without_bf16(
    device: Device, step_flops: int, num_parameters: int | None
) -> tuple[Precision, str]:
    without = f"{device.name} has no matrix units for bf16"
    if not device.fp16_matrix_units:
        return "fp32", without
    to_type = f"{without}, but for fp16: --precision fp16 uses them"
    chip = find_chip(device.name, memory_bytes=device.memory_bytes)
    if num_parameters is None or chip is None:
        return "fp32", to_type
    if not (chip.fp32 and chip.fp16 and chip.attainable and chip.bandwidth):
        return "fp32", to_type
    # No GPU reaches its fp32 rate either, so the real saving is larger.
    in_fp32 = step_flops / (chip.fp32 * 1e12)
    saved_s = in_fp32 - step_flops / (chip.fp16 * chip.attainable * 1e12)
    cost_s = num_parameters * _FP16_BYTES_PER_PARAMETER / (chip.bandwidth * 1e9)
    figures = f"fp16 saves {saved_s * 1e3:.2g} ms a step and costs {cost_s * 1e3:.2g}"
    if saved_s <= cost_s:
        return "fp32", f"{to_type}; by its data sheet, {figures}"
    return "fp16", f"{without}, but for fp16; by its data sheet, {figures}"


def choose_compile(
    request: str,
    device: Device,
    strategy: StrategySpec,
    run_flops: float,
    why_not: Callable[[], str | None] = why_no_compiler,
) -> tuple[bool, str]:
    """Choose whether ``torch.compile`` pays for itself within the run.

    It does not pay on a CPU. For the 784-512-512-10 network PyTorch 2.13 took 19 s to compile on a
    2-core Xeon. A compiled epoch then took 1.6 s against 0.9 s, as its dropout is slow.

    Args:
        request: ``"auto"``, ``"on"`` or ``"off"``.
        device: Device on which the training runs.
        strategy: Strategy of the training; one that shards the model compiles only on request.
        run_flops: Matrix work of the whole training, in FLOP.
        why_not: Function that returns why the compiler cannot work here; called only if the choice
            depends on it.

    Returns:
        Whether to compile, and the reason in words.

    Raises:
        RequestError: The request is unknown, or is ``on`` where the compiler cannot work.
    """
    match request:
        case "off":
            return False, "as requested"
        case "auto" if strategy.shards_model:
            return False, f"{strategy.name} gathers parameters between layers"
        case "auto" if device.type == "cpu":
            return False, "it does not save time on a CPU"
        case "auto" if run_flops < _COMPILE_MIN_FLOPS:
            return False, f"{run_flops:.0e} FLOP are too few for it to save time"
        case "on" | "auto":
            pass
        case _:
            raise RequestError(f"compile is {request!r}, expected auto, on or off")
    against = why_not()
    if against is None:
        return True, "as requested" if request == "on" else (
            f"{run_flops:.0e} FLOP are enough for it to save time"
        )
    if request == "on":
        raise RequestError(
            against,
            hint="Give it a directory of yours: export TMPDIR=$(mktemp -d /tmp/mine-XXXXXX)\n"
            "Or leave --compile out.",
        )
    return False, against
