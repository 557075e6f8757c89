# SPDX-License-Identifier: Apache-2.0
"""ONNX files: the dense network, with the tables in it or beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.base.arguments import check_choice
from hugectr.base.errors import InvalidArgument
from hugectr.base.places import whole_place
from hugectr.base.replaced import refuse_other_file, whole_folder
from hugectr.export.image import Exportable, ModelImage, image_of
from hugectr.export.onnx_head import is_onnx
from hugectr.export.onnx_tables import add_lengths, add_table
from hugectr.export.program import Program, Step
from hugectr.export.tables_beside import refuse_other_export, write_tables_beside
from hugectr.vectors.table_files import whole_file

#: The operators of this and later versions of ONNX.
_OPSET, _ML_OPSET, _IR_VERSION = 17, 2, 8
#: An ONNX file can not be larger than 2 GiB.
_MOST_INSIDE = 1 << 30
TABLES = ("auto", "inside", "beside")
_FILES = ("dense.onnx",)

_SAME_NAME = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "matmul": "MatMul",
    "identity": "Identity",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softplus": "Softplus",
}


class OnnxGraph:
    """An ONNX graph under way: nodes and the constants they need."""

    def __init__(self) -> None:
        import onnx  # type: ignore[import-not-found]

        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, values: Any) -> str:
        """A constant; its name must be new."""
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, domain: str = "", **values: Any) -> str:
        """An operator with one output."""
        make = self._onnx.helper.make_node
        self.nodes.append(make(op, inputs, [output], name=output, domain=domain, **values))
        return output


def _concat(graph: OnnxGraph, step: Step, program: Program) -> None:
    graph.node("Concat", list(step.inputs), step.output, axis=step.attributes["axis"])


def _slice(graph: OnnxGraph, step: Step, program: Program) -> None:
    places = [
        graph.constant(f"{step.output}:{what}", np.array([step.attributes[what]], np.int64))
        for what in ("begin", "end", "axis")
    ]
    graph.node("Slice", [*step.inputs, *places], step.output)


def _take(graph: OnnxGraph, step: Step, program: Program) -> None:
    indices = np.array(step.attributes["indices"], np.int64)
    name = graph.constant(f"{step.output}:indices", indices)
    graph.node("Gather", [*step.inputs, name], step.output, axis=step.attributes["axis"])


def _reshape(graph: OnnxGraph, step: Step, program: Program) -> None:
    shape = np.array([-1, *step.attributes["sizes"]], np.int64)
    name = graph.constant(f"{step.output}:shape", shape)
    graph.node("Reshape", [*step.inputs, name], step.output)


def _sum(graph: OnnxGraph, step: Step, program: Program) -> None:
    axes = graph.constant(f"{step.output}:axes", np.array([step.attributes["axis"]], np.int64))
    graph.node("ReduceSum", [*step.inputs, axes], step.output, keepdims=1)


def _sum_before(graph: OnnxGraph, step: Step, program: Program) -> None:
    axis = graph.constant(f"{step.output}:axis", np.array(1, np.int64))
    graph.node("CumSum", [*step.inputs, axis], step.output, exclusive=1)


def _pad(graph: OnnxGraph, step: Step, program: Program) -> None:
    dims = len(program.shapes[step.output]) + 1
    pads = np.zeros(2 * dims, np.int64)
    pads[-1] = step.attributes["count"]
    graph.node("Pad", [*step.inputs, graph.constant(f"{step.output}:pads", pads)], step.output)


def _permute(graph: OnnxGraph, step: Step, program: Program) -> None:
    graph.node("Transpose", list(step.inputs), step.output, perm=list(step.attributes["order"]))


def _elu(graph: OnnxGraph, step: Step, program: Program) -> None:
    graph.node("Elu", list(step.inputs), step.output, alpha=step.attributes["alpha"])


def _layer_norm(graph: OnnxGraph, step: Step, program: Program) -> None:
    eps = step.attributes["eps"]
    graph.node("LayerNormalization", list(step.inputs), step.output, axis=-1, epsilon=eps)


def _less(graph: OnnxGraph, step: Step, program: Program) -> None:
    found = graph.node("Less", list(step.inputs), f"{step.output}:is")
    graph.node("Cast", [found], step.output, to=1)  # float32


def _batch_normed(graph: OnnxGraph, step: Step, program: Program) -> None:
    (x,), top = step.inputs, step.output
    axes = list(range(len(program.shapes[x])))  # all but the last, with that of the batch
    eps = graph.constant(f"{top}:eps", np.array([step.attributes["eps"]], np.float32))
    mean = graph.node("ReduceMean", [x], f"{top}:mean", axes=axes, keepdims=1)
    centred = graph.node("Sub", [x, mean], f"{top}:centred")
    squares = graph.node("Mul", [centred, centred], f"{top}:squares")
    var = graph.node("ReduceMean", [squares], f"{top}:var", axes=axes, keepdims=1)
    root = graph.node("Sqrt", [graph.node("Add", [var, eps], f"{top}:var_eps")], f"{top}:root")
    graph.node("Div", [centred, root], top)


def _gru(graph: OnnxGraph, step: Step, program: Program) -> None:
    """ONNX's operator has the steps before the batch, one direction of two, and gates z, r, n."""
    x, *weights = step.inputs
    top, units = step.output, program.constants[weights[1]].shape[1]
    order = np.arange(3 * units).reshape(3, units)[[1, 0, 2]].reshape(-1)
    gates = graph.constant(f"{top}:gates", order)
    first = graph.constant(f"{top}:first", np.array([0], np.int64))
    packed = []
    for what, name in zip(("w", "r", "b"), weights, strict=True):
        own = graph.node("Gather", [name, gates], f"{top}:{what}", axis=0)
        packed.append(graph.node("Unsqueeze", [own, first], f"{top}:{what}s"))
    # The second half of the bias is that of the states.
    none = graph.constant(f"{top}:none", np.zeros((1, 3 * units), np.float32))
    packed[2] = graph.node("Concat", [packed[2], none], f"{top}:biases", axis=1)
    turned = graph.node("Transpose", [x], f"{top}:turned", perm=[1, 0, 2])
    states = graph.node(
        "GRU", [turned, *packed], f"{top}:states", hidden_size=units, linear_before_reset=1
    )
    direction = graph.constant(f"{top}:direction", np.array([1], np.int64))
    states = graph.node("Squeeze", [states, direction], f"{top}:by_step")
    graph.node("Transpose", [states], top, perm=[1, 0, 2])


def _softmax(graph: OnnxGraph, step: Step, program: Program) -> None:
    graph.node("Softmax", list(step.inputs), step.output, axis=-1)


#: Operation of a program -> what writes it.
OPERATORS: dict[str, Callable[[OnnxGraph, Step, Program], None]] = {
    "batch_normed": _batch_normed,
    "concat": _concat,
    "elu": _elu,
    "gru": _gru,
    "layer_norm": _layer_norm,
    "less": _less,
    "pad": _pad,
    "permute": _permute,
    "reshape": _reshape,
    "slice": _slice,
    "softmax": _softmax,
    "sum": _sum,
    "sum_before": _sum_before,
    "take": _take,
}


def _add_program(graph: OnnxGraph, program: Program) -> None:
    for name, values in program.constants.items():
        graph.constant(name, values)
    for step in program.steps:
        if step.op in _SAME_NAME:
            graph.node(_SAME_NAME[step.op], list(step.inputs), step.output)
        else:
            OPERATORS[step.op](graph, step, program)


def _model(image: ModelImage, inside: bool) -> Any:
    import onnx
    from onnx import TensorProto, helper

    graph, program = OnnxGraph(), image.program
    batch: int | str = program.batch if program.whole_batches else "batch"
    inputs = []
    if image.dense:
        shape = [batch, *program.inputs[image.dense]]
        inputs.append(helper.make_tensor_value_info(image.dense, TensorProto.FLOAT, shape))
    if inside:
        for keys in image.keys:
            sizes = [batch, *keys.shape]
            inputs.append(helper.make_tensor_value_info(keys.name, TensorProto.INT64, sizes))
        for table in image.tables:
            add_table(graph, table)
        for name, keys in image.lengths.items():
            add_lengths(graph, keys, name)
    else:
        for name in [*(table.name for table in image.tables), *image.lengths]:
            shape = [batch, *program.inputs[name]]
            inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    _add_program(graph, program)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *program.shapes[name]])
        for name in image.outputs
    ]
    made = helper.make_model(
        helper.make_graph(graph.nodes, "hugectr", inputs, outputs, graph.constants),
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
        producer_name="hugectr",
        ir_version=_IR_VERSION,
    )
    onnx.checker.check_model(made)
    return made


def _need_onnx() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise InvalidArgument(
            "export to ONNX needs the package onnx: pip install 'hugectr[onnx]'"
        ) from error


def to_onnx(model: Exportable, path: str | os.PathLike[str], tables: str = "auto") -> Path:
    """Write a model's evaluation as ONNX, in float32.

    Parameters
    ----------
    model : Model or PredictionModel
    path : path
        The file; where tables lie beside it, a folder.
    tables : {"auto", "inside", "beside"}
        ``"inside"``: one file, which takes keys: int64 (batch, slots), or (batch, slots, most)
        padded with -1 where a slot may have several (or where nothing says that it has one: a
        loaded model without a schema). ``"beside"``: a folder with ``dense.onnx``,
        which takes each table's vectors, the tables as ``.npy``, and ``reader.py``, which needs
        NumPy alone and turns keys into those vectors. ``"auto"``: inside up to 1 GiB of vectors.

    Returns
    -------
    Path
        The file, or the folder.

    Raises
    ------
    InvalidArgument
        When the package onnx is missing, the model has no loss or a layer that can not be exported,
        or its tables do not fit into a file; when something else is there than an ONNX file, or
        than an earlier export with its tables beside it.
    OSError
        When it can not be written; what was there before still is.

    Notes
    -----
    Outputs are the logit, under the name of its tensor, and ``probability`` where the loss has one.
    Of several losses: their logits; the predictions of each, under the loss's name; and all of them
    side by side as ``probability``, as ``predict`` gives them.
    Keys without a row, padding too, count as zeros, as in evaluation.
    """
    check_choice("to_onnx: tables", tables, TABLES)
    target = whole_place("to_onnx: path", path)
    if target.is_dir():
        refuse_other_export("to_onnx", target, _FILES)
    else:
        refuse_other_file("to_onnx", target, "ONNX file", is_onnx)
    _need_onnx()
    image = image_of(model)
    size = sum(table.vector_bytes() for table in image.tables)
    if tables == "inside" and size > _MOST_INSIDE:
        raise InvalidArgument(
            f"to_onnx: the tables have {size:,} bytes of vectors, and an ONNX file holds 2 GiB at "
            "most: take tables='beside'"
        )
    inside = tables == "inside" or (tables == "auto" and size <= _MOST_INSIDE)
    data = _model(image, inside).SerializeToString()
    if target.exists() and inside == target.is_dir():
        kind = "a file, and tables='beside' writes a folder"
        if inside:
            kind = "a folder, and an ONNX file is written: take tables='beside', or another path"
        raise InvalidArgument(f"to_onnx: {target} is {kind}")
    if inside:
        with whole_file(target) as partial:
            partial.write_bytes(data)
        return target
    with whole_folder(target) as beside:
        (beside / "dense.onnx").write_bytes(data)
        write_tables_beside(beside, image)
    return target
