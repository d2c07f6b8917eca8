"""Read datasets from folders of images with Pillow, one folder per class."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tarmac.data.own.parts import Part, Parts, cut_off_test
from tarmac.data.own.store import column_path, write_column
from tarmac.distribution import explained_imports
from tarmac.errors import RequestError, TarmacError
from tarmac.files import read_errors

if TYPE_CHECKING:
    from PIL import Image

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
# Usual names of the folders that hold the training or the test images.
_TRAIN, _TEST = ("train", "training"), ("test", "val", "valid", "validation")
# The tag of the camera's orientation, and its values for a quarter turn (EXIF 2.32).
_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)
# Decoded images per thread that wait to be written.
_AHEAD = 4


def read_image(path: Path, *, size: tuple[int, int] | None, grey: bool) -> NDArray[np.uint8]:
    """Decode an image, and rotate it by its EXIF orientation.

    Args:
        path: Path of an image in any format that Pillow reads.
        size: Width and height of the result in pixels: the image is scaled until it covers them,
            then cropped around its centre. None keeps the size.
        grey: Whether to return the brightness only.

    Returns:
        uint8 ``[3, height, width]``, or ``[height, width]`` if ``grey``.

    Raises:
        MissingExtraError: Pillow is not installed.
        TarmacError: The file is broken, no image, or has more than 8 bits per value.
    """
    with explained_imports():
        from PIL import ImageOps  # noqa: PLC0415 - of an extra
    with _opened(path) as image:
        if image.mode.startswith(("I", "F")):
            raise TarmacError(
                f"{path} has more than 8 bits per value, which would be lost",
                hint="Take such images over as an .npz of arrays.",
            )
        image = ImageOps.exif_transpose(image).convert("L" if grey else "RGB")  # noqa: PLW2901
    if size is not None and image.size != size:
        image = ImageOps.fit(image, size)
    array = np.asarray(image)
    return array if grey else np.ascontiguousarray(array.transpose(2, 0, 1))


def read_folder(
    origin: Path,
    test: Path | None,
    staged: Path,
    *,
    size: tuple[int, int] | None,
    grey: bool,
    test_share: float,
) -> Parts:
    """Read a folder that holds one folder of images per class.

    If the folder holds ``train`` and ``test`` (or ``val``), or ``train`` alone, the class folders
    are in these. If both ``test`` and ``val`` exist, ``test`` is scored and ``val`` is left out.

    Args:
        origin: Directory with one subdirectory of images per class.
        test: Directory of the images to score, in the same form. None: the images come from
            a test folder in ``origin``, or are split off.
        staged: Directory for the decoded images, which may exceed the memory.
        size: Width and height of the result, as for `read_image`. None: all images must agree.
        grey: Whether to keep brightness only, as for `read_image`.
        test_share: Share of each class to score if no folder holds test images. Above 0, below 1.

    Raises:
        MissingExtraError: Pillow is not installed.
        RequestError: The images differ in size and ``size`` is None.
        TarmacError: There is no image, an image is broken, or a class to split has only one.
    """
    inside = {child.name.lower(): child for child in _folders(origin)}
    train = next((inside[name] for name in _TRAIN if name in inside), None)
    test_folder = next((inside[name] for name in _TEST if name in inside), None)
    left_out: tuple[str, ...] = ()
    if train is not None and (scored := test or test_folder) is not None:
        origin, test = train, scored
        used = {train.resolve(), scored.resolve()}
        left_out = tuple(str(path) for path in inside.values() if path.resolve() not in used)
    elif train is not None and len(inside) == 1:
        # The only folder is named train: it is no class, but holds the class folders.
        origin = train
    images = _found(origin)
    classes = tuple(sorted(images))
    notes = (*_notes_on(origin, classes), *(_notes_on(test, classes) if test is not None else ()))
    if test is not None:
        to_score = _found(test)
        unknown = sorted(set(to_score) - set(classes))
        if unknown:
            raise TarmacError(f"{test} holds classes that {origin} lacks: {', '.join(unknown)}")
        parts = [images, to_score]
    else:
        learnt: dict[str, list[Path]] = {}
        cut: dict[str, list[Path]] = {}
        for name, paths in images.items():
            if len(paths) < 2:
                raise TarmacError(
                    f"{origin / name} holds one image, expected at least 2: one to train on, one "
                    "to score"
                )
            ours, theirs = cut_off_test(len(paths), test_share)
            learnt[name], cut[name] = [paths[i] for i in ours], [paths[i] for i in theirs]
        parts = [learnt, cut]
    if size is None:
        size = _common_size([path for part in parts for paths in part.values() for path in paths])
    read = []
    for name_of_part, part in zip(("train", "test"), parts, strict=True):
        paths = [path for name in classes for path in part.get(name, ())]
        targets = [classes.index(name) for name in classes for _ in part.get(name, ())]
        inputs = _decoded(paths, column_path(staged, name_of_part, "inputs"), size, grey=grey)
        read.append(Part(inputs=inputs, targets=np.array(targets, dtype=np.int64)))
    return Parts(train=read[0], test=read[1], classes=classes, left_out=left_out, notes=notes)


def _folders(origin: Path) -> list[Path]:
    with read_errors(origin):
        return sorted(p for p in origin.iterdir() if p.is_dir() and not _is_hidden(Path(p.name)))


def _is_hidden(path: Path) -> bool:
    """Return whether a path is hidden, or one that macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in path.parts)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()


def _notes_on(origin: Path, classes: Collection[str]) -> Iterator[str]:
    """Yield notes on folders without images and on images outside class folders."""
    for folder in _folders(origin):
        if folder.name not in classes:
            yield f"left out: {folder}, because it holds no image ({', '.join(IMAGE_SUFFIXES)})"
    with read_errors(origin):
        loose = sorted(p for p in origin.iterdir() if not _is_hidden(Path(p.name)) and _is_image(p))
    if loose:
        what = (
            loose[0].name if len(loose) == 1 else f"{len(loose):,} images such as {loose[0].name}"
        )
        yield (
            f"left out: {what} in {origin}, because only images in the folder of a class have "
            "a class"
        )


def _found(origin: Path) -> dict[str, list[Path]]:
    """Return the sorted images of each class."""
    images = {}
    for folder in _folders(origin):
        with read_errors(folder):
            paths = sorted(
                path
                for path in folder.rglob("*")
                if not _is_hidden(path.relative_to(folder)) and _is_image(path)
            )
        if paths:
            images[folder.name] = paths
    if not images:
        raise TarmacError(
            f"{origin} holds no folder of images",
            hint="Expected a folder for each class: DIRECTORY/CLASS/IMAGE.jpg, or "
            "DIRECTORY/train/CLASS/IMAGE.jpg and DIRECTORY/test/CLASS/IMAGE.jpg",
        )
    return images


def _common_size(paths: Sequence[Path]) -> tuple[int, int]:
    """Return the size that all images share; only the image headers are read."""
    first: tuple[int, int] | None = None
    for path in paths:
        with _opened(path) as image:
            turned = image.getexif().get(_ORIENTATION) in _TURNED
            size = image.size[::-1] if turned else image.size
        if first is None:
            first = size
        if size != first:
            raise RequestError(
                f"{paths[0]} is {first[0]}x{first[1]} and {path} is {size[0]}x{size[1]}",
                hint="Give one size for all images: --size 224x224",
            )
    assert first is not None, "there is at least one"
    return first


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    with explained_imports():
        from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - of an extra
    with read_errors(path):
        file = path.open("rb")
    try:
        with file, Image.open(file) as image:
            yield image
    except TarmacError:
        raise
    except UnidentifiedImageError as error:
        raise TarmacError(f"{path} is not an image that Pillow can read") from error
    # Pillow's readers raise anything for a broken file: OSError, SyntaxError, struct.error.
    except Exception as error:
        raise TarmacError(f"{path} is not a readable image: {error}") from error


def _decoded(
    paths: Sequence[Path], target: Path, size: tuple[int, int], *, grey: bool
) -> NDArray[Any]:
    """Decode images into a file, a few at a time, and return the file as a memory map."""
    width, height = size
    shape = (len(paths), height, width) if grey else (len(paths), 3, height, width)
    num_threads = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
    num_threads = num_threads or 1
    at_once = num_threads * _AHEAD

    def decoded(threads: ThreadPoolExecutor) -> Iterator[NDArray[np.uint8]]:
        for first in range(0, len(paths), at_once):
            some = paths[first : first + at_once]
            yield from threads.map(lambda path: read_image(path, size=size, grey=grey), some)

    with ThreadPoolExecutor(num_threads, "tarmac-images") as threads:
        write_column(target, shape, np.dtype(np.uint8), decoded(threads))
    with read_errors(target):
        return np.load(target, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
