# SPDX-License-Identifier: Apache-2.0
"""A PyTorch module as a plain Python file, beside NumPy arrays that hold its weights and rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hugectr.base.places import whole_place
from hugectr.base.replaced import whole_folder
from hugectr.export.image import Exportable, ModelImage, image_of
from hugectr.export.program import Step
from hugectr.export.tables_beside import refuse_other_export, write_tables_beside

Names = list[str]

_FILES = ("model.py", "weights.npz", "network.json")

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "matmul": "@"}
_FUNCTIONS = {
    "relu": "torch.relu",
    "sigmoid": "torch.sigmoid",
    "tanh": "torch.tanh",
    # Beyond the threshold PyTorch's is a straight line.
    "softplus": "softplus",
}


def _infix(sign: str) -> Callable[[Step, Names], str]:
    return lambda step, x: f"{x[0]} {sign} {x[1]}"


def _call(function: str) -> Callable[[Step, Names], str]:
    return lambda step, x: f"{function}({x[0]})"


#: Operation of a program -> its expression; the names of its inputs in the file are given.
EXPRESSIONS: dict[str, Callable[[Step, Names], str]] = {
    **{op: _infix(sign) for op, sign in _INFIX.items()},
    **{op: _call(name) for op, name in _FUNCTIONS.items()},
    "identity": lambda s, x: x[0],
    "elu": lambda s, x: f"functional.elu({x[0]}, {s.attributes['alpha']!r})",
    "layer_norm": lambda s, x: (
        f"functional.layer_norm({x[0]}, {x[1]}.shape, {x[1]}, {x[2]}, {s.attributes['eps']!r})"
    ),
    "less": lambda s, x: f"({x[0]} < {x[1]}).float()",
    "softmax": lambda s, x: f"torch.softmax({x[0]}, -1)",
    "permute": lambda s, x: f"{x[0]}.permute({tuple(s.attributes['order'])!r})",
    "batch_normed": lambda s, x: f"batch_normed({x[0]}, {s.attributes['eps']!r})",
    "gru": lambda s, x: f"gru({', '.join(x)})",
    "concat": lambda s, x: f"torch.cat([{', '.join(x)}], {s.attributes['axis']})",
    "slice": lambda s, x: (
        f"{x[0]}.narrow({s.attributes['axis']}, {s.attributes['begin']}, "
        f"{s.attributes['end'] - s.attributes['begin']})"
    ),
    "take": lambda s, x: (
        f"{x[0]}.index_select({s.attributes['axis']}, "
        f"torch.tensor({list(s.attributes['indices'])!r}, device={x[0]}.device))"
    ),
    "reshape": lambda s, x: f"{x[0]}.reshape({(-1, *s.attributes['sizes'])!r})",
    "sum": lambda s, x: f"{x[0]}.sum({s.attributes['axis']}, keepdim=True)",
    "sum_before": lambda s, x: f"functional.pad({x[0]}.cumsum(1)[:, :-1], (0, 0, 1, 0))",
    "pad": lambda s, x: f"functional.pad({x[0]}, (0, {s.attributes['count']}))",
}

_HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""A network that hugectr has exported, for evaluation and to go on from. Needs torch and NumPy.

    model = load("folder of this file")
    model({inputs})  # name of an output -> tensor

Weights are parameters, so that it can be trained further as any torch.nn.Module.
"""

'''

_NETWORK = '''

class Network(torch.nn.Module):
    """Dense features and the tables' vectors -> outputs."""

    def __init__(self, weights):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.as_tensor(w) for w in weights])

    def forward(self, inputs):
        w = self.weights
'''

_LOAD = '''

def load(folder=None):
    """The model of a folder, by default that of this file, in evaluation mode."""
    return read_model(Path(__file__).parent if folder is None else Path(folder), Network)
'''


def _forward(image: ModelImage, names: dict[str, str]) -> list[str]:
    program, lines = image.program, []
    for number, name in enumerate(program.inputs):
        names[name] = f"x{number}"
        lines.append(f"{names[name]} = inputs[{name!r}]")
    for number, name in enumerate(program.constants):
        names[name] = f"w[{number}]"
        lines.append(f"# {names[name]}: {name!r} {program.constants[name].shape}")
    for number, step in enumerate(program.steps):
        text = EXPRESSIONS[step.op](step, [names[name] for name in step.inputs])
        names[step.output] = f"t{number}"
        lines.append(f"t{number} = {text}  # {step.output!r}")
    outputs = ", ".join(f"{name!r}: {names[name]}" for name in image.outputs)
    return [*lines, f"return {{{outputs}}}"]


def source_of(image: ModelImage) -> str:
    """The Python file of a model."""
    inputs = [*([image.dense] if image.dense else []), *(keys.name for keys in image.keys)]
    shown = "{" + ", ".join(f"{name!r}: ..." for name in inputs) + "}"
    head = _HEAD.replace("{inputs}", shown.replace("\\", "\\\\").replace('"""', ""))
    runtime = (
        Path(__file__).with_name("torch_runtime.py").read_text().split("# --- cut ---\n", 1)[1]
    )
    lines = [f"        {line}\n" for line in _forward(image, {})]
    return head + runtime.rstrip("\n") + "\n" + _NETWORK + "".join(lines) + _LOAD


def to_torch(model: Exportable, folder: str | os.PathLike[str]) -> Path:
    """Write a model's evaluation as a PyTorch module, in float32; torch is not needed for it.

    Parameters
    ----------
    model : Model or PredictionModel
    folder : path
        Made where it is not there; an earlier export is replaced. ``model.py`` has ``load()`` and
        the network, operation by operation; ``weights.npz`` its weights; tables are as
        ``to_onnx(tables="beside")`` writes them.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InvalidArgument
        When the model has no loss, or a layer that can not be exported; when the folder has
        something else in it than an earlier export for PyTorch.
    OSError
        When it can not be written; what was there before still is.
    """
    target = whole_place("to_torch: folder", folder)
    refuse_other_export("to_torch", target, _FILES)
    image = image_of(model)
    described = {
        "dense": image.dense,
        "weights": list(image.program.constants),
        "batch": image.program.batch if image.program.whole_batches else None,
    }
    with whole_folder(target) as beside:
        write_tables_beside(beside, image)
        arrays = {f"w{i}": values for i, values in enumerate(image.program.constants.values())}
        np.savez(beside / "weights.npz", allow_pickle=False, **arrays)
        (beside / "network.json").write_text(json.dumps(described, indent=2))
        (beside / "model.py").write_text(source_of(image))
    return target
