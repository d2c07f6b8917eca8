"""Export of a run's model to a file that needs no Tarmac, checked by running both."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tarmac import data
from tarmac.data import Dataset, columns_of, slice_columns
from tarmac.distribution import require
from tarmac.errors import RequestError, TarmacError, unknown_name
from tarmac.files import replace_file, storage_errors, temporary_directory
from tarmac.inference.graph import graph_file
from tarmac.inference.trained import Trained, named_outputs, open_trained
from tarmac.runs import Run
from tarmac.training import Checkpoint
from tarmac.workloads import Workload

Format = Literal["onnx", "torch", "tensorboard"]
# Default file names. An open TensorBoard keeps reading the last file by name: that of the scalars.
FORMATS: Mapping[str, str] = {
    "onnx": "model.onnx",
    "torch": "model.pt2",
    "tensorboard": "events.graph.tfevents",
}
_PACKAGES = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "tensorboard": ("tensorboard",)}

# Summing in another order changes the last of some 24 bits in fp32, and more over several layers.
TOLERANCE = 1e-4

_SAMPLES = 64
# A protobuf file cannot hold 2 GiB; larger weights go to a second file.
_MAX_BYTES = 2**31 - 2**24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exported:
    """The result of an export.

    Attributes:
        path: File that holds the exported model.
        format: Format of the file: ``onnx``, ``torch`` or ``tensorboard``.
        inputs: Data type and shape ``[batch, ...]`` of each input, by name.
        outputs: Names of the model's outputs, in order.
        num_samples: Number of test samples that both models were run on; 0 for ``tensorboard``.
        difference: Largest difference between the outputs of both models, relative to the largest
            value of the output. None for ``tensorboard``, which computes nothing.
    """

    path: Path
    format: Format
    inputs: Mapping[str, str]
    outputs: Sequence[str]
    num_samples: int
    difference: float | None


def export(
    reference: str | Path | Run,
    to: Format,
    *,
    file: str | Path | None = None,
    output: Path | None = None,
    workload: str | Workload | None = None,
    checkpoint: Checkpoint = "last",
) -> Exported:
    """Write a run's model, with its preprocessing, to a file of another format.

    The exported model takes any number of raw samples, as the data have them, and computes in fp32.
    Before the file gets its name, both models run on samples of the test set. Their outputs must
    agree within `TOLERANCE`. ``tensorboard`` writes the graph of the model for TensorBoard to draw.

    Args:
        reference: The run: its directory, its name, the beginning of its name or ``"latest"``.
        to: ``onnx``, ``torch`` for a program of ``torch.export``, or ``tensorboard``.
        file: File to write. Default: the name in `FORMATS`, in the run's directory.
        output: Directory of the runs. Default: ``TARMAC_RUNS``, or ``./runs``.
        workload: The run's workload, if it was passed to `tarmac.train` as a value.
        checkpoint: ``last`` or ``best``, which is the best on held-out data. Default ``last``.

    Raises:
        RequestError: The run has no weights, its data are missing, or ``file`` is a directory, a
            device or a name that TensorBoard does not read.
        MissingExtraError: ``onnx`` or ``tensorboard`` needs packages that are not installed.
        TarmacError: The model cannot be exported, or the exported model does not agree with it.
    """
    if to not in FORMATS:
        raise unknown_name("format", to, dict.fromkeys(FORMATS, ""))
    for package in _PACKAGES.get(to, ()):
        require(package)
    if file is not None and Path(file).exists() and not Path(file).is_file():
        raise RequestError(f"{file} is a directory or a device, expected the name of a file")
    if to == "tensorboard" and file is not None and "tfevents" not in Path(file).name:
        raise RequestError(
            f"TensorBoard does not read {file}: it reads files with tfevents in their names"
        )
    trained = open_trained(
        reference, device="cpu", output=output, workload=workload, checkpoint=checkpoint
    )
    columns = _test_samples(trained)
    path = Path(file) if file is not None else trained.run.path / FORMATS[to]
    example = trained.columns_as_inputs(columns)
    expected = trained.outputs(columns)
    difference = None
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _beside(path) as made:
        program = _program(trained, example)
        with storage_errors(path):
            if to == "torch":
                _write_torch(program, made)
            elif to == "onnx":
                _write_onnx(program, made, list(expected), trained)
            else:
                made.write_bytes(graph_file(program))
        if to == "torch":
            difference = _difference(expected, _run_torch(made, example), path)
        elif to == "onnx":
            difference = _difference(expected, _run_onnx(made, columns, list(expected)), path)
        with storage_errors(path):
            _move(made, path)
    count = 0 if difference is None else len(next(iter(columns.values())))
    return Exported(
        path=path,
        format=to,
        inputs={
            part.name or "inputs": f"{part.dtype} {['batch', *part.shape]}".replace("'", "")
            for part in trained.parts
        },
        outputs=list(expected),
        num_samples=count,
        difference=difference,
    )


def _test_samples(trained: Trained) -> dict[str, NDArray[Any]]:
    """Return the first samples of the run's test set; fail if their shapes or types changed."""
    dataset = _dataset(trained)
    some = slice_columns(dataset.test.inputs, 0, _SAMPLES)
    columns = {name: np.ascontiguousarray(column) for name, column in columns_of(some).items()}
    wanted = {part.name: (part.shape, part.dtype) for part in trained.parts}
    if {name: (column.shape[1:], column.dtype) for name, column in columns.items()} != wanted:
        raise RequestError(f"{dataset.name} has changed since run {trained.run.name} was made")
    if len(dataset.test) == 1:
        # torch.export would take a batch of one for a fixed size.
        columns = {name: np.repeat(column, 2, axis=0) for name, column in columns.items()}
    return columns


def _dataset(trained: Trained) -> Dataset:
    own = trained.workload.dataset
    return data.load(own) if isinstance(own, str) else own()


def _program(trained: Trained, example: Any) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch")
    shapes: Any = (
        {name: {0: batch} for name in example} if isinstance(example, dict) else {0: batch}
    )
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(
                trained.scored_model, (example,), dynamic_shapes={"inputs": shapes}
            )
    except Exception as error:
        # PyTorch's tracer raises many kinds of errors for code that it does not support.
        raise TarmacError(
            f"{trained.workload.name} cannot be exported: {_first_line(error)}",
            hint="torch.export follows tensors through the model and its preprocessing: it does "
            "not support decisions by their values or fixed batch sizes.\nAdd --debug for "
            "the whole "
            "traceback.",
        ) from error


def _write_torch(program: torch.export.ExportedProgram, path: Path) -> None:
    # When PyTorch writes the file itself and the disk is full, it ends the process.
    made = io.BytesIO()
    torch.export.save(program, made)
    path.write_bytes(made.getbuffer())


def _write_onnx(
    program: torch.export.ExportedProgram, path: Path, outputs: Sequence[str], trained: Trained
) -> None:
    names = [part.name or "inputs" for part in trained.parts]
    size = sum(value.nbytes for value in program.state_dict.values())
    try:
        with _quiet():
            made: Any = torch.onnx.export(
                program,
                dynamo=True,
                input_names=names,
                output_names=[*outputs],
                verbose=False,
            )
            made.model.metadata_props["tarmac.run"] = trained.run.record.id
            made.model.metadata_props["tarmac.workload"] = trained.run.record.workload
            made.save(path, external_data=size > _MAX_BYTES)
    except OSError:
        # An error of the disk, not of the model.
        raise
    except Exception as error:
        # The exporter wraps the C++ error for memory that ran out.
        if "bad_alloc" in str(error):
            raise MemoryError(_first_line(error)) from error
        raise TarmacError(
            f"{trained.workload.name} cannot be written as ONNX: {_first_line(error)}",
            hint="ONNX may lack some of its operations; --to torch does not need ONNX.",
        ) from error


def _run_torch(path: Path, example: Any) -> dict[str, NDArray[Any]]:
    # PyTorch loads by path only if the path is UTF-8.
    with _quiet(), torch.no_grad(), path.open("rb") as file:
        return named_outputs(torch.export.load(file).module()(example))


def _run_onnx(
    path: Path, columns: Mapping[str, NDArray[Any]], outputs: Sequence[str]
) -> dict[str, NDArray[Any]]:
    # The extra may be missing when only ``torch`` is exported.
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    directory = os.open(path.parent, os.O_PATH)
    try:
        # onnxruntime accepts only UTF-8 paths, so name the directory by its descriptor.
        place = f"/proc/self/fd/{directory}/{path.name}"
        session = onnxruntime.InferenceSession(place, options, providers=["CPUExecutionProvider"])
    finally:
        os.close(directory)
    wide = {
        name or "inputs": column.astype(np.int32) if column.dtype == np.uint16 else column
        for name, column in columns.items()
    }
    # The graph has no input for data that the model does not use.
    taken = {node.name: wide[node.name] for node in session.get_inputs()}
    return dict(zip(outputs, session.run(None, taken), strict=True))


def _difference(
    expected: Mapping[str, NDArray[Any]], actual: Mapping[str, NDArray[Any]], path: Path
) -> float:
    """Return the largest difference of any output, relative to that output's largest value.

    Raises:
        TarmacError: The difference exceeds the tolerance, or the shapes differ.
    """
    worst = 0.0
    for name, wanted in expected.items():
        output = actual[name]
        if output.shape != wanted.shape:
            raise TarmacError(
                f"the exported model does not agree with the original: {name} is "
                f"{list(output.shape)}, "
                f"and {list(wanted.shape)} of the model",
                hint=f"Nothing was written to {path}.",
            )
        scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-30)
        apart = float(np.abs(output.astype(np.float64) - wanted).max(initial=0.0)) / scale
        # In this form, NaN fails the check.
        if not apart <= TOLERANCE:
            raise TarmacError(
                f"the exported model does not agree with the original: {name} differs by "
                f"{apart:.2g} "
                f"of its largest value, more than {TOLERANCE:g}",
                hint=f"Nothing was written to {path}.",
            )
        worst = max(worst, apart)
    return worst


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yield a path of the same name in a temporary directory beside it."""
    with contextlib.ExitStack() as stack:
        with storage_errors(path):
            directory = stack.enter_context(temporary_directory(path.parent))
        yield directory / path.name


def _move(made: Path, path: Path) -> None:
    """Move a file to its path, after the file of large weights if there is one."""
    for file in sorted(made.parent.iterdir(), key=lambda file: file == made):
        replace_file(file, path.parent / file.name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the log messages and warnings of PyTorch's exporters."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
