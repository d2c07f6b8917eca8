"""Many networks at once: multilayer perceptrons of equal shape train as one stacked model.

A stack is what `torch.func.stack_module_state` makes of modules: each parameter of all networks as
one tensor with a leading dimension, so that a layer is one batched matrix product.
`StackedEvaluator` trains a study's candidates so. `can_stack` tells beforehand whether a workload's
networks can be stacked; others need a process each.

On several GPUs `PooledEvaluator` has a process for each, on a CPU one for each core, eight at most.

The rule is to stack whatever has one shape, cut into as many stacks as there are processes (on a
CPU) and as the memory asks for. It was measured on a 2-core Xeon with AMX, PyTorch 2.13, bf16,
batches of 128, all seven optimizers and four activations mixed, ten networks (six from 768 neurons
on), on 2026-11-21: processor time of one thread for a step and network, lowest of 3, alone over
stacked, while other programs used the machine too:

    64 neurons   128    256    512    768    1024    (2 layers)
    2.2          1.8    1.35   1.0    1.0    0.96

With 1 and 4 layers it was 2.2 and 2.2 at 64 neurons, 1.1 and 1.1 at 512. A narrow network's step is
a hundred operations that take longer to start than to do, and a stack starts them once for all; a
wide network's is bound by its optimizer's passes through memory, which a stack does not save. So
stacking never costs more than what the measurement wavers by. bench/population.py measures it.
"""
