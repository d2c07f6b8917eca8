"""Augmentations draw by seed, epoch and sample, and show what they say."""

from __future__ import annotations

import pytest
import torch

from tarmac import RequestError
from tarmac.workloads import CropAndFlip, MirrorAndShift

CROP = CropAndFlip(shift=2)


def images(count=6, size=8):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, size, size), generator=generator, dtype=torch.uint8)


def test_an_image_is_moved_with_reflection_and_mirrored():
    given = images()
    draws = torch.tensor([[0, 0, 0], [2, -1, 0], [0, 0, 1], [-2, 2, 1], [1, 1, 0], [0, -2, 1]])
    shown = CROP.apply(given, draws)
    padded = torch.nn.functional.pad(given.float(), (2,) * 4, mode="reflect").to(torch.uint8)
    for image, (down, right, mirrored), found in zip(padded, draws.tolist(), shown, strict=True):
        expected = image[:, 2 + down : 10 + down, 2 + right : 10 + right]
        assert torch.equal(found, expected.flip(-1) if mirrored else expected)


def test_every_image_is_seen_from_both_sides_in_two_epochs():
    sides = [CROP.draw(1000, seed=3, epoch=epoch)[:, 2] for epoch in range(3)]
    assert torch.equal(sides[0], 1 - sides[1])
    assert torch.equal(sides[0], sides[2])
    assert 400 < sides[0].sum() < 600


def test_draws_are_of_the_seed_and_the_epoch_alone():
    first = CROP.draw(1000, seed=3, epoch=1)
    torch.rand(5)
    assert torch.equal(first, CROP.draw(1000, seed=3, epoch=1))
    assert not torch.equal(first[:, :2], CROP.draw(1000, seed=3, epoch=3)[:, :2])
    assert not torch.equal(first, CROP.draw(1000, seed=4, epoch=1))
    assert first[:, :2].unique().tolist() == [-2, -1, 0, 1, 2]


def test_test_views_are_both_sides_of_three_places():
    given = images().float()
    views = MirrorAndShift(shift=1)(given)
    assert sum(weight for weight, _ in views) == 1
    assert [weight for weight, _ in views] == [0.25, 0.25, 0.125, 0.125, 0.125, 0.125]
    assert torch.equal(views[0][1], given)
    assert torch.equal(views[1][1], given.flip(-1))
    assert torch.equal(views[2][1][..., 1:, 1:], given[..., :-1, :-1])
    assert torch.equal(views[4][1][..., :-1, :-1], given[..., 1:, 1:])
    assert all(view.shape == given.shape for _, view in views)


@pytest.mark.parametrize(("kind", "shift"), [(CropAndFlip, -1), (MirrorAndShift, 0)])
def test_a_shift_that_cannot_be_is_refused(kind, shift):
    with pytest.raises(RequestError, match=f"shift is {shift}, expected at least"):
        kind(shift=shift)
