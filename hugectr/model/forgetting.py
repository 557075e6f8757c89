# SPDX-License-Identifier: Apache-2.0
"""Rows that are taken out of tables by a call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.arguments import check_int, check_str
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.base.row_keys import check_row_keys, check_row_slots
from hugectr.checkpoints.rows import SCORES
from hugectr.checkpoints.state import TrainingState
from hugectr.processes.agreement import jointly, together

#: Where a score has what: ``core/cpp/ops/loops/row_score.hpp``.
_ADMITTED, _USES, _ONE_USE = np.uint64(63), np.uint64(32), 256
_MOST_USES, _STEPS = np.uint64(0x7FFFFFFF), np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class RowUse:
    """How rows of a table were used, an entry a row, sorted by (slot, key).

    Attributes
    ----------
    keys : ndarray of int64
    slot_ids : ndarray of uint64, or None
        Where slots are part of what makes a row another row.
    last_step : ndarray of int64
        The step that used it last; of a table with a ``ttl_column`` the latest time of the samples
        that used it, 0: not known, 2**32 - 1: one of them was negative or beyond 2106.
    uses : ndarray of float64
        Steps that used it; of a table with ``decay`` as they counted in the last of them.
    admitted : ndarray of bool
        Whether it is trained.
    """

    keys: npt.NDArray[np.int64]
    slot_ids: npt.NDArray[np.uint64] | None
    last_step: npt.NDArray[np.int64]
    uses: npt.NDArray[np.float64]
    admitted: npt.NDArray[np.bool_]


#: A mask of rows, or what rows to choose are like: all that is named must be true of them.
Where = Callable[[RowUse], Any] | Mapping[str, Any]
#: Keys, and slots where they are part of what makes a row another row.
_Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64] | None]


@dataclass(frozen=True)
class _Asked:
    """What a call of ``evict`` asks for: rows, or what they are like."""

    name: str
    table: int
    rows: _Rows | None
    where: Where | None

    def digest(self) -> str:
        """The same of two calls that ask for the same; callables are taken to."""
        found = hashlib.sha256(repr(self.name).encode())
        if callable(self.where):
            found.update(b"a callable")
        elif self.where is not None:
            found.update(repr(sorted(self.where.items())).encode())
        for part in self.rows or ():
            found.update(b"none" if part is None else part.tobytes())
        return found.hexdigest()


class Forgetting:
    """Takes rows out of the tables of a model.

    Parameters
    ----------
    state : TrainingState
    """

    def __init__(self, state: TrainingState) -> None:
        self._state = state

    def evict(
        self, table: str, keys: Any = None, where: Where | None = None, *, slot_ids: Any = None
    ) -> int:
        """Take rows out of a table: by key, or by how they were used. Collective.

        A key that comes back begins anew. Deltas and ``get_incremental_model`` know what went.

        Parameters
        ----------
        table : str
            Its ``sparse_embedding_name``.
        keys : array of int, (n,), optional
            Those without a row are passed over. Every process of a job gives the same. A mask says
            nothing of keys: give those that it chooses, or a callable ``where``.
        where : dict or callable, optional
            Instead of keys, of a table whose rows have a life (``SparseEmbedding``: ``evict``,
            ``admit_after``). A dict says what all rows that go are like: ``older_than`` (steps
            since the last use; of a table with a ``ttl_column`` seconds before the latest time that
            its rows have, and rows whose time is not known stay), ``fewer_uses_than``,
            ``admitted`` (bool). All are strict: a row last used 20 steps ago is not older than 20.
            A callable gets a ``RowUse`` of the rows of this process and returns a bool for each:
            True, it goes.
        slot_ids : array of int, (n,), or int
            With keys, of Localized tables: the slot of each.

        Returns
        -------
        int
            Rows that went, of all processes.

        Raises
        ------
        InvalidArgument
            For an unknown table, keys that are no ints (floats, masks, texts), a key or slot it can
            not have, or a ``where`` that says nothing; in a job also where processes ask for
            different rows. For ``older_than`` of a table whose ``ttl_column`` had times that are
            none: the message says how those rows do. Whichever it is, no row went anywhere.
        """
        asked = self._agreed(table, keys, where, slot_ids)
        own = self._state.session.table(asked.table)
        rows = asked.rows
        if asked.where is not None:
            chosen = asked.where
            now, timed = self._now(asked.name, own, chosen)
            # Chosen everywhere before any goes, for a callable may raise.
            rows = jointly(
                self._state.group, lambda: _chosen(chosen, self._use_of(own), now, timed=timed)
            )
        assert rows is not None, "it is one of the two"
        named = rows
        return sum(together(self._state.group, lambda: own.erase(*named)))

    def _agreed(self, table: Any, keys: Any, where: Any, slot_ids: Any) -> _Asked:
        """What is asked for, checked, and that all processes ask for the same.

        Each takes out the rows that its own devices have: of keys that one of them alone gave the
        others would keep theirs, and nobody would hear of it.
        """
        asked: list[_Asked] = []

        def check() -> str:
            asked.append(self._checked(table, keys, where, slot_ids))
            return asked[0].digest()

        digests = together(self._state.group, check, call="Model.evict")
        for rank, digest in enumerate(digests):
            if digest != digests[0]:
                raise InvalidArgument(
                    f"Model.evict: process {rank} asks for other rows than process 0: all "
                    "processes of a job give the same table, keys, slot_ids and where"
                )
        return asked[0]

    def _checked(self, table: Any, keys: Any, where: Any, slot_ids: Any) -> _Asked:
        names = self._state.table_names
        name = check_str("Model.evict: table", table)
        if name not in names:
            near = did_you_mean(name, names)
            raise rejected("Model.evict: table", name, f"one of {names}{near}")
        if (keys is None) == (where is None):
            raise InvalidArgument("Model.evict: give keys, or where: one of the two")
        number = names.index(name)
        own = self._state.session.table(number)
        rows = _named_rows(own, name, keys, slot_ids)
        if where is None:
            return _Asked(name, number, rows, None)
        if not any(part in own.parts() for part in SCORES):
            raise InvalidArgument(
                f"Model.evict: where: table {name!r} does not note how its rows are used: "
                "give it evict= or admit_after=, or name the rows by keys"
            )
        return _Asked(name, number, None, where if callable(where) else _checked_where(where))

    def _now(self, name: str, own: Any, where: Where) -> tuple[int, bool]:
        """What ages are counted from, and whether it is a time of the data and not a step."""
        clock = self._clock(own)
        if clock is None:
            return self._state.session.step(), False
        now, unsound = clock
        if unsound and not callable(where) and "older_than" in where:
            raise _no_clock(name, unsound)
        return now, True

    def _clock(self, table: Any) -> tuple[int, int] | None:
        """The latest time that rows of the table have in the whole job, and how many have one that
        is none; None: rows have no times.
        """
        if "timed_score" not in table.parts():
            return None

        def own() -> tuple[int, int]:
            times = table.scores(table.order()) & _STEPS
            return int(times.max(initial=0)), int(np.count_nonzero(times == _STEPS))

        latest, unsound = zip(*together(self._state.group, own), strict=True)
        return max(latest), sum(unsound)

    @staticmethod
    def _use_of(table: Any) -> RowUse:
        order = table.order()
        scores, count = table.scores(order), len(order)
        return RowUse(
            keys=order.keys(0, count),
            slot_ids=order.slot_ids(0, count) if "slot" in table.parts() else None,
            last_step=(scores & _STEPS).astype(np.int64),
            uses=(scores >> _USES & _MOST_USES).astype(np.float64) / _ONE_USE,
            admitted=scores >> _ADMITTED != 0,
        )


def _named_rows(own: Any, table: str, keys: Any, slot_ids: Any) -> _Rows | None:
    """The rows that keys and slots name; None without keys."""
    has_slots = "slot" in own.parts()
    if slot_ids is not None and (keys is None or not has_slots):
        why = "slot_ids are those of keys"
        if keys is not None:
            why = f"table {table!r} has one row a key, whatever its slot"
        raise InvalidArgument(f"Model.evict: {why}; leave slot_ids out")
    if keys is None:
        return None
    named = check_row_keys("Model.evict: keys", keys)
    if not has_slots:
        return named, None
    if slot_ids is None:
        raise InvalidArgument(
            f"Model.evict: table {table!r} has a row for each slot and key; give the slot_ids of "
            "the keys"
        )
    return named, check_row_slots("Model.evict: slot_ids", slot_ids, len(named))


def _no_clock(table: str, unsound: int) -> InvalidArgument:
    """As training's next look says it (``core/cpp/embedding/life/row_choice.cpp``)."""
    return InvalidArgument(
        f"Model.evict: where['older_than']: the ttl_column of table {table!r} has times that are "
        f"negative or beyond 2106-02-07, which {unsound} rows have: they must be whole seconds "
        "since 1970, not milliseconds. Mend the data, and remove these rows: "
        f"model.evict({table!r}, where=lambda use: use.last_step >= 2**32 - 1)"
    )


def _checked_where(where: Any) -> dict[str, int | bool]:
    """What rows are like, in Python's own numbers."""
    if not isinstance(where, Mapping) or not where:
        allowed = "a callable, or a dict of older_than, fewer_uses_than, admitted"
        raise rejected("Model.evict: where", where, allowed)
    found: dict[str, int | bool] = {}
    for name, value in where.items():
        if name in ("older_than", "fewer_uses_than"):
            found[name] = check_int(f"Model.evict: where[{name!r}]", value, 0)
        elif name == "admitted" and isinstance(value, bool | np.bool_):
            found[name] = bool(value)
        else:
            raise rejected(
                "Model.evict: where",
                {name: value},
                "older_than=steps, fewer_uses_than=steps, admitted=True or False",
            )
    return found


def _mask(where: Where, use: RowUse, now: int, *, timed: bool) -> npt.NDArray[np.bool_]:
    if callable(where):
        mask = np.asarray(where(use))
        if mask.dtype != np.bool_ or mask.shape != use.keys.shape:
            allowed = f"a bool for each of {len(use.keys)} rows"
            raise rejected("Model.evict: what where returns", f"{mask.dtype} {mask.shape}", allowed)
        return mask
    chosen = np.ones(use.keys.shape, np.bool_)
    if "older_than" in where:
        chosen &= now - use.last_step > where["older_than"]
        if timed:
            # 0 is a time that nobody knows, as of rows from a checkpoint that counts steps: such a
            # row does not expire, be it by its ttl or here.
            chosen &= use.last_step > 0
    if "fewer_uses_than" in where:
        chosen &= use.uses < where["fewer_uses_than"]
    if "admitted" in where:
        chosen &= use.admitted == where["admitted"]
    return chosen


def _chosen(where: Where, use: RowUse, now: int, *, timed: bool) -> _Rows:
    """Keys and slots of the rows that go."""
    mask = _mask(where, use, now, timed=timed)
    return use.keys[mask], None if use.slot_ids is None else use.slot_ids[mask]
