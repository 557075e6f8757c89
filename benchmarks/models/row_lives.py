# SPDX-License-Identifier: Apache-2.0
"""What forgetting rows costs, in AUC where 30 % of the keys change a day, and in time.

row_lives.py [--days N] [--rows N] [--pause ROWS]: prints, for no eviction and each kind of it,
rows, AUC of the days that are to come (mean of the second half), ms a step, and the share of the
time that steps behind which rows go take longer than the others. With --pause only how long an
eviction of a tenth of so many rows takes.
"""

import argparse
import time

import numpy as np

import hugectr
from hugectr.data import from_arrays

BATCH, STEPS, FIELDS, D = 2048, 64, 4, 16
CHANGE = 0.3


def day_of(rng, number, keys):
    """Samples of a day: a window over the keys of each field, moved by 30 % a day; and the logits
    that clicks are drawn by."""
    n = BATCH * STEPS
    hidden = np.random.default_rng(3).normal(size=4 * keys)
    first = int(number * CHANGE * keys)
    own = first + np.minimum(keys - 1, (keys * rng.random((n, FIELDS)) ** 2).astype(np.int64))
    logit = hidden[(own * np.array([1, 7, 13, 29])) % (4 * keys)].sum(1)
    click = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return from_arrays(click, None, {"keys": own}), click, own


def build(data, life):
    solver = hugectr.CreateSolver(
        seed=1, batchsize=BATCH, batchsize_eval=BATCH, lr=0.02, i64_input_key=True, device="cpu"
    )
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data)
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, adam)
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, FIELDS)
    model.add(hugectr.Input(1, "label", 0, "dense", [sparse]))
    kind = hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 0, D, "sum", "vectors", "keys", **life))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(t.Reshape, ["vectors"], ["flat"], leading_dim=FIELDS * D))
    model.add(layer(t.InnerProduct, ["flat"], ["hidden"], num_output=64))
    model.add(layer(t.ReLU, ["hidden"], ["active"]))
    model.add(layer(t.InnerProduct, ["active"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    model.start_data_reading()
    return model


def without_first_looks(owns):
    """The same stream, where the first batch that has a key teaches nothing of it: it has keys
    there that never come again. What ``admit_after=2`` means, by other means."""
    changed, batch = owns.copy(), np.arange(len(owns)) // BATCH
    for field in range(FIELDS):
        _, first, which = np.unique(owns[:, field], return_index=True, return_inverse=True)
        unknown = np.flatnonzero(batch == batch[first][which])
        changed[unknown, field] = 10**9 * (field + 1) + unknown
    return changed


def auc(label, score):
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    positive = label.sum()
    area = ranks[label > 0].sum() - positive * (positive + 1) / 2
    return area / (positive * (len(label) - positive))


def pause_of(rows):
    """Milliseconds of an eviction: of the step that it is behind."""
    rng = np.random.default_rng(2)
    data, _, _ = day_of(rng, 0, 1000)
    for evict in ("lru", "lfu"):
        life = {"evict": evict, "max_rows": rows, "evict_every": 8}
        life |= {"decay": 0.9} if evict == "lfu" else {}
        model = build(data, life)
        table, times = model.session.table(0), []
        for turn in range(4):
            for _ in range(7):
                assert model.train()
            come = rows if turn == 0 else rows // 8
            scores = rng.integers(1, 99, come) << 40 | rng.integers(0, 7, come)
            bag = {
                "keys": np.arange(come) + (turn + 1) * 10**9,
                "slot_ids": np.zeros(come, np.uint64),
                "vectors": np.zeros((come, D), np.float32),
                "scores": scores.astype(np.uint64) | np.uint64(1 << 63),
            }
            table.load(bag)
            model.get_current_loss()
            before = model.table_stats()[0]["evicted"]
            begin = time.perf_counter()
            assert model.train()
            model.get_current_loss()
            times.append(time.perf_counter() - begin)
        gone = model.table_stats()[0]["evicted"] - before
        pause = 1e3 * np.median(times[1:])
        print(f"{evict}: {pause:.1f} ms with {rows:,} rows, of which {gone:,} go")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000, help="keys of a field on a day")
    parser.add_argument("--pause", type=int, default=0, metavar="ROWS")
    arguments = parser.parse_args()
    if arguments.pause:
        pause_of(arguments.pause)
        return
    days, keys = arguments.days, arguments.rows
    rng = np.random.default_rng(11)
    stream = [day_of(rng, number, keys) for number in range(days + 1)]
    # A stream in memory is one source: the days one after the other.
    clicks = np.concatenate([click for _, click, _ in stream[:-1]])
    owns = np.concatenate([own for _, _, own in stream[:-1]])
    every, room = STEPS // 2, 2 * FIELDS * keys
    lives = {
        "none": {},
        "ttl of 2 days": {"evict": "ttl", "ttl": 2 * STEPS, "evict_every": every},
        "lru": {"evict": "lru", "max_rows": room, "evict_every": every},
        "lfu": {"evict": "lfu", "max_rows": room, "decay": 0.7, "evict_every": every},
        "lru, 2 uses": {"evict": "lru", "max_rows": room, "evict_every": every, "admit_after": 2},
        "lru, seldom": {"evict": "lru", "max_rows": room, "evict_every": 8 * every},
        "the same, 2 uses": {
            "evict": "lru",
            "max_rows": room,
            "evict_every": 8 * every,
            "admit_after": 2,
        },
        "no first looks": {},
    }
    for name, life in lives.items():
        keys_of = without_first_looks(owns) if name == "no first looks" else owns
        model = build(from_arrays(clicks, None, {"keys": keys_of}), life)
        areas, plain, evicting = [], [], []
        for number in range(days):
            for _ in range(STEPS):
                begin = time.perf_counter()
                assert model.train()
                model.get_current_loss()
                seconds = time.perf_counter() - begin
                evicts = life and model.session.step() % life["evict_every"] == 0
                (evicting if evicts else plain).append(seconds)
            data, click, _ = stream[number + 1]
            if number >= days // 2:
                areas.append(auc(click, np.asarray(model.predict(data)).reshape(-1)))
        stats = model.table_stats()[0]
        whole = sum(plain) + sum(evicting)
        share = sum(evicting) - len(evicting) * float(np.median(plain)) if evicting else 0.0
        print(
            f"{name:16s} {stats['rows']:8,} rows, AUC {np.mean(areas):.4f}, "
            f"{1e3 * np.median(plain):.2f} ms a step, {100 * share / whole:.2f} % of the time, "
            f"{stats['evicted']:,} evicted, {stats['refused']:,} refused",
            flush=True,
        )


if __name__ == "__main__":
    main()
