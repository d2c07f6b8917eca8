"""The fast dropout keeps dropout's distribution."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tarmac.training.engine.dropout import FastDropout, replace_dropout


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_share_p_is_dropped_and_the_mean_stays(p, dtype):
    torch.manual_seed(0)
    count = 1 << 20
    out = FastDropout(p)(torch.ones(count, dtype=dtype))
    # Five standard deviations of a binomial share.
    tolerance = 5 * (p * (1 - p) / count) ** 0.5
    assert abs((out == 0).float().mean().item() - p) < tolerance
    kept = out[out != 0]
    assert (kept == kept[0]).all()
    assert kept[0].item() == pytest.approx(
        1 / (1 - p), rel=4e-3 if dtype == torch.bfloat16 else 1e-4
    )


def test_neighbouring_elements_are_dropped_independently():
    torch.manual_seed(0)
    dropped = (FastDropout(0.5)(torch.ones(1 << 20)) == 0).float() - 0.5
    for distance in (1, 2, 3, 4, 5):
        correlation = (dropped[:-distance] * dropped[distance:]).mean().item() / 0.25
        assert abs(correlation) < 5 / 1024


def test_the_gradient_passes_where_the_value_did():
    torch.manual_seed(0)
    inputs = torch.randn(7, 5, requires_grad=True)
    out = FastDropout(0.5)(inputs)
    (gradient,) = torch.autograd.grad(out.sum(), inputs)
    assert torch.equal(gradient == 0, out == 0)
    assert torch.allclose(out, inputs * gradient)


def test_evaluation_and_p_zero_change_nothing_and_p_one_drops_all():
    inputs = torch.randn(3, 3)
    assert FastDropout(0.5).eval()(inputs) is inputs
    assert FastDropout(0.0)(inputs) is inputs
    assert not FastDropout(1.0)(inputs).any()


def test_the_same_seed_drops_the_same():
    outs = []
    for _ in range(2):
        torch.manual_seed(3)
        outs.append(FastDropout(0.3)(torch.ones(1001)))
    assert torch.equal(*outs)


def test_only_plain_dropout_is_replaced():
    model = nn.Sequential(nn.Dropout(0.1), nn.Dropout2d(0.1), nn.Dropout(0.1, inplace=True))
    replace_dropout(model)
    assert [type(layer) for layer in model] == [FastDropout, nn.Dropout2d, nn.Dropout]
