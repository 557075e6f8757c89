# SPDX-License-Identifier: Apache-2.0
"""What all collections of tables are: rows, training, saving, lookups."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from hugectr.base.arguments import check_int
from hugectr.base.errors import InvalidArgument
from hugectr.spec.enums import Optimizer_t, Update_t
from hugectr.spec.optimizer import CreateOptimizer, OptParamsPy
from hugectr.torch import eager, operators
from hugectr.torch.checkpoint import Checkpoints
from hugectr.torch.configs import TableConfig, table_configs
from hugectr.torch.freezing import Freezable
from hugectr.torch.inputs import Jagged, PlannedBatch, jagged, no_samples
from hugectr.torch.moving import OUTPUT_TYPES, anchor_on, asked_of, device_of, move
from hugectr.torch.optimizer import CollectionOptimizer
from hugectr.torch.outside_of_torch import check_optimizer, is_exporting
from hugectr.torch.rows import Rows
from hugectr.torch.sharing import make_engine
from hugectr.torch.state_rows import way_of_rows
from hugectr.torch.step_counts import StepCounts
from hugectr.torch.vectors import JaggedVectors

#: What is said of a batch that another collection has looked up.
_OF_ANOTHER = (
    "a batch that was looked up ahead (prefetch, pipeline) is of another collection: give each "
    "forward what its own collection's prefetch has returned"
)


class Collection(Freezable):
    """Tables that are looked up in and updated together.

    Their rows are no parameters: DDP, FSDP and other optimizers leave them alone.
    ``collection.optimizer(lr)`` updates them.

    Parameters
    ----------
    tables : sequence of TableConfig or objects of the shape of TorchRec's ``EmbeddingBagConfig``
    optimizer : OptParamsPy, optional
        What ``hugectr.CreateOptimizer`` returns; by default SGD. Fixed for the life of the tables,
        because rows carry its states.
    device : torch.device or str
        ``"cpu"`` or a CUDA device.
    dtype : torch.dtype
        Of the vectors that come out: float32, float16 or bfloat16. Rows are what ``vector_type``
        of their config says.
    seed : int
        What new rows are drawn by, with the table's place, the key and the column; 0: random.
    fused : bool
        Rows are updated inside backward, which saves memory and time. There is then no gradient
        accumulation, scaling or clipping, and no going back after an error.
    process_group : torch.distributed.ProcessGroup, optional
        Whose processes share the tables; None: all of the job, one process where there is none.

    Notes
    -----
    In training (``module.training``, with gradients enabled) a key that is new gets a row, which
    others see from the step on that trains it. Lookups with ``eval()`` or ``no_grad()`` insert
    nothing and get zeros for keys without a row.

    With several processes each looks up in all rows and holds its share of them; gradients of rows
    are averaged over the processes, as those of DDP. The constructor, lookups, backwards, steps and
    whatever reads or writes rows are then collective: all processes make the same calls in the same
    order, with batches of any sizes. Who makes another call, and whose batch can not be looked up,
    has all of them raise.
    """

    def __init__(
        self,
        tables: Sequence[Any],
        optimizer: OptParamsPy | None = None,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        fused: bool = False,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        check_optimizer(optimizer)
        self.fused = fused
        self.dtype = dtype
        self.device = device_of(device)
        self._takes_weights = False
        self.opt_params = optimizer or CreateOptimizer(Optimizer_t.SGD, Update_t.Local)

        def configs() -> list[TableConfig]:
            if dtype not in OUTPUT_TYPES:
                raise InvalidArgument(f"dtype: found {dtype}, allowed: float32, float16, bfloat16")
            check_int("seed", seed, 0, 2**64 - 1)
            return table_configs(tables)

        self.configs, self._engine = make_engine(
            process_group,
            configs,
            self.opt_params.to_spec(),
            self.device,
            seed,
            {"the kind of collection": type(self).__name__, "dtype": str(dtype), "fused": fused},
        )
        self._seed = seed
        self._number, self._number_in_exports = self._engine.number, self._engine.number_in_exports
        self._features = [name for table in self.configs for name in table.feature_names]
        self._counts = [len(table.feature_names) for table in self.configs]
        self._dims = [table.embedding_dim for table in self.configs]
        self._engine.features = self._counts
        #: The features of the last batch, and what _order() has said of them.
        self._last_order: tuple[list[str] | None, list[int]] = (None, [])
        self._width = sum(k * d for k, d in zip(self._counts, self._dims, strict=True))
        self._anchor = anchor_on(self.device)
        self._optimizer: CollectionOptimizer | None = None
        self._checkpoints = Checkpoints(self._engine, self.opt_params.to_spec())
        #: Where ``state_dict()`` saves the tables as a native checkpoint, of which it then has but
        #: the path; None: it has the rows themselves, which suits small tables.
        self.state_folder: str | os.PathLike[str] | None = None
        #: Whether ``state_dict()`` has anything of the rows; False: they are saved elsewhere, by
        #: ``save()`` or ``hugectr.torch.tables_to_save``.
        self.rows_in_state = True

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """What ``to()``, ``cuda()``, ``half()`` and the like do: tables go along with a module."""
        device, dtype = asked_of(self, fn)
        super()._apply(fn, recurse)
        if device != self.device:
            move(self, device, self._seed)
        self.dtype = dtype
        return self

    # --- training -------------------------------------------------------------------------------

    def optimizer(self, lr: float) -> CollectionOptimizer:
        """The optimizer of the rows, of the kind that the collection was made with.

        Parameters
        ----------
        lr : float
            Learning rate of all tables; schedulers of torch change it.

        Returns
        -------
        CollectionOptimizer
            A ``torch.optim.Optimizer`` with a parameter group of all tables.
        """
        names = [table.name for table in self.configs]
        self._optimizer = CollectionOptimizer(self._engine, names, lr, fused=self.fused)
        return self._optimizer

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients that wait for a step, as ``zero_grad`` of its optimizer does.

        That of a module around the collection goes by parameters and leaves them.

        Parameters
        ----------
        set_to_none : bool
            Of no meaning here.
        """
        super().zero_grad(set_to_none)
        self._engine.forget_gradients()

    # --- rows -----------------------------------------------------------------------------------

    def rows(self, name: str | None = None) -> Rows:
        """The rows of a table, to be read, written and counted.

        Parameters
        ----------
        name : str, optional
            Of the table; may be left out where there is one.

        Raises
        ------
        InvalidArgument
            When there is no such table.
        """
        if name is None and len(self.configs) > 1:
            raise InvalidArgument("rows: name a table; this collection has several")
        index = 0 if name is None else self._index(name)
        return Rows(self._engine, index, self.configs[index])

    # --- lookups --------------------------------------------------------------------------------

    def prefetch(self, batch: Any) -> PlannedBatch:
        """Look keys up ahead of the forward that uses them.

        Nobody waits for it: on a GPU it is done beside the step before, if it is called before
        that step is begun, for it comes after what the current stream holds. What is wrong with the
        batch is said by its forward, until which its tensors must stay as they are. Several
        processes hear in the next backward what they ask of each other.

        Parameters
        ----------
        batch
            As forward takes it.

        Returns
        -------
        PlannedBatch
            To be given to forward, once or more often, in training.
        """
        try:
            bags = self._formed(batch)
        except Exception as error:
            none, alone = no_samples(self._features, self.device), self._engine.group.size == 1
            token = None if alone else self._engine.refuse(error, ahead=True)
            failed = error if alone else None
            return PlannedBatch(none, self._is_pooled(none), token, failed, self._number)
        pooled = self._is_pooled(bags)
        token = self._plan(bags, pooled, beside=True)
        return PlannedBatch(bags, pooled, token, collection=self._number)

    def _is_pooled(self, bags: Jagged) -> bool:
        """Whether forward asks for a vector a bag."""
        return True

    def _form(self, batch: Any) -> Jagged:
        """A batch in the form that is looked up, with all features in it."""
        if self._engine.group.size == 1 or torch.compiler.is_compiling():
            return self._formed(batch)
        try:
            return self._formed(batch)
        except Exception as error:
            self._engine.refuse(error)  # raises
            raise

    def _formed(self, batch: Any) -> Jagged:
        bags = jagged(batch, self._features, self._takes_weights)
        self._order(bags.features)
        return bags

    def _order(self, found: list[str]) -> list[int]:
        """The place of each feature of the collection among those of a batch."""
        if torch.compiler.is_compiling():
            return self._places(found)
        features, order = self._last_order
        if features != found:
            order = self._places(found)
            self._last_order = list(found), order
        return order

    def _places(self, found: list[str]) -> list[int]:
        for name in self._features:
            if name not in found:
                raise InvalidArgument(f"a batch has no feature {name!r}; it has {sorted(found)}")
        return [found.index(name) for name in self._features]

    def _planned(self, batch: Any) -> PlannedBatch:
        """A batch as forward got it: one that was looked up ahead, or any."""
        self._check_not_traced(batch)
        if isinstance(batch, PlannedBatch):
            if batch.collection not in (0, self._number):
                self._engine.refuse(InvalidArgument(_OF_ANOTHER))  # raises
            if batch.error is not None:
                raise batch.error
            if batch.token is not None and not torch.compiler.is_compiling():
                self._engine.heard(batch.token)
                if self._engine.is_over(batch.token):  # rows were written meanwhile: once more
                    return PlannedBatch(batch.batch, batch.pooled)
            return batch
        bags = self._form(batch)
        return PlannedBatch(bags, self._is_pooled(bags))

    def _arguments(self, batch: Jagged, pooled: bool) -> tuple[Any, ...]:
        """What the operators take of a batch."""
        order = self._order(batch.features)
        splits = batch.splits if pooled else batch.counted()
        return (
            batch.values, batch.offsets, splits, batch.batch, order, self._counts, pooled,
            self._known_as(),
        )  # fmt: skip

    def _known_as(self) -> int:
        """The number that operators find the tables by."""
        return self._number_in_exports if is_exporting() else self._number

    def _plan(self, batch: Jagged, pooled: bool, *, beside: bool = False) -> torch.Tensor:
        arguments = self._arguments(batch, pooled)
        if eager.is_eager(batch.values):
            return operators.plan_batch(*arguments, ahead=True, beside=beside)
        return operators.plan(*arguments)

    def _look_up(self, planned: PlannedBatch, *, beside: bool = False) -> list[torch.Tensor]:
        """Vectors of each table, one feature after the other; ``beside``: all side by side."""
        batch, pooled = planned.batch, planned.pooled
        samples = batch.batch
        dims = self._dims
        if not pooled:
            splits = dict(zip(batch.features, batch.counted(), strict=True))
            sizes = [sum(splits[name] for name in table.feature_names) for table in self.configs]
        elif beside:
            sizes, dims = [samples], [self._width]
        else:
            sizes = [count * samples for count in self._counts]
        if not (self.training and torch.is_grad_enabled() and any(self._engine.trainable)):
            of_torch = not eager.is_eager(batch.values)
            look_up: Any = operators.look_up if of_torch else operators.look_up_batch
            return look_up(*self._arguments(batch, pooled), sizes, dims, self.dtype)
        self._check_not_exported()
        token = planned.token if planned.token is not None else self._plan(batch, pooled)
        if eager.is_eager(batch.values):
            return eager.vectors(self._anchor, token, self._engine, sizes, dims, self.dtype)
        return operators.vectors(self._anchor, token, sizes, dims, self.dtype, self._known_as())

    def _keys_of(self, batch: Jagged) -> list[tuple[str, int, int, int]]:
        """Of each feature: its name, its table, where its keys begin in the batch, how many."""
        splits = batch.counted()
        found = []
        for index, table in enumerate(self.configs):
            for name in table.feature_names:
                place = batch.features.index(name)
                found.append((name, index, sum(splits[:place]), splits[place]))
        return found

    def _jagged(self, planned: PlannedBatch) -> dict[str, JaggedVectors]:
        batch, vectors = planned.batch, self._look_up(planned)
        done = [0] * len(vectors)
        result = {}
        for name, table, start, count in self._keys_of(batch):
            place = batch.features.index(name) * batch.batch
            bags = batch.offsets[place : place + batch.batch + 1] - start
            own = vectors[table].narrow(0, done[table], count)
            result[name] = JaggedVectors(own, bags)
            done[table] += count
        return result

    # --- state ----------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save all tables with their states as a native checkpoint.

        Parameters
        ----------
        folder : path-like
            Of all checkpoints of the run.

        Returns
        -------
        Path
            ``folder/step-<number>``: it is there whole, or not at all.
        """
        return self._checkpoints.save(folder)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace all rows by those of a native checkpoint, or of the newest in a folder.

        Where the kind of optimizer and its ``update_type`` are the same, states and steps come
        along, and the collection goes on as the run of the checkpoint: ``save`` may add to its
        folder. Else they begin anew, with a warning.

        Raises
        ------
        InvalidArgument
            When a table is missing or has vectors of another length.
        DataError
            When files are missing or damaged.
        """
        self._checkpoints.load(path)

    def get_extra_state(self) -> dict[str, Any]:
        """What ``state_dict()`` has of the tables: their rows on the host, or where they are."""
        if not self.rows_in_state:
            return {"hugectr_collection": 1, "rows": "elsewhere"}
        if self.state_folder is not None:
            return {"hugectr_collection": 1, "checkpoint": str(self.save(self.state_folder))}
        return {
            "hugectr_collection": 1,
            **StepCounts.of(self._engine.core).to_state(),
            "optimizer": dict(self.opt_params.to_spec()),
            "tables": {table.name: self.rows(table.name).state() for table in self.configs},
        }

    def set_extra_state(self, state: Any) -> None:
        """Take the rows of a ``state_dict()`` in place of those that are there."""
        way = way_of_rows(state)
        if way == "checkpoint":
            self.load(state["checkpoint"])
        elif way == "tables":
            self._checkpoints.take(state, self.configs, self.rows)

    def extra_repr(self) -> str:
        """One line a table."""
        return "\n".join(
            f"{table.name}: {', '.join(table.feature_names)} -> {table.embedding_dim}"
            for table in self.configs
        )
