"""Many networks at once: multilayer perceptrons train as one stacked model.

On a CPU, and by PyTorch's operations, the networks of a stack have one shape. The fused kernels of
`tarmac.kernels` take any widths and depths together.

A stack of one shape holds each parameter of all networks as one tensor with a leading dimension, as
`torch.func.stack_module_state` does, so that a layer is one batched matrix product.
`StackedEvaluator` trains a study's candidates in stacks. `can_stack` checks whether a workload's
networks can be stacked; other networks need a process each.

`PooledEvaluator` has a process for each of several GPUs, or for each core of a CPU, eight at most.

All networks of one shape are stacked, split into as many stacks as there are processes (on a CPU)
and as the memory requires. This was measured on a 2-core Xeon with AMX, PyTorch 2.13, bf16, batches
of 128, all seven optimizers and four activations mixed, ten networks (six from 768 neurons on), on
2026-11-21. The table shows the ratio alone / stacked of the processor time of one thread per step
and network, lowest of 3, while other programs used the machine too:

    64 neurons   128    256    512    768    1024    (2 layers)
    2.2          1.8    1.35   1.0    1.0    0.96

With 1 and 4 layers the ratio was 2.2 and 2.2 at 64 neurons, 1.1 and 1.1 at 512. A narrow network's
step is a hundred operations that take longer to launch than to run; a stack launches them once for
all networks. A wide network's step is bound by its optimizer's passes through memory, which a stack
does not reduce. So the cost of stacking is within the noise of the measurement, which
bench/population.py repeats.
"""
