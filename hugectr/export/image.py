# SPDX-License-Identifier: Apache-2.0
"""What of a model goes into an export: evaluation's layers and weights, inputs, tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.export.layers import Layer, write_layer
from hugectr.export.program import Array, Program, Shape
from hugectr.spec.layer_parameters import PREDICTIONS
from hugectr.vectors.vectors import TableSnapshot

if TYPE_CHECKING:
    from hugectr._core import LayerSpec, Session
    from hugectr.data.schema.schema import Schema
    from hugectr.spec.embedding import SparseEmbedding
    from hugectr.spec.input import Input

#: Key of an element that is not there, where samples have less than the most keys.
PADDING = -1
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
    def schema(self) -> Schema | None:
        """What the keys are of; None: not known."""
        ...


@dataclass(frozen=True)
class KeyInput:
    """A sparse input: int64 (batch, slots), or (batch, slots, any number) padded with ``PADDING``.

    Attributes
    ----------
    name : str
    slots : int
        Of a sample.
    several : bool
        Whether a slot may have several keys, or none.
    """

    name: str
    slots: int
    several: bool

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Without the batch; a name for what may be of any size."""
        return (self.slots, "most") if self.several else (self.slots,)


@dataclass(frozen=True)
class TableImage:
    """A table: its rows sorted by (slot, key), and how a sample's vectors are combined.

    Attributes
    ----------
    name : str
        Also of its output, (batch, slots, d).
    keys : KeyInput
        What it is asked for.
    size : int
        Of a vector: d.
    mean : bool
        Whether the vectors of a slot are averaged, else added up.
    rows : TableSnapshot
    positions : tuple of int
        Of a table that does not pool: how many places each slot has in its output, which is then
        (batch, all of them, d); else empty.
    """

    name: str
    keys: KeyInput
    size: int
    mean: bool
    rows: TableSnapshot
    positions: tuple[int, ...] = ()

    @property
    def shape(self) -> Shape:
        """Of its output, without the batch."""
        return (sum(self.positions) if self.positions else self.keys.slots, self.size)

    @property
    def has_slots(self) -> bool:
        """Whether a row is of a slot and a key."""
        return "slot" in self.rows.parts

    def arrays(self) -> dict[str, Array]:
        """All rows in memory: ``key``, ``vector`` and, where there is one, ``slot``."""
        blocks = list(self.rows.blocks())
        parts = self.rows.parts
        whole = {
            part: np.concatenate(
                [np.empty((0, *shape), dtype), *(block[part] for block in blocks)]
            ).astype(dtype)
            for part, (dtype, shape) in parts.items()
        }
        if (whole["key"] == PADDING).any():
            raise InvalidArgument(
                f"export: table {self.name!r} has the key {PADDING}, which stands for no key in an "
                "export; give it another number"
            )
        return whole

    def vector_bytes(self) -> int:
        """Of all of its vectors."""
        return 4 * self.size * self.rows.count()


@dataclass(frozen=True)
class ModelImage:
    """The evaluation of a model.

    Attributes
    ----------
    program : Program
        From dense features and the tables' outputs to ``logit`` and, where the loss tells how,
        ``probability``; nothing in it that these do not need.
    dense : str or None
        Name of the dense features, where the program reads them.
    logit, probability : str or None
        Names of the outputs.
    tables : tuple of TableImage
        Those the program reads.
    lengths : dict of str to KeyInput
        Inputs of the program, (batch, slots), that count the keys of each slot.
    """

    program: Program
    dense: str | None
    logit: str
    probability: str | None
    tables: tuple[TableImage, ...]
    lengths: Mapping[str, KeyInput]

    @property
    def keys(self) -> list[KeyInput]:
        """The sparse inputs, each once."""
        read = [*(table.keys for table in self.tables), *self.lengths.values()]
        return list({keys.name: keys for keys in read}.values())

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [self.logit, *([self.probability] if self.probability else [])]


def _needed(layers: list[LayerSpec], output: str) -> tuple[list[LayerSpec], set[str]]:
    """The layers that an output is made by, and the names they read."""
    wanted, kept = {output}, []
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
    if len(losses) > 1:
        several = ", ".join(repr(loss["tops"][0]) for loss in losses)
        raise InvalidArgument(f"export: the model has several losses, {several}; one is written")
    loss = losses[0]
    logit = loss["bottoms"][0]
    needed, names = _needed([layer for layer in layers if layer not in losses], logit)

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
        name = embedding.sparse_embedding_name
        if name not in names:
            continue
        if len(embedding.bottom_names) > 1:
            raise InvalidArgument(
                f"export: table {name!r} reads several inputs, {embedding.bottom_names}, and is "
                "not exported by this version; predict with hugectr.load, or use a table an input"
            )
        read = keys[embedding.bottom_names[0]]
        size = embedding.embedding_vec_size
        rows = TableSnapshot(session.table(index), name)
        positions = tuple(most[read.name]) if embedding.combiner == "concat" else ()
        table = TableImage(name, read, size, embedding.combiner == "mean", rows, positions)
        inputs[name] = table.shape
        tables.append(table)

    program, weights = Program(inputs), _weights(session)
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
    if logit in program.rows:
        raise InvalidArgument(f"export: the loss reads {logit!r}, which has several rows a sample")
    probability = None
    if (prediction := PREDICTIONS[loss["type"]]) in PROBABILITIES:
        taken: Any = {*program.shapes, *keys}
        probability = "probability" if "probability" not in taken else "probability of the loss"
        program.emit(prediction, probability, program.shapes[logit], logit)
    return ModelImage(
        program, str(dense) if dense in names else None, logit, probability, tuple(tables), lengths
    )
