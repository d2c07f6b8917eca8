"""Samples from image files, scaled to the size of the training images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tarmac import data
from tarmac.errors import RequestError
from tarmac.inference.parts import Part, Samples

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def read_images(path: Path, parts: Sequence[Part], size: int) -> Iterator[Samples]:
    """Read an image, or all images of a folder in the order of their names; see `read_samples`.

    An image of another size is scaled to cover the model's size, then cropped around its centre.
    """
    part = parts[0]
    shape = part.shape
    is_grey = len(shape) == 2 or (len(shape) == 3 and shape[0] == 1)
    is_image = is_grey or (len(shape) == 3 and shape[0] == 3)
    if len(parts) > 1 or part.name or not is_image or part.dtype != np.uint8:
        wanted = "; ".join(map(str, parts))
        raise RequestError(
            f"{path}: the model takes no images: a sample is {wanted}",
            hint="Give arrays: .npy, .json or .csv.",
        )
    files = [path]
    if path.is_dir():
        inside = sorted(path.iterdir())
        files = [file for file in inside if file.suffix.lower() in IMAGES]
        files = [file for file in files if not file.name.startswith(".")]
    height, width = shape[-2:]
    for start in range(0, len(files), size):
        some = files[start : start + size]
        arrays = [data.read_image(file, size=(width, height), grey=is_grey) for file in some]
        yield Samples(
            {"": np.stack(arrays).reshape(len(some), *shape)}, tuple(str(file) for file in some)
        )
