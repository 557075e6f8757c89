# SPDX-License-Identifier: Apache-2.0
"""A model's memory, shown and taken: tensors, dense weights, table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hugectr._core import TensorView
from hugectr.base.arguments import check_bool, check_int, check_str
from hugectr.base.errors import did_you_mean, rejected
from hugectr.data.given_arrays import given_array, given_floats
from hugectr.interop import TableRows, as_view, stream_handle, to_numpy
from hugectr.model.graph import Graph
from hugectr.processes.group import ProcessGroup
from hugectr.processes.sameness import same_call
from hugectr.spec.optimizer import states_of

if TYPE_CHECKING:
    from hugectr._core import BufferBag, SessionTable


def _same_rows(
    group: ProcessGroup,
    table: str,
    keys: npt.NDArray[Any],
    slots: npt.NDArray[Any] | None,
    vectors: npt.NDArray[np.float32],
) -> None:
    """Whether all processes set the same rows, whatever type of int their keys are of."""
    if group.size > 1:
        same_call(
            group,
            "Model.set_table_rows",
            embedding=table,
            keys=keys.astype(np.int64),
            slot_ids=None if slots is None else slots.astype(np.int64),
            vectors=vectors,
        )


class RunningStatistics(NamedTuple):
    """What a BatchNorm layer normalises with in evaluation.

    Attributes
    ----------
    mean : array of float64, (columns,)
        48 bits of it are kept: a mean far from 0 costs no digits of what lies around it.
    var : array of float32, (columns,)
        Of the population, not the sample.
    """

    mean: npt.NDArray[np.float64]
    var: npt.NDArray[np.float32]


class Memory:
    """A compiled model's memory, without a copy; ``hugectr.interop`` has the rules.

    In a job of several processes all of them set the same values, of which each has a copy. In all
    methods ``device`` counts the devices of this process as ``vvgpu`` names them, from 0,
    and ``stream`` is a CUDA stream (a handle or an object with ``__cuda_stream__``): what it gets
    from then on waits for what the model has been given to do, or the model for it.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def _place(self, where: str, device: int) -> int:
        return check_int(f"{where}: device", device, 0, self._graph.solver.num_devices - 1)

    def _handed_out(self, view: TensorView, stream: Any) -> TensorView:
        if stream is not None:
            view.order_before(stream_handle(stream))
        return view

    def tensor(
        self, name: str, train: bool = True, *, device: int = 0, stream: Any = None
    ) -> TensorView:
        """Show a tensor of the network: that device's part of the batch.

        Parameters
        ----------
        name : str
            A top of a layer, the label, the dense input or a table's output.
        train : bool
            The tensor of the training network, else of the evaluation network.
        device, stream
            As for the class.

        Returns
        -------
        TensorView
            Shape (batchsize / devices, ...); float32, or 16 bits where mixed precision computes in
            them. The next train() (or eval()) overwrites it.

        Raises
        ------
        InvalidArgument
            When there is no such tensor, or it was fused away; the text has the way out.
        """
        where = self._place("Model.tensor", device)
        wanted = check_str("Model.tensor: name", name)
        train = check_bool("Model.tensor: train", train)
        return self._handed_out(
            self._graph.session.network.tensor_view(wanted, train, where), stream
        )

    def dense_weight_names(self) -> list[str]:
        """Names of the dense weights in the order of the files, such as ``fc1.weight``."""
        return self._graph.session.network.weight_names()

    def dense_weight(self, name: str, *, device: int = 0, stream: Any = None) -> TensorView:
        """Show a dense weight, float32, that training updates in place.

        Parameters
        ----------
        name : str
            One of ``dense_weight_names()``.
        device, stream
            As for the class. All devices hold the same values: use ``set_dense_weight`` to change
            them.

        Raises
        ------
        InvalidArgument
            When there is no such weight; the text names those there are.
        """
        where = self._place("Model.dense_weight", device)
        wanted = check_str("Model.dense_weight: name", name)
        return self._handed_out(self._graph.session.network.weight_view(wanted, where), stream)

    def set_dense_weight(self, name: str, values: Any, *, stream: Any = None) -> None:
        """Copy values into a dense weight on every device.

        Parameters
        ----------
        name : str
            One of ``dense_weight_names()``.
        values : array of float32
            The weight's shape; any array, in host memory or on a CUDA device.
        stream
            Where ``values`` is being written, if its own protocol does not say.
        """
        view = as_view(values, stream=stream)
        if view.device == "cpu" and view.dtype != "float32":
            view = as_view(np.asarray(view, np.float32))
        wanted = check_str("Model.set_dense_weight: name", name)
        if self._graph.group.size > 1:
            same_call(
                self._graph.group, "Model.set_dense_weight", name=wanted, values=to_numpy(view)
            )
        self._graph.session.network.set_weight(wanted, view)

    def dense_state_names(self) -> list[str]:
        """Names of the states that the optimizer keeps for every dense weight.

        ``m`` and ``v`` (Adam), ``accumulator`` (AdaGrad), ``momentum`` (MomentumSGD, Nesterov),
        none (SGD).
        """
        return states_of(self._graph.opt_params.optimizer_type)

    def dense_state(
        self, name: str, state: str, *, device: int = 0, stream: Any = None
    ) -> TensorView:
        """Show an optimizer state of a dense weight, that training updates in place.

        Parameters
        ----------
        name : str
            One of ``dense_weight_names()``.
        state : str
            One of ``dense_state_names()``.
        device, stream
            As for the class. All devices hold the same values.

        Returns
        -------
        TensorView
            The weight's shape, float32.

        Raises
        ------
        InvalidArgument
            When there is no such weight or state; the text names those there are.
        """
        where = self._place("Model.dense_state", device)
        wanted = check_str("Model.dense_state: name", name)
        states = self.dense_state_names()
        if state not in states:
            optimizer = self._graph.opt_params.optimizer_type.name
            raise rejected("Model.dense_state: state", state, f"one of {states} ({optimizer})")
        view = self._graph.session.network.state_view(wanted, states.index(state), where)
        return self._handed_out(view, stream)

    def running_statistics(self) -> dict[str, RunningStatistics]:
        """Running mean and variance of the BatchNorm layers, by the name of their top: copies."""
        return {
            layer: RunningStatistics(mean, var)
            for layer, mean, var in self._graph.session.network.non_trainables()
        }

    def set_running_statistics(self, layer: str, mean: Any, var: Any) -> None:
        """Set the running statistics of a BatchNorm layer on every device.

        Parameters
        ----------
        layer : str
            A key of ``running_statistics()``.
        mean, var : array, (columns,)

        Raises
        ------
        InvalidArgument
            When there is no such layer, the number of values is not its, or one can not be.
        """
        known = self.running_statistics()
        if layer not in known:
            allowed = f"one of {list(known)}{did_you_mean(str(layer), known)}"
            raise rejected("Model.set_running_statistics: layer", layer, allowed)
        new = RunningStatistics(
            np.asarray(to_numpy(mean), np.float64), np.asarray(to_numpy(var), np.float32)
        )
        for what, values, good in (
            ("mean", new.mean, np.isfinite(new.mean)),
            ("var", new.var, np.isfinite(new.var) & (new.var >= 0)),
        ):
            if not good.all():
                at = int(np.argmin(good))
                where = f"Model.set_running_statistics: {what}[{at}] of {layer!r}"
                raise rejected(where, float(values[at]), "a finite number, of var >= 0")
        same_call(self._graph.group, "Model.set_running_statistics", layer=layer, **new._asdict())
        known[layer] = new
        self._graph.session.network.set_non_trainables(
            [(name, *values) for name, values in known.items()]
        )

    def set_dense_weights(self, values: Any, *, stream: Any = None) -> None:
        """Set all dense weights from one flat array (any array library), in the order of the files.

        Raises
        ------
        InvalidArgument
            When the number of values is not the model's.
        """
        weights = given_floats("Model.set_dense_weights: values", values, stream=stream)
        same_call(self._graph.group, "Model.set_dense_weights", values=weights)
        self._graph.session.network.set_dense_weights(weights)

    def table(self, embedding: str, *, device: int = 0, stream: Any = None) -> TableRows:
        """Show the trained rows of a table on one device.

        Parameters
        ----------
        embedding : str
            Its ``sparse_embedding_name``.
        device, stream
            As for the class. By key, by slot and on one device a row is on one device only; a
            replicated table has all rows on each, and one by column a part of each vector. Of a
            hybrid the rare rows are shown: ``Model.embedding`` gives the vector of any key.

        Returns
        -------
        TableRows
            Stays good while the table grows; rows that come later are not in it. Loading a table
            writes other rows into the same memory.
        """
        where = self._place("Model.table", device)
        views = self._table("Model.table", embedding).view(where)
        rows = TableRows(views["keys"], views["slot_ids"], views["vectors"], tuple(views["states"]))
        self._handed_out(rows.vectors, stream)
        return rows

    def set_table_rows(
        self, embedding: str, keys: Any, vectors: Any, slot_ids: Any = None, *, stream: Any = None
    ) -> None:
        """Add rows to a table, or overwrite those of the same key.

        In a job of several processes all of them give the same rows, and each takes those of its
        own devices.

        Parameters
        ----------
        embedding : str
            Its ``sparse_embedding_name``.
        keys : array of int, (n,)
        vectors : array of float32, (n, embedding_vec_size)
        slot_ids : array of int, (n,)
            Localized tables only.
        stream
            Where the arrays are being written, if their own protocols do not say.

        Raises
        ------
        InvalidArgument
            When a key does not fit the table's type or is the reserved one, a slot is out of range,
            or a vector is not finite; nothing has changed then.
        OutOfMemory
            When the rows do not fit the table's budget or the device; nothing has changed then.
        """
        table = self._table("Model.set_table_rows", embedding)
        call = "Model.set_table_rows: "
        slots = (
            None if slot_ids is None else given_array(f"{call}slot_ids", slot_ids, stream=stream)
        )
        rows = given_array(f"{call}keys", keys, stream=stream)
        for name, array in (("keys", rows), ("slot_ids", slots)):
            if array is not None and array.dtype.kind not in "iu":
                raise rejected(f"{call}dtype of {name}", str(array.dtype), "an int")
            if array is not None and array.shape != (rows.size,):
                raise rejected(f"{call}shape of {name}", array.shape, "(n,), one a row")
        values = given_floats(f"{call}vectors", vectors, stream=stream)
        if values.ndim != 2 or len(values) != len(rows):
            allowed = f"(n, embedding_vec_size), a vector for each of {len(rows)} keys"
            raise rejected(f"{call}shape of vectors", values.shape, allowed)
        finite = np.isfinite(values)
        if not finite.all():
            row = int(np.argwhere(~finite)[0, 0])
            where = f"{call}vectors: row {row}, of key {rows[row]}"
            raise rejected(where, values[row].tolist(), "finite numbers")
        # A process passes over rows of the others' devices: one that it alone has would be lost.
        _same_rows(self._graph.group, embedding, rows, slots, values)
        bag: BufferBag = {
            "keys": rows,
            "slot_ids": slots,
            "vectors": values,
            "states": [],
            "last_step": None,
        }
        table.load(bag)

    def _table(self, where: str, embedding: str) -> SessionTable:
        names = self._graph.table_names
        embedding = check_str(f"{where}: embedding", embedding)
        if embedding not in names:
            near = did_you_mean(embedding, names)
            raise rejected(f"{where}: embedding", embedding, f"one of {names}{near}")
        return self._graph.session.table(names.index(embedding))

    def wait_for_stream(self, stream: Any) -> None:
        """Make the model's next work wait for all that a CUDA stream holds now.

        Call it between what another library does with a view and the next train() or eval(), which
        overwrites tensors and reads weights; also after writing to a dense weight through its
        view, so that mixed precision rounds it anew.

        Raises
        ------
        InvalidArgument
            On the CPU there is nothing to wait for: what NumPy does is done when it returns.
        """
        self._graph.session.wait_for_stream(stream_handle(stream))
