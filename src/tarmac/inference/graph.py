"""A model's operations as a TensorBoard graph: a node per operation, named by its module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from tarmac.runs import graph_events

if TYPE_CHECKING:
    from torch.fx import Node


def graph_file(program: torch.export.ExportedProgram) -> bytes:
    """Return an event file with the graph of a program.

    A GraphDef (tensorflow/core/framework/graph.proto) has no modules: TensorBoard draws a box for
    each part of a name before a slash. Dynamic sizes, such as that of a batch, are -1.
    """
    # The extra may be missing when only ``torch`` is exported.
    from tensorboard.compat.proto.graph_pb2 import GraphDef  # noqa: PLC0415

    graph: Any = GraphDef()
    signature = program.graph_signature
    held = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    names: dict[Node, str] = {}
    for node in program.graph.nodes:
        # The tracer adds assertions, such as of types; their results have no users.
        if node.op == "call_function" and not node.users:
            continue
        names[node] = held[node.name].replace(".", "/") if node.name in held else _scoped(node)
        made = graph.node.add(
            name=names[node],
            op="parameter" if node.name in held else _operation(node),
            input=[names[source] for source in node.all_input_nodes],
        )
        value = node.meta.get("val")
        for tensor in value if isinstance(value, tuple | list) else (value,):
            if isinstance(tensor, torch.Tensor):
                shape = made.attr["_output_shapes"].list.shape.add()
                sizes: Sequence[int | torch.SymInt] = tensor.shape
                for size in sizes:
                    shape.dim.add(size=size if isinstance(size, int) else -1)
    return graph_events(graph.SerializeToString())


def _scoped(node: Node) -> str:
    """Return a node's name after the path of its module: ``model/0/linear``."""
    stack = node.meta.get("nn_module_stack") or {}
    path = [path for path, _ in stack.values()][-1] if stack else ""
    return "/".join((*filter(None, path.split(".")), node.name))


def _operation(node: Node) -> str:
    return str(node.target) if node.op == "call_function" else node.op
