"""Forward and backward passes of a stack, written by hand.

Shapes: K networks, B samples of a batch, I inputs of the first layer, C classes.
All buffers of a step are allocated once, so that a step is matrix products and little else. For
784-512-512-10 in bf16 on a CPU, autograd's bookkeeping and allocations are a third of a step.
The results equal those of autograd and `torch.autocast` for one network, as tests/studies checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tarmac.studies.evaluation.stacked.layout import Layout
    from tarmac.studies.evaluation.stacked.masks import Masks

_aten = torch.ops.aten


class Workspace:
    """The buffers for the intermediate values of a batch.

    Args:
        num_networks: Number of networks in the stack, K.
        batch_size: Number of samples in a batch, B.
        sizes: Features of each layer; see `Architecture`.
        like: Tensor with the device and type of the buffers.
    """

    def __init__(
        self, num_networks: int, batch_size: int, sizes: Sequence[int], like: torch.Tensor
    ) -> None:
        def values(features: int) -> torch.Tensor:
            return like.new_empty(num_networks, batch_size, features)

        self.outputs = [values(size) for size in sizes[1:]]
        self.dropped = [values(size) for size in sizes[1:-1]]
        self.masks = [values(size) for size in sizes[1:-1]]
        self.errors = [values(size) for size in sizes[1:]]


class Arithmetic:
    """The forward and backward passes of a stack.

    Args:
        layout: Layout of the parameters in a flat tensor.
        parameters: Flat tensor of the parameters, in the type of the products.
        gradients: Flat tensor to write gradients to, of the same layout and type as ``parameters``.
        activations: Names by network and hidden layer, such as ``relu``; equal names side by side.
        label_smoothing: Share of the target spread over all classes.
    """

    def __init__(
        self,
        layout: Layout,
        parameters: torch.Tensor,
        gradients: torch.Tensor,
        activations: Sequence[Sequence[str]],
        label_smoothing: float,
    ) -> None:
        self._weights = layout.weights(parameters)
        self._biases = [bias[:, None] for bias in layout.biases(parameters)]
        self._weight_gradients = layout.weights(gradients)
        self._bias_gradients = layout.biases(gradients)
        self._activations = [[*_runs(layer)] for layer in zip(*activations, strict=True)]
        self._smoothing = label_smoothing
        # The term of a sample's own class in its error.
        self._own = torch.full((), label_smoothing - 1, device=parameters.device)

    def evaluate(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the logits ``[K, B, C]`` of inputs ``[K, B, I]``, without dropout."""
        hidden = inputs
        last = len(self._weights) - 1
        for layer, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            hidden = torch.baddbmm(bias, hidden, weight)
            if layer < last:
                self._activate(layer, hidden)
        return hidden

    def compute(
        self,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        work: Workspace,
        masks: Masks,
        coefficients: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the gradients of the batch's mean loss.

        Args:
            inputs: ``[K, B, I]``, in the type of the parameters.
            targets: Class of each sample, int64 ``[K, B]``.
            work: Workspace for K networks and B samples.
            masks: Dropout masks of these networks.
            coefficients: Coefficients of the masks in this step; see `Masks.draw`.

        Returns:
            Each network's sum of losses, fp32, and number of correct answers, int64 ``[K]``.
        """
        taken = [inputs]
        last = len(self._weights) - 1
        for layer, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            output = torch.baddbmm(bias, taken[-1], weight, out=work.outputs[layer])
            if layer == last:
                break
            self._activate(layer, output)
            if masks.layers[layer]:
                masks.draw(layer, coefficients, work.masks[layer])
                output = torch.mul(output, work.masks[layer], out=work.dropped[layer])
            taken.append(output)
        loss, right, error = self._score(work.outputs[-1], targets)
        error = work.errors[-1].copy_(error)
        for layer in range(last, -1, -1):
            torch.bmm(taken[layer].mT, error, out=self._weight_gradients[layer])
            torch.sum(error, dim=1, out=self._bias_gradients[layer])
            if layer:
                below = layer - 1
                error = torch.bmm(error, self._weights[layer].mT, out=work.errors[below])
                if masks.layers[below]:
                    error.mul_(work.masks[below])
                self._differentiate(below, error, work.outputs[below])
        return loss, right

    def score(
        self, logits: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return sums of unsmoothed cross-entropies, fp32, and correct answers, int64 ``[K]``."""
        logs = logits.float().log_softmax(-1)
        loss = -logs.gather(-1, targets[..., None]).sum((1, 2))
        return loss, (logits.argmax(-1) == targets).sum(1)

    def _score(
        self, logits: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return losses, correct answers, and the mean loss's gradient by the logits, in fp32."""
        _, batch_size, num_classes = logits.shape
        logs = logits.float().log_softmax(-1)
        index = targets[..., None]
        even = self._smoothing / num_classes
        loss = logs.gather(-1, index).sum((1, 2)) * (self._smoothing - 1)
        right = (logits.argmax(-1) == targets).sum(1)
        if even:
            loss -= even * logs.sum((1, 2))
        error = logs.exp_()
        if even:
            error.sub_(even)
        error.scatter_add_(-1, index, self._own.expand(index.shape))
        return loss, right, error.div_(batch_size)

    def _activate(self, layer: int, values: torch.Tensor) -> None:
        for name, span in self._activations[layer]:
            part = values[span]
            match name:
                case "relu":
                    torch.relu_(part)
                case "elu":
                    _aten.elu_(part)
                case "tanh":
                    torch.tanh_(part)
                case "sigmoid":
                    torch.sigmoid_(part)

    def _differentiate(self, layer: int, error: torch.Tensor, output: torch.Tensor) -> None:
        """Multiply errors by the activation's derivative, which follows from its output."""
        for name, span in self._activations[layer]:
            part, result = error[span], output[span]
            match name:
                case "relu":
                    _aten.threshold_backward(part, result, 0, grad_input=part)
                case "elu":
                    _aten.elu_backward(part, 1, 1, 1, True, result, grad_input=part)
                case "tanh":
                    _aten.tanh_backward(part, result, grad_input=part)
                case "sigmoid":
                    _aten.sigmoid_backward(part, result, grad_input=part)


def _runs(names: Sequence[str]) -> Iterator[tuple[str, slice]]:
    start = 0
    for name, equal in itertools.groupby(names):
        stop = start + len([*equal])
        yield name, slice(start, stop)
        start = stop
