"""The training step: replicas, feeds, flat parameters, optimizers and the strategies."""
