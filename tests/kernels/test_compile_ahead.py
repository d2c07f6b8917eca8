"""The kernels compile for every GPU since Ampere, and keep their values in registers."""

from __future__ import annotations

from functools import partial

import pytest
from compile_ahead import SHARED_BYTES, Usage, compiled, variants

_NIGHTLY = pytest.mark.nightly

# Some 20 s of a core that is free.
pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize(
    ("capability", "dtype", "precision"),
    [
        pytest.param(90, "*bf16", "ieee", marks=_NIGHTLY),
        pytest.param(80, "*bf16", "ieee", marks=_NIGHTLY),
        pytest.param(86, "*bf16", "ieee", marks=_NIGHTLY),
        pytest.param(89, "*bf16", "ieee", marks=_NIGHTLY),
        pytest.param(100, "*bf16", "ieee", marks=_NIGHTLY),
        pytest.param(120, "*bf16", "ieee", marks=_NIGHTLY),
        pytest.param(86, "*fp32", "ieee", marks=_NIGHTLY),
        pytest.param(90, "*fp32", "ieee", marks=_NIGHTLY),
        pytest.param(90, "*fp32", "tf32", marks=_NIGHTLY),
        pytest.param(120, "*fp32", "tf32", marks=_NIGHTLY),
    ],
)
def test_every_variant_compiles_without_spilling_registers(compilers, capability, dtype, precision):
    compile_it = partial(compiled, dtype=dtype, capability=capability)
    for ragged in (False, True):
        used = [*compilers.map(compile_it, variants(dtype, precision, ragged=ragged))]
        assert len(used) == 18
        _fit(used)


@pytest.mark.parametrize("ragged", [False, True], ids=["one shape", "ragged"])
def test_a_variant_of_each_kernel_compiles_without_spilling_registers(compilers, ragged):
    of_each = {variant.kernel: variant for variant in variants("*bf16", "ieee", ragged=ragged)}
    assert of_each.keys() == {"forward", "backward", "head", "update"}
    _fit([*compilers.map(partial(compiled, dtype="*bf16", capability=90), of_each.values())])


def _fit(used: list[Usage]) -> None:
    assert {use.variant: use.spilled for use in used if use.spilled} == {}
    assert {use.variant: use.shared for use in used if use.shared > SHARED_BYTES} == {}
