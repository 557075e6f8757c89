# SPDX-License-Identifier: Apache-2.0
"""What the models of the catalogue are put together from: lookups, towers, sums of logits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hugectr.base.errors import InvalidArgument
from hugectr.data.schema import InputLayer, SparseInput
from hugectr.model.model import Model
from hugectr.models.sizes import Sizes
from hugectr.models.target import BINARY, Target
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.enums import Embedding_t, Layer_t, MetricsType
from hugectr.spec.input import DataReaderSparseParam, Input
from hugectr.spec.layers import DenseLayer


class Network:
    """A model being put together. Its methods add layers and return names of tensors.

    Names have a ``/``, so that they do not meet those of columns. Tables are called by columns, so
    that a layer may be another one's namesake: it gets ``_`` behind its name.

    Parameters
    ----------
    model : Model
        Not compiled and without an Input.
    inputs : InputLayer
        What the data has.
    sizes : Sizes
    target : Target
    """

    def __init__(
        self, model: Model, inputs: InputLayer, sizes: Sizes, target: Target = BINARY
    ) -> None:
        self._model = model
        self.inputs = inputs
        self.sizes = sizes
        self.target = target
        #: Slots of all sparse inputs together.
        self.slots = sum(len(one.fields) for one in inputs.sparse)
        if len(inputs.labels) != 1:
            raise InvalidArgument(
                f"models: the schema has the labels {list(inputs.labels)}, and the models of the "
                "catalogue predict one; name one column as label"
            )
        if not self.slots and not inputs.dense:
            raise InvalidArgument(
                "models: the schema has no column to predict from: all are ignored (print the "
                "schema to see why); name some as categorical= or dense="
            )
        sparse = [
            DataReaderSparseParam(one.name, one.nnz_per_slot, one.is_fixed_length, len(one.fields))
            for one in inputs.sparse
        ]
        labels, group = ["label"], ""
        if inputs.group is not None and MetricsType.GAUC in model.solver.metrics_spec:
            labels, group = ["label", "label/group"], "label/group"
        dense = len(inputs.dense)
        self._names = {*labels, "dense", *(one.name for one in inputs.sparse)}
        model.add(Input([1] * len(labels), labels, dense, "dense", sparse, group_name=group))

    @property
    def outputs(self) -> int:
        """Logits of a sample."""
        return self.target.outputs

    @property
    def dense(self) -> str | None:
        """The dense features, (batch, columns); None where the data has none."""
        return "dense" if self.inputs.dense else None

    def _free(self, name: str) -> str:
        """The name for a new tensor: this one, or like it where a column has made it another's."""
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def layer(self, kind: str, bottoms: list[str], top: str, **parameters: Any) -> str:
        """Add a layer of one top; the name of that."""
        top = self._free(top)
        self._model.add(DenseLayer(Layer_t[kind], bottoms, [top], **parameters))
        return top

    def joined(self, bottoms: list[str], top: str) -> str:
        """Columns side by side, (batch, columns)."""
        return bottoms[0] if len(bottoms) == 1 else self.layer("Concat", bottoms, top)

    def summed(self, logits: list[str], top: str) -> str:
        """Sum of logits, (batch, outputs) each."""
        return logits[0] if len(logits) == 1 else self.layer("Add", logits, top)

    def slices(self, bottom: str, tops: list[str], widths: Sequence[int]) -> list[str]:
        """Columns of a tensor (batch, columns), so many each; the names of the parts."""
        tops = [self._free(top) for top in tops]
        ends = list(itertools.accumulate(widths, initial=0))
        ranges = list(itertools.pairwise(ends))
        self._model.add(DenseLayer(Layer_t.Slice, [bottom], tops, ranges=ranges))
        return tops

    def table(self, one: SparseInput, width: int, part: str, combiner: str) -> str:
        """A table for a sparse input; the name of its vectors."""
        name = self._free(f"{part}/{one.name}")
        kind = Embedding_t.DistributedSlotSparseEmbeddingHash
        self._model.add(SparseEmbedding(kind, 0, width, combiner, name, one.name))
        return name

    def lookups(
        self, width: int, part: str, of: Sequence[SparseInput] | None = None
    ) -> list[tuple[str, int]]:
        """A table for each sparse input (or these), its vectors (batch, slots, width), their slots.

        A list has the mean of its vectors, so that a long one does not count more than a short one.
        """
        found = []
        for one in self.inputs.sparse if of is None else of:
            combiner = "sum" if max(one.lengths) == 1 else "mean"
            found.append((self.table(one, width, part, combiner), len(one.fields)))
        return found

    def flat_vectors(
        self, width: int, part: str, of: Sequence[SparseInput] | None = None
    ) -> list[str]:
        """The vectors of all slots, (batch, slots * width) a sparse input (or these)."""
        return [
            self.layer("Reshape", [name], f"{name}/flat", leading_dim=slots * width)
            for name, slots in self.lookups(width, part, of)
        ]

    def first_order(self, weights: list[str], part: str) -> list[str]:
        """Logits of a linear model: of ``outputs`` weights a category, (batch, slots * outputs),
        and of dense ones.
        """
        logits = []
        if weights:
            joined = self.joined(weights, f"{part}/w")
            if self.outputs > 1:
                joined = self.layer(
                    "Reshape",
                    [joined],
                    f"{part}/of_slots",
                    leading_dim=self.outputs,
                    time_step=self.slots,
                )
            logits.append(self.layer("ReduceSum", [joined], f"{part}/sum", axis=1))
            if self.outputs > 1:
                logits[0] = self.layer(
                    "Reshape", [logits[0]], f"{part}/sums", leading_dim=self.outputs
                )
        if self.dense:
            logits.append(
                self.layer("InnerProduct", [self.dense], f"{part}/dense", num_output=self.outputs)
            )
        return logits

    def factors(self, part: str) -> tuple[str, list[str]]:
        """A vector for each category, (batch, slots * d), and ``outputs`` weights.

        Vector and weight of a category are one row of a table: one lookup finds both. Dense
        features have no vectors, but where there is nothing else (then value times vector): their
        products with all others grow with their values, and what they add is learnt by heart
        (benchmarks/users: AUC on 200,000 planted rows .749, without them .758; Criteo .736, .743).
        """
        d, k, vectors, weights = self.sizes.vec_size, self.outputs, [], []
        for name, slots in self.lookups(d + k, part):
            rows = self.layer("Reshape", [name], f"{name}/rows", leading_dim=d + k)
            tops = self.slices(rows, [f"{name}/v", f"{name}/w"], (d, k))
            flat = self.layer("Reshape", [tops[0]], f"{name}/vs", leading_dim=slots * d)
            vectors.append(flat)
            weights.append(self.layer("Reshape", [tops[1]], f"{name}/ws", leading_dim=slots * k))
        if self.dense and not self.slots:
            dims = [len(self.inputs.dense), d]
            vectors.append(
                self.layer("WeightMultiply", [self.dense], f"{part}/dense_v", weight_dims=dims)
            )
        return self.joined(vectors, f"{part}/vectors"), weights

    def pairs(self, vectors: str, part: str) -> str:
        """Sum of the products of all pairs of vectors: the logit of a factorization machine.

        Of several logits each weighs the columns of the products in its own way.
        """
        found = self.layer("FmOrder2", [vectors], f"{part}/pairs", out_dim=self.sizes.vec_size)
        if self.outputs > 1:
            return self.logit(found, f"{part}/pair")
        return self.layer("ReduceSum", [found], f"{part}/pair_sum", axis=1)

    def tower(self, bottom: str, part: str, widths: tuple[int, ...] | None = None) -> str:
        """Layers of InnerProduct, ReLU and Dropout, as wide as the sizes say; the last tensor."""
        for i, width in enumerate(self.sizes.hidden if widths is None else widths):
            bottom = self.layer("InnerProduct", [bottom], f"{part}/fc{i}", num_output=width)
            bottom = self.layer("ReLU", [bottom], f"{part}/relu{i}")
            if self.sizes.dropout > 0:
                rate = self.sizes.dropout
                bottom = self.layer("Dropout", [bottom], f"{part}/drop{i}", dropout_rate=rate)
        return bottom

    def logit(self, bottom: str, part: str) -> str:
        """The logits that a layer ends in, (batch, outputs)."""
        return self.layer("InnerProduct", [bottom], f"{part}/logit", num_output=self.outputs)

    def loss(self, logit: str) -> None:
        """The end: the loss of the logits."""
        self.layer(self.target.loss, [logit, "label"], "loss", **self.target.parameters)
