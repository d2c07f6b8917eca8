"""The verb: a run's model as a file that needs no Tarmac, checked by running both."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from tarmac import data
from tarmac.data import columns_of, slice_columns
from tarmac.distribution import require
from tarmac.errors import RequestError, TarmacError, unknown_name
from tarmac.files import replace_file, storage_errors, temporary_directory
from tarmac.inference.graph import graph_file
from tarmac.inference.trained import named_outputs, open_trained

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tarmac.data import Dataset
    from tarmac.inference.trained import Trained
    from tarmac.runs import Run
    from tarmac.training import Checkpoint
    from tarmac.workloads import Workload

Format = Literal["onnx", "torch", "tensorboard"]
# The names of their files. An open TensorBoard stays at the last name, which is the scalars' here.
FORMATS: Mapping[str, str] = {
    "onnx": "model.onnx",
    "torch": "model.pt2",
    "tensorboard": "events.graph.tfevents",
}
_PACKAGES = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "tensorboard": ("tensorboard",)}

# Other orders of the same sums in fp32 differ in the last of some 24 bits, more so over layers.
TOLERANCE = 1e-4

_SAMPLES = 64
# A file of protobuf's holds no 2 GiB; weights of more lie beside it.
_MAX_BYTES = 2**31 - 2**24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exported:
    """A file that a model was written to.

    Attributes:
        path: File that holds the exported model.
        format: ``onnx``, ``torch`` or ``tensorboard``.
        inputs: What a sample must be: the shape ``[batch, ...]`` and the type, by name.
        outputs: The names of what it returns, in their order.
        num_samples: Samples of the test set that both models were run on; 0 for TensorBoard's
            graph.
        difference: The largest between their answers, relative to the largest answer; None for
            TensorBoard's graph, which computes nothing.
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
    """Write a run's model to a file of another form, with the preprocessing in front of it.

    It takes any number of raw samples, as the data have them, and computes in fp32. Before the file
    is there under its name, it and the model are asked about samples of the test set, and must
    agree within `TOLERANCE`. ``tensorboard`` is the graph of the same for TensorBoard to draw.

    Args:
        reference: The run: its directory, its name, the beginning of its name or ``"latest"``.
        to: ``onnx``, ``torch`` for a program of ``torch.export``, or ``tensorboard``.
        file: File to write. Default: the name in `FORMATS`, in the run's directory.
        output: Directory of the runs. Default: ``TARMAC_RUNS``, or ``./runs``.
        workload: The run's own, where it was passed to `tarmac.train` as a value.
        checkpoint: ``best`` for the one that was best on held-out data.

    Raises:
        RequestError: The run has no weights, its data are not here, or ``file`` names a directory
            or a device, or one that TensorBoard would not read.
        MissingExtraError: ``onnx`` or ``tensorboard`` needs packages that are not installed.
        TarmacError: The model cannot be exported, or what was written does not agree with it.
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
    """Return the first samples of the run's test set, of its kind."""
    dataset = _dataset(trained)
    some = slice_columns(dataset.test.inputs, 0, _SAMPLES)
    columns = {name: np.ascontiguousarray(column) for name, column in columns_of(some).items()}
    wanted = {part.name: (part.shape, part.dtype) for part in trained.parts}
    if {name: (column.shape[1:], column.dtype) for name, column in columns.items()} != wanted:
        raise RequestError(f"{dataset.name} has changed since run {trained.run.name} was made")
    if len(dataset.test) == 1:
        # A batch of one would be taken for a size that never changes.
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
            return torch.export.export(trained.asked, (example,), dynamic_shapes={"inputs": shapes})
    except Exception as error:
        # Whatever the user's own code does, PyTorch's tracer has a word of its own for it.
        raise TarmacError(
            f"{trained.workload.name} cannot be exported: {_first_line(error)}",
            hint="torch.export follows tensors through the model and its preprocessing: decisions "
            "by their values and fixed batch sizes are beyond it.\nAdd --debug for the whole "
            "traceback.",
        ) from error


def _write_torch(program: torch.export.ExportedProgram, path: Path) -> None:
    # PyTorch ends the process where the disk is full while it writes a file itself.
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
        # Of the disk, not of the model.
        raise
    except Exception as error:
        # The exporter wraps what C++ code says of a limit of memory.
        if "bad_alloc" in str(error):
            raise MemoryError(_first_line(error)) from error
        raise TarmacError(
            f"{trained.workload.name} cannot be written as ONNX: {_first_line(error)}",
            hint="Its operations may be more than ONNX has; --to torch needs none of them.",
        ) from error


def _run_torch(path: Path, example: Any) -> dict[str, NDArray[Any]]:
    # By a path PyTorch loads only what is at one that is UTF-8.
    with _quiet(), torch.no_grad(), path.open("rb") as file:
        return named_outputs(torch.export.load(file).module()(example))


def _run_onnx(
    path: Path, columns: Mapping[str, NDArray[Any]], outputs: Sequence[str]
) -> dict[str, NDArray[Any]]:
    # The extra may be missing where only torch is asked for.
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    directory = os.open(path.parent, os.O_PATH)
    try:
        # Only paths that are UTF-8 are taken.
        place = f"/proc/self/fd/{directory}/{path.name}"
        session = onnxruntime.InferenceSession(place, options, providers=["CPUExecutionProvider"])
    finally:
        os.close(directory)
    wide = {
        name or "inputs": column.astype(np.int32) if column.dtype == np.uint16 else column
        for name, column in columns.items()
    }
    # What the model does not look at is no input of its graph.
    taken = {node.name: wide[node.name] for node in session.get_inputs()}
    return dict(zip(outputs, session.run(None, taken), strict=True))


def _difference(
    expected: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]], path: Path
) -> float:
    """Return the largest difference of any output, relative to that output's largest value.

    Raises:
        TarmacError: It is beyond the tolerance, or the shapes differ.
    """
    worst = 0.0
    for name, wanted in expected.items():
        output = found[name]
        if output.shape != wanted.shape:
            raise TarmacError(
                f"what was exported does not agree with the model: {name} is {list(output.shape)}, "
                f"and {list(wanted.shape)} of the model",
                hint=f"Nothing was written to {path}.",
            )
        scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-30)
        apart = float(np.abs(output.astype(np.float64) - wanted).max(initial=0.0)) / scale
        # Written so that NaN is beyond it.
        if not apart <= TOLERANCE:
            raise TarmacError(
                f"what was exported does not agree with the model: {name} differs by {apart:.2g} "
                f"of its largest value, more than {TOLERANCE:g}",
                hint=f"Nothing was written to {path}.",
            )
        worst = max(worst, apart)
    return worst


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yield a file of the same name in a new directory beside it, which is removed."""
    with contextlib.ExitStack() as stack:
        with storage_errors(path):
            directory = stack.enter_context(temporary_directory(path.parent))
        yield directory / path.name


def _move(made: Path, path: Path) -> None:
    """Give a file its place, with the one of large weights that may lie beside it."""
    for file in sorted(made.parent.iterdir(), key=lambda file: file == made):
        replace_file(file, path.parent / file.name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what PyTorch's exporters say of themselves."""
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
