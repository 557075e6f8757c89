# SPDX-License-Identifier: Apache-2.0
"""What of a model goes into an export: evaluation's layers and weights, inputs, tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.export.layers import Layer, write_layer
from hugectr.export.program import Array, Program, Shape
from hugectr.export.table_image import KeyInput, TableImage
from hugectr.spec.layer_parameters import PREDICTIONS
from hugectr.vectors.vectors import TableSnapshot

if TYPE_CHECKING:
    from hugectr._core import LayerSpec, Session
    from hugectr.data.schema.schema import Schema
    from hugectr.spec.embedding import SparseEmbedding
    from hugectr.spec.input import Input
    from hugectr.spec.solver import Solver

#: Predictions of losses that are probabilities, each an operation of programs.
PROBABILITIES = ("sigmoid", "softmax")


class Exportable(Protocol):
    """A compiled model, or one that was loaded."""

    @property
    def session(self) -> Session:
        """Weights and rows, in the core."""
        ...

    @property
    def input(self) -> Input | None:
        """Label, dense features and sparse inputs."""
        ...

    @property
    def embeddings(self) -> list[SparseEmbedding]:
        """The tables, in the order of the session's."""
        ...

    @property
    def solver(self) -> Solver:
        """The size of its evaluation's batches, and its devices."""
        ...

    @property
    def schema(self) -> Schema | None:
        """What the keys are of; None: not known."""
        ...


@dataclass(frozen=True)
class ModelImage:
    """The evaluation of a model.

    Attributes
    ----------
    program : Program
        From dense features and the tables' outputs to the outputs; nothing in it that these do not
        need.
    dense : str or None
        Name of the dense features, where the program reads them.
    outputs : list of str
        The logits of the losses, then their predictions where they tell how.
    tables : tuple of TableImage
        Those the program reads.
    lengths : dict of str to KeyInput
        Inputs of the program, (batch, slots), that count the keys of each slot.
    """

    program: Program
    dense: str | None
    outputs: list[str]
    tables: tuple[TableImage, ...]
    lengths: Mapping[str, KeyInput]

    @property
    def keys(self) -> list[KeyInput]:
        """The sparse inputs, each once."""
        read = [one for table in self.tables for one in table.inputs]
        return list({keys.name: keys for keys in [*read, *self.lengths.values()]}.values())


def _needed(layers: list[LayerSpec], outputs: set[str]) -> tuple[list[LayerSpec], set[str]]:
    """The layers that outputs are made by, and the names they read."""
    wanted, kept = set(outputs), []
    for layer in reversed(layers):
        if wanted & set(layer["tops"]):
            kept.append(layer)
            wanted |= set(layer["bottoms"])
    return kept[::-1], wanted


def _weights(session: Session) -> dict[str, Array]:
    network = session.network
    weights: dict[str, Array] = {
        name: network.weight_view(name, 0).copy_to_host() for name in network.weight_names()
    }
    for layer, mean, var in network.non_trainables():
        weights |= {f"{layer}.mean": np.asarray(mean), f"{layer}.var": np.asarray(var)}
    return weights


def _key_inputs(model: Exportable) -> Mapping[str, KeyInput]:
    assert model.input is not None
    one_hot = set()
    if model.schema is not None and model.schema.fitted:
        described = model.schema.input_layer().sparse
        one_hot = {one.name for one in described if one.is_fixed_length and one.nnz_per_slot == 1}
    inputs = {}
    for sparse in model.input.to_spec()["sparse"]:
        # A checkpoint does not keep how many keys a slot may have, but it keeps the schema.
        name = sparse["top_name"]
        several = name not in one_hot and max([1, *sparse["nnz_per_slot"]]) > 1
        inputs[name] = KeyInput(name, sparse["slot_num"], several)
    return inputs


def image_of(model: Exportable) -> ModelImage:
    """The evaluation of a model, in float32 whatever it trains in.

    Parameters
    ----------
    model : Model or PredictionModel

    Raises
    ------
    InvalidArgument
        When the model is not compiled, has no loss, or a layer that can not be exported.
    """
    session = model.session
    if model.input is None:
        raise InvalidArgument("export: the model has no Input")
    layers = session.network.layers()
    losses = [layer for layer in layers if layer["type"].endswith("Loss")]
    if not losses:
        raise InvalidArgument(
            "export: the model has no loss, so that nothing says what it predicts"
        )
    logits = list(dict.fromkeys(loss["bottoms"][0] for loss in losses))
    needed, names = _needed([layer for layer in layers if layer not in losses], set(logits))

    keys = _key_inputs(model)
    described = model.input.to_spec()
    inputs: dict[str, Shape] = {}
    dense = described["dense_name"] if described["dense_dim"] > 0 else None
    if dense in names:
        inputs[str(dense)] = (described["dense_dim"],)
    lengths = {f"{name}_lengths": keys[name] for name in keys if f"{name}_lengths" in names}
    inputs |= {name: (read.slots,) for name, read in lengths.items()}
    most = {one["top_name"]: one["nnz_per_slot"] for one in described["sparse"]}
    tables = []
    for index, embedding in enumerate(model.embeddings):
        name = embedding.top_name
        if name not in names:
            continue
        read = tuple(keys[one] for one in embedding.bottom_names)
        positions: tuple[int, ...] = ()
        if embedding.combiner == "concat":
            positions = tuple(n for one in read for n in most[one.name])
        table = TableImage(
            name,
            read,
            embedding.embedding_vec_size,
            embedding.combiner == "mean",
            TableSnapshot(session.table(index), name),
            positions,
        )
        inputs[name] = table.shape
        tables.append(table)

    # What picks samples picks them among those of a device.
    batch = model.solver.batchsize_eval // max(1, model.solver.num_devices)
    program, weights = Program(inputs, batch), _weights(session)
    for layer in needed:
        write_layer(
            Layer(
                layer["type"],
                tuple(layer["bottoms"]),
                tuple(layer["tops"]),
                layer.get("attributes", {}),
                weights,
                program,
            )
        )
    named = {logit: _copied(logit, needed, program) for logit in logits}
    logits = list(dict.fromkeys(named.values()))
    used = {name for step in program.steps for name in step.inputs} | {*logits}
    program.steps = [
        step for step in program.steps if step.output in used or step.output not in named
    ]
    for logit in logits:
        if logit in program.rows:
            raise InvalidArgument(
                f"export: the loss reads {logit!r}, which has several rows a sample"
            )
    predictions = _predict(program, losses, named, {*keys})
    described_dense = str(dense) if dense in names else None
    return ModelImage(program, described_dense, logits + predictions, tuple(tables), lengths)


def _copied(tensor: str, layers: list[LayerSpec], program: Program) -> str:
    """Of a copy, which a tensor has for each of its uses, the tensor: users know no other name."""
    for layer in layers:
        bottom, numbers = layer["bottoms"][0], []
        for top in layer["tops"]:
            name, _, number = top.rpartition("_slice")
            numbers.append(number if name == bottom else "")
        copies = layer["type"] == "Slice" and len(numbers) > 1 and all(map(str.isdigit, numbers))
        whole = tensor in layer["tops"] and program.shapes[tensor] == program.shapes[bottom]
        if copies and whole and bottom not in program.inputs:
            return bottom
    return tensor


def _predict(
    program: Program, losses: list[LayerSpec], logits: Mapping[str, str], taken: set[str]
) -> list[str]:
    """Write what losses predict where that is a probability: ``"probability"``, or of several
    losses each under its own name and then all predictions side by side.

    ``logits`` has the name in the program of each that a loss reads.
    """
    taken = {*taken, *program.shapes}

    def named(name: str, more: str) -> str:
        found = name if name not in taken else f"{name} {more}"
        taken.add(found)
        return found

    made, predicted = [], []
    for loss in losses:
        logit, prediction = logits[loss["bottoms"][0]], PREDICTIONS[loss["type"]]
        if prediction not in PROBABILITIES:
            predicted.append(logit)
            continue
        whole = len(losses) == 1
        own = named("probability", "of the loss") if whole else named(loss["tops"][0], "predicted")
        made.append(program.emit(prediction, own, program.shapes[logit], logit))
        predicted.append(own)
    if len(losses) > 1 and made:
        columns = sum(program.shapes[one][-1] for one in predicted)
        name = named("probability", "of the losses")
        made.append(program.emit("concat", name, (columns,), *predicted, axis=1))
    return made
