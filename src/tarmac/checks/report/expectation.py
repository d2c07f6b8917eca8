"""A file of the conditions that a machine has to meet, as ``--require`` takes them one by one.

Example of such a file::
    gpus = 8
    gpu_name = "NVIDIA H200"
    driver = ">=570"
    memory = 900

    [variables]
    NCCL_DEBUG = "WARN"

    [rates.torch]
    bf16 = 600
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tarmac.checks.frameworks import ALL_REDUCE, find_framework, framework_named, framework_names
from tarmac.checks.report.requirements import Condition, env_condition, parse_requirement
from tarmac.documents import problems_of, read_toml, refuse
from tarmac.errors import RequestError, unknown_name

_COMPARISONS = (">=", "<=", "==", ">", "<")

_EXPECTED = "expected a number, or a comparison such as '>=8'"

_Comparison = Literal["==", ">="]


def _asked(comparison: _Comparison, example: str) -> Callable[[Any], str]:
    """Return a validator that turns a value into a comparison and an amount: ``8`` to ``==8``."""

    def read(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError(_EXPECTED)  # noqa: TRY004 - pydantic takes ValueErrors alone
        text = str(value).strip()
        text = text if text.startswith(_COMPARISONS) else f"{comparison}{text}"
        try:
            parse_requirement(f"{example}{text}")
        except RequestError as error:
            message = error.message.rpartition(": ")[2]
            raise ValueError(message if message.startswith("'") else _EXPECTED) from error
        return text

    return read


def _framework(name: str) -> str:
    try:
        return find_framework(name).name
    except RequestError as error:
        raise ValueError(error.message) from error


_Count = Annotated[str, BeforeValidator(_asked("==", "gpus"), json_schema_input_type=float | str)]
_AtLeast = Annotated[
    str, BeforeValidator(_asked(">=", "memory"), json_schema_input_type=float | str)
]
_Release = Annotated[
    str, BeforeValidator(_asked("==", "driver"), json_schema_input_type=float | str)
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rates(_Part):
    """The rates that a framework's slowest device has to reach; a number is a minimum.

    Attributes:
        bf16: Matrix products in bfloat16, in TFLOP/s.
        fp16: Matrix products in half precision, in TFLOP/s.
        fp32: Matrix products in single precision, in TFLOP/s.
        memory: Copies within a device's memory, in GB/s; bytes read and written both count.
        to_device: Copies from the host to the device, in GB/s.
        from_device: Copies from the device to the host, in GB/s.
        bus: Bus bandwidth of an all-reduce, in GB/s.
        pair: Copies from one GPU to another, in GB/s.
    """

    bf16: _AtLeast | None = None
    fp16: _AtLeast | None = None
    fp32: _AtLeast | None = None
    memory: _AtLeast | None = None
    to_device: _AtLeast | None = None
    from_device: _AtLeast | None = None
    bus: _AtLeast | None = None
    pair: _AtLeast | None = None


class Expectation(_Part):
    """The conditions that a machine has to meet. A text may have a comparison: ``">=570"``.

    Attributes:
        gpus: Number of GPUs that answer; a number is exact.
        gpu_name: The driver's name of each GPU.
        gpu_memory: Memory of the smallest GPU, in GiB; a number is a minimum.
        vbios: Firmware version of each GPU; ``equal`` accepts any that all GPUs share.
        driver: Version of NVIDIA's driver; a version is exact.
        cuda: Newest CUDA version that the driver supports; a version is exact.
        cpus: CPU cores that may be used; a number is a minimum.
        memory: Memory that may be used, in GiB; a number is a minimum.
        shm: Size of /dev/shm, in GiB; a number is a minimum.
        frameworks: Names of the frameworks that have to compute.
        variables: Environment variables that affect GPUs, with their values; false for a variable
            that must not be set.
        rates: Rates by framework, or by ``all-reduce``.
    """

    gpus: _Count | None = None
    gpu_name: str | None = None
    gpu_memory: _AtLeast | None = None
    vbios: str | None = None
    driver: _Release | None = None
    cuda: _Release | None = None
    cpus: _AtLeast | None = None
    memory: _AtLeast | None = None
    shm: _AtLeast | None = None
    frameworks: tuple[Annotated[str, AfterValidator(_framework)], ...] = ()
    variables: dict[str, str | Literal[False]] = Field(default_factory=dict)
    rates: dict[str, Rates] = Field(default_factory=dict)

    def conditions(self) -> Iterator[Condition]:
        """Yield the conditions: quantities, texts, frameworks, variables, then rates."""
        for name in ("gpus", "gpu_memory", "driver", "cuda", "cpus", "memory", "shm"):
            text = getattr(self, name)
            if text is not None:
                yield parse_requirement(f"{name}{text}")
        for name in ("gpu_name", "vbios"):
            text = getattr(self, name)
            if text is not None:
                yield parse_requirement(f"{name}=={text}")
        yield from map(parse_requirement, self.frameworks)
        for name, value in self.variables.items():
            yield env_condition(name, None if value is False else value)
        for framework, rates in self.rates.items():
            for kind, text in rates.model_dump(exclude_none=True).items():
                yield parse_requirement(f"{framework}.{kind}{text}")


def read_expectation(path: Path) -> list[Condition]:
    """Read a file of expectations.

    Raises:
        RequestError: The file cannot be read, is no TOML, is empty, or has an unknown key or value;
            the message has the file, line and column.
    """
    document = read_toml(path)
    try:
        expectation = Expectation.model_validate(document.value)
    except ValidationError as error:
        raise refuse(document, problems_of(error, document, Expectation)) from error
    for name in expectation.rates:
        if name != ALL_REDUCE.name and framework_named(name) is None:
            place = document.place_of(("rates", name))
            valid = dict.fromkeys((*framework_names(), ALL_REDUCE.name), "")
            problem = unknown_name("framework", name, valid)
            raise RequestError(
                f"{path}:{place.line}:{place.column}: rates.{name}: {problem.message}",
                hint=problem.hint,
            )
    conditions = [
        dataclasses.replace(condition, source=path.name) for condition in expectation.conditions()
    ]
    if not conditions:
        raise RequestError(f"{path} expects nothing")
    return conditions
