# SPDX-License-Identifier: Apache-2.0
"""A model that is nothing but its state: what checkpoints see of one, on one process of a job."""

import os
import secrets
import weakref
from types import SimpleNamespace

import numpy as np

import hugectr
from hugectr._core import Turn, serialised
from hugectr.base.errors import InvalidArgument, OutOfMemory
from hugectr.base.handed_on import handed_on
from hugectr.checkpoints.description import description_of
from hugectr.model.checkpoints import Checkpoints
from hugectr.model.original_files import OriginalFiles
from hugectr.processes.agreement import from_root

DIM = 6


def place(sample):
    """Of a sample in the data."""
    return {"epoch": 0, "sample": sample, "file": 0, "record": 0, "byte": 0}


class FakeOrder(list):
    """(slot, key) of rows."""

    def keys(self, begin, end):
        return np.array([key for _, key in self[begin:end]], np.int64)

    def slot_ids(self, begin, end):
        return np.array([slot for slot, _ in self[begin:end]], np.uint64)


class FakeTable:
    """A table as a dict of (slot, key) to rows; owners by the rules of the facts.

    Parameters
    ----------
    rank, processes, devices : int
        Devices are dealt to the processes one after the other.
    localized : bool
    """

    def __init__(self, rank, processes, devices, localized):
        self.rank, self.processes, self.devices = rank, processes, devices
        self.localized = localized
        self.rows = {}
        self.stamps = {}
        self.now = self.forgotten = 0
        self.budget = None

    def name(self):
        return "t"

    def process_of(self, key, slot):
        device = slot % self.devices if self.localized else (key % 2**64) % self.devices
        return device * self.processes // self.devices

    def row_processes(self, keys, slot_ids=None):
        slots = np.zeros(len(keys), np.uint64) if slot_ids is None else slot_ids
        found = [self.process_of(int(k), int(s)) for k, s in zip(keys, slots, strict=True)]
        return np.array(found, np.uint32)

    def placement(self):
        return "by_slot" if self.localized else "by_key"

    def put(self, slot, key, values):
        """Give a row of this job a value; owned by others: passed over."""
        if self.process_of(key, slot) == self.rank:
            self.rows[slot if self.localized else 0, key] = np.asarray(values)
            self.stamps[slot if self.localized else 0, key] = self.now

    def vector_type(self):
        return "float32"

    def parts(self):
        parts = {"key": ("int64", ())}
        if self.localized:
            parts["slot"] = ("uint64", ())
        return parts | {
            "vector": ("float32", (DIM,)),
            "state0": ("float32", (DIM,)),
            "last_step": ("int64", ()),
        }

    def order(self, since=0):
        return FakeOrder(
            sorted(row for row in self.rows if since == 0 or self.stamps[row] >= since)
        )

    def check_undamaged(self):
        pass

    def stored(self, order):
        return order, []

    def read(self, order, begin, end, with_states=True, out=None):
        rows = order[begin:end]
        table = np.array([self.rows[row] for row in rows], np.float32).reshape(len(rows), 2, DIM)
        bag = {
            "keys": np.array([key for _, key in rows], np.int64),
            "slot_ids": np.array([s for s, _ in rows], np.uint64) if self.localized else None,
            "vectors": np.ascontiguousarray(table[:, 0]),
            "states": [np.ascontiguousarray(table[:, 1])],
            "last_step": np.array([key % 7 + 1 for _, key in rows], np.int64),
        }
        if out is not None:
            for name in ("keys", "vectors", "last_step", *(["slot_ids"] if self.localized else [])):
                out[name][...] = bag[name]
            out["states"][0][...] = bag["states"][0]
        return bag

    def dump(self, with_states=False):
        order = self.order()
        return self.read(order, 0, len(order))

    def load(self, bag):
        slots = bag["slot_ids"] if self.localized else np.zeros(len(bag["keys"]), int)
        if bag["last_step"] is not None:
            assert np.array_equal(bag["last_step"], bag["keys"] % 7 + 1)
        states = bag["states"] or [np.zeros((len(bag["keys"]), DIM))]
        for i, (slot, key) in enumerate(zip(slots, bag["keys"], strict=True)):
            assert self.process_of(int(key), int(slot)) == self.rank, "sent to its owner"
            if self.budget is not None and len(self.rows) >= self.budget:
                raise OutOfMemory("table is full")
            self.put(int(slot), int(key), np.stack([bag["vectors"][i], states[0][i]]))

    def reset(self):
        self.rows, self.stamps, self.forgotten = {}, {}, self.now

    def mark(self):
        self.now += 1
        return self.now

    def knows_since(self, mark):
        return self.forgotten < mark <= self.now

    def knows_changes_since(self, mark):
        return self.knows_since(mark)

    def gone(self, since):
        return np.empty(0, np.int64), np.empty(0, np.uint64) if self.localized else None

    def stats(self):
        return {"rows": len(self.rows)}


class FakeNetwork:
    """Five dense weights with four states."""

    def __init__(self, values):
        self.values = values

    def layers(self):
        return []

    def dense_weights(self):
        return self.values["dense"]

    def set_dense_weights(self, values):
        self.values["dense"] = values

    def weight_names(self):
        return ["fc.weight", "fc.bias"]

    def weight_view(self, name, device):
        return np.zeros((2, 2) if name == "fc.weight" else (1,))

    def dense_optimizer_states(self):
        return np.arange(4, dtype=np.float32)

    def set_dense_optimizer_states(self, values):
        assert np.array_equal(values, np.arange(4))

    def non_trainables(self):
        return [("norm", np.ones(2, np.float32), np.full(2, 3, np.float32))]

    def set_non_trainables(self, values):
        assert values[0][0] == "norm"
        assert values[0][2].tolist() == [3, 3]

    def loss_scaling_state(self):
        return {"scale": 1.0, "good_steps": 0, "skipped_steps": 0}

    def set_loss_scaling_state(self, state):
        assert state == self.loss_scaling_state()


class FakeReader:
    """A place in the data, and how far that goes."""

    def __init__(self, values):
        self.values = values
        self.last_sample = 1 << 40

    def position(self):
        return self.values["position"]

    def set_position(self, position):
        if position["sample"] > self.last_sample:
            raise InvalidArgument(f"there is no sample {position['sample']}")
        self.values["position"] = position


class FakeSession:
    """One table, a network and a reader, as the core's Session has them."""

    def __init__(self, *owners):
        self.values = {"step": 0, "dense": np.zeros(5, np.float32), "position": place(0)}
        self._tables = [FakeTable(*owners)]
        self.network = FakeNetwork(self.values)
        self.reader = FakeReader(self.values)

    def table(self, index):
        return self._tables[index]

    def tables(self):
        return self._tables

    def has_reader(self):
        return True

    def trains(self):
        return True

    def check_loss(self):
        pass

    def step(self):
        return self.values["step"]

    def set_step(self, step):
        self.values["step"] = step

    def frozen_steps(self, name):
        return self.values.get(("frozen_steps", name), 0)

    def set_frozen_steps(self, name, steps):
        self.values["frozen_steps", name] = steps

    def seed(self):
        return 3

    def learning_rate_state(self):
        return {"step": 1, "lr": 0.5}

    def set_learning_rate_state(self, state):
        assert state == {"step": 1, "lr": 0.5}


class FakeState:
    """The ``TrainingState`` of one table on a process of a group, and what describes it.

    All of them are one run, as if each had gone on from what the one before had saved.
    """

    model_name = "fake"
    i64_keys = True
    batchsize_eval = 8

    def __init__(self, group, devices, localized=False):
        self.schema = {}
        self.group = group
        self.fit_epoch = 0
        self.resumed_in = None
        self.unusable = ""
        self._run_id = "f" * 32
        self._session = FakeSession(group.rank, group.size, devices, localized)
        self._frozen = set()
        self.solver = SimpleNamespace(i64_input_key=True, compute_dtype="float32")
        keys = hugectr.DataReaderSparseParam("keys", 1, True, 4)
        self.input = hugectr.Input(1, "label", 1, "dense", [keys])
        split = "Localized" if localized else "Distributed"
        kind = hugectr.Embedding_t[f"{split}SlotSparseEmbeddingHash"]
        self.embeddings = [hugectr.SparseEmbedding(kind, 1, DIM, "sum", "t", "keys")]
        self.table_names = ["t"]
        self.opt_params = hugectr.CreateOptimizer()

    @property
    def session(self):
        if self.unusable:
            raise InvalidArgument(self.unusable)
        return self._session

    @property
    def run_id(self):
        if self._run_id is None:
            self._run_id = from_root(self.group, lambda: secrets.token_hex(16))
        return self._run_id

    @run_id.setter
    def run_id(self, run):
        self._run_id = run

    def description(self):
        return description_of(self)

    def schema_files(self):
        return self.schema

    def keep_schema(self, files, path):
        self.schema = self.schema or files

    def callback_states(self):
        return {}

    def frozen(self):
        return set(self._frozen)

    def set_frozen(self, names):
        self._frozen = set(names)


@serialised
class FakeModel:
    """A model that is nothing but its state, saved and resumed as a Model is."""

    def __init__(self, group, devices, localized=False):
        self.state = FakeState(group, devices, localized)
        self._come_along()
        _fakes.add(self)

    def _come_along(self):
        """It has no threads: after a fork the child uses its parent's."""
        self._turn = Turn("model")
        self._checkpoints = Checkpoints(self.state, self._turn)
        self._original_files = OriginalFiles(self.state)

    @property
    def session(self):
        return self.state.session

    @property
    def unusable(self):
        return self.state.unusable

    @property
    def run_id(self):
        return self.state.run_id

    @run_id.setter
    def run_id(self, run):
        self.state.run_id = run

    save = handed_on("_checkpoints", Checkpoints.save)
    wait_for_save = handed_on("_checkpoints", Checkpoints.wait_for_save)
    resume = handed_on("_checkpoints", Checkpoints.resume)
    note_touched_rows = handed_on("_checkpoints", Checkpoints.note_touched_rows)
    get_incremental_model = handed_on("_checkpoints", Checkpoints.get_incremental_model)
    check_checkpoint_folder = handed_on("_checkpoints", Checkpoints.check_checkpoint_folder)
    latest_checkpoint = handed_on("_checkpoints", Checkpoints.latest_checkpoint)
    save_params_to_files = handed_on("_original_files", OriginalFiles.save_params_to_files)
    load_dense_weights = handed_on("_original_files", OriginalFiles.load_dense_weights)
    load_sparse_weights = handed_on("_original_files", OriginalFiles.load_sparse_weights)
    load_dense_optimizer_states = handed_on(
        "_original_files", OriginalFiles.load_dense_optimizer_states
    )
    load_sparse_optimizer_states = handed_on(
        "_original_files", OriginalFiles.load_sparse_optimizer_states
    )

    def train(self, rows, step):
        """Set rows {(slot, key): number} on their owners and go to a step."""
        for (slot, key), number in rows.items():
            self.session.table(0).put(slot, key, np.full((2, DIM), number) + np.array([[0], [0.5]]))
        self.session.values |= {
            "step": step,
            "dense": np.full(5, step, np.float32),
            "position": place(10 * step),
        }


def all_rows(models):
    """(slot, key) -> vector and state, over all processes; no row is on two of them."""
    found = {}
    for model in models:
        assert not found.keys() & model.session.table(0).rows.keys()
        found |= {row: values.tolist() for row, values in model.session.table(0).rows.items()}
    return found


_fakes = weakref.WeakSet()


def _come_along():
    """Faults of saving are made in children that use their parent's models."""
    for fake in list(_fakes):
        fake._come_along()


os.register_at_fork(after_in_child=_come_along)
