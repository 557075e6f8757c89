# SPDX-License-Identifier: Apache-2.0
"""Predictions of live and loaded models: evaluation's numbers, from any data, threads, devices."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle.framed_model import BATCH, ROWS, VEC, build, evaluated, fitted, frame, some, trained

import hugectr
from hugectr.data import from_arrays


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A trained model, and the same loaded."""
    model = trained()
    return model, hugectr.load(model.save(tmp_path_factory.mktemp("run")))


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


@pytest.mark.parametrize("precision", ["", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["Distributed", "Localized"])
def test_evaluation_to_the_bit_at_every_batch_size(tmp_path, kind, precision):
    model = trained(kind=kind, precision=precision)
    loaded = hugectr.load(model.save(tmp_path))
    logits = evaluated(model).ravel()
    for one in (model, loaded):
        assert one.predict(frame(), BATCH, output="logit").tobytes() == logits.tobytes()
        wanted = one.predict(frame(), BATCH)
        np.testing.assert_allclose(wanted, sigmoid(logits), rtol=1e-6)
        for batch in (1, 7, 230, 1000):
            found = one.predict(frame(), batch)
            assert found.tobytes() == wanted.tobytes()
    assert loaded.predict(frame()).tobytes() == wanted.tobytes()


def test_tensors_by_name_and_what_is_none(pair):
    for model in pair:
        for name in ("active", "categories_vectors", "score"):
            found = model.predict(frame(), BATCH, output=name)
            wanted = evaluated(pair[0], name).reshape(found.shape)
            assert found.tobytes() == wanted.tobytes()
        assert model.predict(frame(), output="active").shape == (ROWS, 16)
        assert model.predict(frame(), output="categories_vectors").shape == (ROWS, 2, VEC)
        for wrong in ("hidden.weight", "nothing", "loss@partial"):
            with pytest.raises(hugectr.InvalidArgument, match=wrong.split("@")[0]):
                model.predict(frame(), output=wrong)


def test_rows_one_by_one_and_in_any_order(pair):
    wanted = pair[0].predict(frame(), BATCH)
    order = np.random.default_rng(3).permutation(ROWS)
    mixed = [model.predict(some(frame(), order), BATCH) for model in pair]
    assert mixed[0].tobytes() == mixed[1].tobytes()
    assert mixed[0].tobytes() == wanted[order].tobytes()
    for row in range(20):
        for model in pair:
            found = model.predict(some(frame(), [row], labels=False))
            assert found.tobytes() == wanted[row : row + 1].tobytes()


def test_single_rows_one_after_another_have_the_bits_of_a_batch():
    """Wide enough that waiting threads get a part of a row's products."""
    encoded = fitted().encode(frame())
    plain = from_arrays(encoded.label, encoded.dense, encoded.sparse)
    model = build(plain, fitted(), hidden=8192)
    model.train()
    wanted = model.predict(plain, BATCH)
    rows = [from_arrays(**one) for one in single_rows(encoded, 40)]
    for _ in range(3):
        found = [model.predict(one) for one in rows]
        assert np.concatenate(found).tobytes() == wanted[:40].tobytes()


def single_rows(encoded, count):
    """Arguments of from_arrays for each of the first rows."""
    for row in range(count):
        sparse = {}
        for name, (keys, offsets) in encoded.sparse.items():
            slots = (len(offsets) - 1) // encoded.samples
            own = np.asarray(offsets[row * slots : (row + 1) * slots + 1]).astype(np.int64)
            sparse[name] = (keys[own[0] : own[-1]], own - own[0])
        yield {
            "label": encoded.label[row : row + 1],
            "dense": encoded.dense[row : row + 1],
            "sparse": sparse,
        }


def test_the_bits_of_a_row_do_not_depend_on_the_other_rows_of_its_batch(pair):
    wanted = pair[0].predict(frame(), BATCH)
    own, other = frame(), frame(seed=77)
    mixed = {
        name: [other[name][i] if i % 3 else value for i, value in enumerate(column)]
        for name, column in own.items()
    }
    for model in pair:
        assert model.predict(mixed, BATCH)[::3].tobytes() == wanted[::3].tobytes()
        short = some(own, range(BATCH + 5))  # the last batch is filled up instead
        assert model.predict(short, BATCH).tobytes() == wanted[: BATCH + 5].tobytes()


def test_evaluation_of_another_order_is_prediction_of_that_order():
    order = np.random.default_rng(5).permutation(ROWS)
    schema = fitted()
    data = schema.encode(some(frame(), order))
    model = build(schema.encode(frame()), schema, eval_source=data)
    for _ in range(4):
        model.train()
    logits = evaluated(model).ravel()
    found = model.predict(some(frame(), order), BATCH, output="logit")
    assert found.tobytes() == logits.tobytes()


def test_data_of_all_kinds_and_none(pair, tmp_path):
    data = frame()
    wanted = pair[1].predict(data)
    pq.write_table(pa.table(data), tmp_path / "rows.parquet")
    table = pa.table(data)
    kinds = (table, table.to_batches()[0], table.to_pylist(), tmp_path / "rows.parquet")
    for model in pair:
        bound = 0 if model is pair[1] else 1e-6
        for one in (*kinds, model.schema.encode(data), model.schema.encode(data, labels=False)):
            np.testing.assert_allclose(model.predict(one), wanted, rtol=0, atol=bound)
        for empty in (some(data, []), table.slice(0, 0)):
            assert model.predict(empty).shape == (0,)


def test_unseen_keys_read_zeros_and_nothing_is_inserted(pair):
    data = some(frame(), range(10))
    encoded = fitted().encode(data)
    sparse = {name: (keys + 12345, offsets) for name, (keys, offsets) in encoded.sparse.items()}
    strange = hugectr.data.MemoryDataset(encoded.label, encoded.dense, sparse)
    for model in pair:
        rows = [table.stats()["rows"] for table in model.session.tables()]
        assert not model.predict(strange, output="categories_vectors").any()
        assert [table.stats()["rows"] for table in model.session.tables()] == rows


def test_eight_threads_at_once(pair):
    model = pair[1]
    rng = np.random.default_rng(6)
    parts = [some(frame(), rng.integers(0, ROWS, n)) for n in rng.integers(1, 60, 8 * 15)]
    wanted = [model.predict(part, BATCH) for part in parts]
    wrong = []

    def work(number):
        for part in range(15 * number, 15 * (number + 1)):
            for batch in (BATCH, None):
                found = model.predict(parts[part], batch)
                if found.tobytes() != wanted[part].tobytes():
                    wrong.append((part, batch))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_training_with_predictions_between_is_training_without(devices):
    schema = fitted()
    data = schema.encode(frame())
    models = [build(data, schema, devices=devices) for _ in range(2)]
    other = frame(seed=9, rows=70)
    for _ in range(8):
        for model in models:
            assert model.train()
        models[0].predict(other)
        models[0].predict(other, 24, output="active")
        assert models[0].get_current_loss() == models[1].get_current_loss()
    a, b = models
    assert evaluated(a).tobytes() == evaluated(b).tobytes()
    assert a.session.reader.position() == b.session.reader.position()
    for one, two in zip(a.session.tables(), b.session.tables(), strict=True):
        rows = [t.read(t.order(0), 0, len(t.order(0)), True) for t in (one, two)]
        assert rows[0]["keys"].tobytes() == rows[1]["keys"].tobytes()
        assert rows[0]["vectors"].tobytes() == rows[1]["vectors"].tobytes()
        assert all(map(np.array_equal, rows[0]["states"], rows[1]["states"]))
    np.testing.assert_array_equal(
        a.session.network.dense_optimizer_states(), b.session.network.dense_optimizer_states()
    )


def test_predictions_do_not_touch_metrics_and_tensors_of_an_evaluation(pair):
    model = pair[0]
    model.restart_evaluation_data()
    for _ in range(2):
        assert model.eval()
    seen = model.check_out_tensor("score", hugectr.Tensor_t.Evaluate)
    model.predict(frame(seed=8))
    assert model.check_out_tensor("score", hugectr.Tensor_t.Evaluate).tobytes() == seen.tobytes()
    metrics = model.get_eval_metrics()
    model.restart_evaluation_data()
    for _ in range(2):
        assert model.eval()
    assert model.get_eval_metrics() == metrics


def test_metrics_of_a_loaded_model_are_those_of_an_evaluation(tmp_path):
    model = trained(repeat=False, steps=4)
    loaded = hugectr.load(model.save(tmp_path))
    wanted = model.evaluate()
    assert loaded.evaluate(frame()) == {name: wanted[name] for name in loaded.evaluate(frame())}
    assert list(loaded.evaluate(frame(), metrics=["LogLoss", "AUC"])) == ["LogLoss", "AUC"]
    for name, value in loaded.evaluate(frame(), 17).items():
        assert value == pytest.approx(wanted[name], rel=1e-6)
    with pytest.raises(hugectr.InvalidArgument, match=r"'AUK'.*did you mean 'AUC'"):
        loaded.evaluate(frame(), metrics=["AUK"])
    with pytest.raises(hugectr.InvalidArgument, match="no rows"):
        loaded.evaluate(some(frame(), []))


def test_without_evaluation_data(tmp_path):
    model = trained(eval_source="")
    with_it = trained()
    logits = evaluated(with_it).ravel()
    assert model.predict(frame(), output="logit").tobytes() == logits.tobytes()


def test_arrays_without_a_schema(tmp_path):
    schema = fitted()
    encoded = schema.encode(frame())
    plain = from_arrays(encoded.label, encoded.dense, encoded.sparse)
    model = build(plain, schema)
    model.train()
    assert model.schema is None
    loaded = hugectr.load(model.save(tmp_path))
    assert loaded.schema is None
    arrays = {"dense": encoded.dense, "label": encoded.label, **encoded.sparse}
    for one in (model, loaded):
        wanted = one.predict(plain, BATCH)
        assert one.predict(arrays, BATCH).tobytes() == wanted.tobytes()
        with pytest.raises(hugectr.InvalidArgument, match=r"predict: arrays.*'tags'"):
            one.predict({"dense": encoded.dense, "categories": encoded.sparse["categories"]})
        with pytest.raises(hugectr.InvalidArgument, match="trained without a schema"):
            one.predict([1, 2])
        with pytest.raises(hugectr.InvalidArgument, match="dense columns"):
            one.predict(arrays | {"dense": encoded.dense[:, :1]})
    assert loaded.evaluate(arrays).keys() == {"AUC", "LogLoss", "AverageLoss"}


def test_values_that_nothing_can_be_computed_with_are_named(pair):
    encoded = fitted().encode(frame())
    encoded.dense[70, 0] = np.nan
    for model in pair:
        with pytest.raises(hugectr.DataError, match="sample 70: dense value 0 is nan"):
            model.predict(encoded)
        with pytest.raises(hugectr.DataError, match="'shop'"):
            model.predict({name: column for name, column in frame().items() if name != "shop"})
        assert model.predict(frame()).shape == (ROWS,)


def test_a_batch_size_that_devices_can_not_take():
    model = trained(devices=2, steps=1)
    with pytest.raises(hugectr.InvalidArgument, match="multiple of the number of devices"):
        model.predict(frame(), 3)
    with pytest.raises(hugectr.InvalidArgument, match="at most 48"):
        model.predict(frame(), 96)
    assert model.predict(frame(), 24).shape == (ROWS,)


def test_an_evaluation_of_one_class_says_why_auc_is_nan(tmp_path, capsys):
    model = trained()
    loaded = hugectr.load(model.save(tmp_path))
    one_class = {**frame(), "clicked": [1] * ROWS}
    capsys.readouterr()
    loaded.evaluate(frame())
    assert "AUC" not in capsys.readouterr().err
    found = loaded.evaluate(one_class)
    assert np.isnan(found["AUC"])
    said = capsys.readouterr().err
    assert said.count(f"evaluate: AUC is nan: all {ROWS} rows have 'label' 1, and it needs") == 1
    loaded.evaluate(one_class, metrics=["LogLoss"])
    assert "AUC" not in capsys.readouterr().err


def test_evaluation_data_of_one_class_is_told_of_once(capsys):
    schema = fitted()
    one_class = schema.encode({**frame(), "clicked": [0] * ROWS})
    model = build(schema.encode(frame()), schema, eval_source=one_class)
    capsys.readouterr()
    for told in (1, 0):
        assert np.isnan(model.evaluate()["AUC"])
        said = capsys.readouterr().err
        assert said.count("evaluation: AUC is nan: it needs samples of both classes") == told
