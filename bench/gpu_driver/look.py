"""Whether PyTorch computes on a GPU here: asked in a process of its own, which may hang."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_driver import CannotRunError
from gpu_driver.process import run_limited

if TYPE_CHECKING:
    from collections.abc import Mapping

# The first import of PyTorch on a machine reads gigabytes.
_LIMIT_S = 180.0

_PROGRAM = """
import json, sys, time, warnings
answer, started = {}, time.perf_counter()
try:
    with warnings.catch_warnings(record=True) as words:
        warnings.simplefilter("always")
        import torch
        answer["import_s"] = time.perf_counter() - started
        answer |= {"torch": torch.__version__, "cuda": torch.version.cuda}
        answer["num_gpus"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if answer["num_gpus"]:
            started = time.perf_counter()
            answer["device"] = torch.cuda.get_device_name(0)
            torch.ones(8, device="cuda").sum().item()
            answer["context_s"] = time.perf_counter() - started
    answer["warnings"] = [str(w.message) for w in words]
except Exception as error:
    answer["error"] = f"{type(error).__name__}: {error}"
with open(sys.argv[1], "w") as file:
    json.dump(answer, file)
"""


@dataclasses.dataclass(frozen=True)
class Machine:
    """A GPU that computes, and what computes on it.

    Attributes:
        device: The name of the first GPU.
        torch: PyTorch's version.
        cuda: The version of CUDA that it is built for.
        num_gpus: How many it sees.
        import_s: How long its first import took.
        context_s: How long the first sum on the GPU took, with its context.
    """

    device: str
    torch: str
    cuda: str
    num_gpus: int
    import_s: float
    context_s: float


def look(environment: Mapping[str, str]) -> Machine:
    """Compute something on the first GPU.

    Raises:
        CannotRunError: That did not work; the message says why, and what to do.
    """
    with tempfile.TemporaryDirectory() as work:
        answer_file, output = Path(work) / "answer.json", Path(work) / "output.txt"
        command = (sys.executable, "-c", _PROGRAM, str(answer_file))
        ended = run_limited(
            command,
            limit_s=_LIMIT_S,
            directory=Path(work),
            environment=environment,
            output=output,
        )
        if not answer_file.exists():
            how = f"exit code {ended.code}" if ended.code is not None else f"over {_LIMIT_S:g} s"
            said = output.read_text(errors="replace")[-2000:].strip()
            raise CannotRunError(f"PyTorch could not be asked for a GPU ({how}).\n{said}")
        answer = json.loads(answer_file.read_text(encoding="utf-8"))
    return machine_of(answer, environment)


def machine_of(answer: Mapping[str, object], environment: Mapping[str, str]) -> Machine:
    """Read the answer of the program that was asked.

    Raises:
        CannotRunError: No GPU computes.
    """
    error = answer.get("error", "")
    if "torch" not in answer:
        raise CannotRunError(
            f"PyTorch cannot be imported by {sys.executable}: {error}\n"
            "Name a Python that has it: make gpu PYTHON=python3.12"
        )
    named = f"PyTorch {answer['torch']}"
    if error:
        raise CannotRunError(f"{named} does not compute on the GPU: {error}")
    if answer["cuda"] is None:
        raise CannotRunError(
            f"There is no CUDA in {named} of {sys.executable}: it computes on CPUs alone.\n"
            "Name a Python whose PyTorch has CUDA: make gpu PYTHON=python3.12"
        )
    if not answer["num_gpus"]:
        reasons = [f"- {text}" for text in answer.get("warnings", [])]
        if (hidden := environment.get("CUDA_VISIBLE_DEVICES")) is not None:
            reasons.append(f"- CUDA_VISIBLE_DEVICES is {hidden!r}")
        lines = "\n".join([f"{named} finds no GPU on this machine.", *reasons])
        raise CannotRunError(f"{lines}\nWhat is wrong, and what to do: tarmac check")
    names = [field.name for field in dataclasses.fields(Machine)]
    return Machine(**{name: answer[name] for name in names})
