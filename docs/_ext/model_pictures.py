# SPDX-License-Identifier: Apache-2.0
"""The directive ``model-picture NAME``: a model of the catalogue, drawn from the graph it builds.

And ``model-about NAME``: what it is called, by its docstring.

The graph is that of a small table (two categories, a list, two numbers); sizes are the defaults.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from graph_picture import Box, svg_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import hugectr
from hugectr.data import Schema

VIEWS = {"Reshape", "Slice"}
FRAME = {
    "user": ["ann", "bob", "cleo", "dan"] * 40,
    "item": ["cup", "hat", "pen", "jar"] * 40,
    "tags": [["red"], ["new", "red"], [], ["new"]] * 40,
    "age": [31.5, 25.25, 40.75, 52.125] * 40,
    "price": [1.5, 2.25, 3.75, 4.125] * 40,
    "clicked": [0, 1, 1, 0] * 40,
}


#: What the list is to models that need a history.
SEQUENCES = {"din": {"seen": "item"}}


def graph_of(name: str) -> dict[str, Any]:
    """The JSON of the model's layers."""
    frame = {**FRAME}
    if name in SEQUENCES:
        frame["seen"] = [["cup", "pen"], [], ["hat"], ["jar", "cup"]] * 40
        del frame["tags"]
    schema = Schema.infer(frame, label="clicked", sequences=SEQUENCES.get(name, ()))
    data = schema.encode(frame)
    model = hugectr.Model(
        hugectr.CreateSolver(batchsize=32, batchsize_eval=32, i64_input_key=True, device="cpu"),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )
    hugectr.models.add(model, name, schema.input_layer())
    model.compile()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        model.graph_to_json(str(path))
        return dict(json.loads(path.read_text()))


def _names(value: Any) -> list[str]:
    """One name or several, as the JSON has them; inputs name theirs ``top``."""
    if isinstance(value, dict):
        return [value["top"]]
    if isinstance(value, list):
        return [name for one in value for name in _names(one)]
    return [value] if value else []


def _detail(layer: dict[str, Any]) -> str:
    """The size that says most about a layer."""
    for part, key, text in (
        ("fc_param", "num_output", "{} wide"),
        ("sparse_embedding_hparam", "embedding_vec_size", "vectors of {}"),
        ("mc_param", "num_layers", "{} layers"),
    ):
        if key in layer.get(part, {}):
            return text.format(layer[part][key])
    return ""


def boxes_of(graph: dict[str, Any]) -> list[Box]:
    """A box a layer, with what it reads and writes; each input of the data is a box too.

    Layers that only say how tensors are looked at (Reshape, Slice) are left out: what reads from
    them reads from what they read.
    """
    boxes = []
    same: dict[str, str] = {}  # a view -> the tensor it looks at
    for layer in graph["layers"]:
        if layer["type"] == "Data":
            for kind in ("label", "dense", "sparse"):
                for name in _names(layer.get(kind, [])):
                    boxes.append(Box(name, "input", (), (name,), "input"))
                    same[f"{name}_lengths"] = name
            continue
        reads = tuple(same.get(name, name) for name in _names(layer["bottom"]))
        writes = tuple(_names(layer["top"]))
        if layer["type"] in VIEWS:
            same |= dict.fromkeys(writes, reads[0])
        elif layer["type"].endswith("SparseEmbeddingHash"):
            boxes.append(Box("Embedding table", _detail(layer), reads, writes, "table"))
        else:
            boxes.append(Box(layer["type"], _detail(layer), reads, writes))
    return boxes


class ModelPicture(SphinxDirective):
    """See the module."""

    required_arguments = 1
    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """An inline SVG, and its text for readers who hear it."""
        name = self.arguments[0]
        picture = svg_of(boxes_of(graph_of(name)), f"The layers of {name}")
        return [nodes.raw("", f'<div class="model-picture">{picture}</div>', format="html")]


class ModelAbout(SphinxDirective):
    """``model-about NAME``: what the catalogue says of a model."""

    required_arguments = 1
    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """The first paragraph of its docstring: which model it is, and whose."""
        text = hugectr.models.description(self.arguments[0]).split("\n\n")[0]
        return [nodes.paragraph(text=" ".join(text.split()))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("model-picture", ModelPicture)
    app.add_directive("model-about", ModelAbout)
    app.add_css_file("pictures.css")
    return {"parallel_read_safe": True}
