# SPDX-License-Identifier: Apache-2.0
"""Criteo conversion: made lines in, samples out, checked against a reading of the lines by hand."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from oracle.small_net import losses

import hugectr
from hugectr.command.cli import main
from hugectr.data.criteo import DENSE, SLOTS, convert
from hugectr.data.criteo_lines import parse
from hugectr.spec.enums import Check_t, DataReaderType_t


def make_lines(rng, n):
    """Lines with missing fields, negative numbers, and categories of all lengths."""
    lines = []
    for _ in range(n):
        fields = [str(rng.integers(0, 2))]
        for _ in range(13):
            fields.append("" if rng.random() < 0.2 else str(rng.integers(-3, 1000)))
        for c in range(26):
            value = int(rng.zipf(1.5)) * 2654435761 * (c + 1) % 2**32
            form = "08x" if c else "x"
            fields.append("" if rng.random() < 0.1 else format(value, form))
        lines.append("\t".join(fields))
    return lines


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    rng = np.random.default_rng(20)
    folder = tmp_path_factory.mktemp("criteo")
    paths = []
    for name, n in (("day_0", 700), ("day_1", 301), ("day_2", 200)):
        text = "\n".join(make_lines(rng, n)) + ("\n" if name != "day_1" else "")
        (folder / name).write_text(text)
        paths.append(str(folder / name))
    return paths


def lines_of(path):
    return Path(path).read_text().splitlines()


def by_hand(paths, train_paths, min_count):
    """Label, dense and keys as the documentation says, line by line."""
    counts = [Counter() for _ in range(26)]
    for path in train_paths:
        for line in lines_of(path):
            for c, text in enumerate(line.rstrip("\n").split("\t")[14:]):
                if text:
                    counts[c][int(text, 16)] += 1
    codes = []
    for counter in counts:
        known = sorted((-n, v) for v, n in counter.items() if n >= min_count)
        codes.append({value: i + 1 for i, (_, value) in enumerate(known)})
    rows = []
    for path in paths:
        for line in lines_of(path):
            fields = line.rstrip("\n").split("\t")
            dense = [np.log1p(max(int(f or 0), 0)) for f in fields[1:14]]
            keys = [codes[c].get(int(f, 16), 0) if f else 0 for c, f in enumerate(fields[14:])]
            rows.append((float(fields[0]), dense, keys))
    label, dense, keys = zip(*rows, strict=True)
    return (
        np.array(label, np.float32),
        np.array(dense).astype(np.float32),
        np.array(keys),
        [len(c) + 1 for c in codes],
    )


@pytest.mark.parametrize("part_bytes", [1 << 26, 9001])
@pytest.mark.parametrize("processes", [1, 2])
def test_parquet_and_raw_are_the_lines(files, tmp_path, part_bytes, processes):
    settings = {"evaluation": files[2:], "min_count": 3, "progress": False}
    settings |= {"part_bytes": part_bytes, "processes": processes}
    wanted = {
        "train": by_hand(files[:2], files[:2], 3),
        "eval": by_hand(files[2:], files[:2], 3),
    }
    rows = convert(files[:2], tmp_path / "p", format="parquet", **settings)
    raw = convert(files[:2], tmp_path / "r", format="raw", **settings)
    assert (rows.rows, rows.eval_rows, rows.dropped) == (1001, 200, 0)
    for which, source in (("train", rows.source), ("eval", rows.eval_source)):
        label, dense, keys, sizes = wanted[which]
        table = pq.read_table(source)
        np.testing.assert_array_equal(table["label"], label)
        np.testing.assert_array_equal(np.stack([table[n] for n in DENSE], axis=1), dense)
        np.testing.assert_array_equal(np.stack([table[n] for n in SLOTS], axis=1), keys)
        assert rows.slot_size_array == sizes
        path = {"train": raw.source, "eval": raw.eval_source}[which]
        words = np.fromfile(path, np.uint32).reshape(-1, 40)
        np.testing.assert_array_equal(words[:, 0].view(np.float32), label)
        np.testing.assert_array_equal(np.ascontiguousarray(words[:, 1:14]).view(np.float32), dense)
        np.testing.assert_array_equal(words[:, 14:], keys)
    report = json.loads((tmp_path / "p" / "slot_sizes.json").read_text())
    assert report["slot_size_array"] == wanted["train"][3]
    assert not (tmp_path / "p" / ".progress").exists()


def model_of(kind, converted, norm=False):
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=100,
            batchsize_eval=100,
            max_eval_batches=2,
            seed=1,
            device="cpu",
            i64_input_key=True,
        ),
        hugectr.DataReaderParams(
            kind,
            converted.source,
            eval_source=converted.eval_source,
            check_type=Check_t.Sum,
            float_label_dense=True,
            slot_size_array=[] if norm else converted.slot_size_array,
            add_slot_offsets=True,
        ),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, 26)
    model.add(hugectr.Input(1, "label", 13, "dense", [sparse]))
    localized = hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(localized, 1, 4, "sum", "table", "keys"))
    model.add(layer(t.Reshape, ["table"], ["flat"], leading_dim=104))
    model.add(layer(t.Concat, ["flat", "dense"], ["all"]))
    model.add(layer(t.InnerProduct, ["all"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def test_every_format_trains_the_same(files, tmp_path):
    curves = []
    for name, kind in (("parquet", "Parquet"), ("raw", "Raw"), ("norm", "Norm")):
        made = convert(
            files[:2],
            tmp_path / name,
            evaluation=files[2:],
            format=name,
            progress=False,
            processes=1,
            part_bytes=50_000,
        )
        model = model_of(DataReaderType_t[kind], made, norm=name == "norm")
        curves.append((losses(model, 15), model.evaluate()))
    assert curves[0] == curves[1] == curves[2]


def test_hashing_stays_inside_its_size_and_keeps_missing_apart(files, tmp_path):
    made = convert(files[:1], tmp_path, hash_size=50, progress=False, processes=1)
    assert made.slot_size_array == [50] * 26
    table = pq.read_table(made.source)
    for c, name in enumerate(SLOTS):
        keys = np.asarray(table[name])
        missing = [line.rstrip("\n").split("\t")[14 + c] == "" for line in lines_of(files[0])]
        np.testing.assert_array_equal(keys == 0, missing)
        assert keys.max() < 50


def test_an_interrupted_conversion_goes_on(files, tmp_path, monkeypatch):
    from hugectr.data import criteo

    settings = {"progress": False, "processes": 1, "part_bytes": 20_000, "min_count": 2}
    whole = convert(files[:2], tmp_path / "whole", format="raw", **settings)
    written = criteo._write
    calls = []

    def stop_in_the_middle(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        written(*arguments)

    monkeypatch.setattr(criteo, "_write", stop_in_the_middle)
    with pytest.raises(KeyboardInterrupt):
        convert(files[:2], tmp_path / "cut", format="raw", **settings)
    with pytest.raises(hugectr.InvalidArgument, match=r"unfinished conversion.*min_count"):
        convert(files[:2], tmp_path / "cut", format="raw", **(settings | {"min_count": 5}))
    before = len(calls)
    cut = convert(files[:2], tmp_path / "cut", format="raw", **settings)
    assert len(calls) - before < before + len(calls)
    assert Path(cut.source).read_bytes() == Path(whole.source).read_bytes()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda line: line + "\t1", ["41 fields", "40"]),
        (lambda line: line.replace("\t", " ", 1), ["39 fields", "40"]),
        (lambda line: "2" + line[1:], ["label"]),
        (lambda line: "x" + line[1:], ["label"]),
        (lambda line: line[: line.rindex("\t")] + "\t12g4", ["hexadecimal"]),
        (lambda line: line[: line.rindex("\t")] + "\t123456789", ["hexadecimal"]),
        (lambda line: line[:2] + "1.5" + line[line.index("\t", 2) :], ["number"]),
    ],
)
def test_a_damaged_line_is_named_or_left_out(rng, tmp_path, damage, words):
    lines = make_lines(rng, 50)
    lines[37] = damage(lines[37])
    path = tmp_path / "day"
    path.write_text("\n".join(lines) + "\n")
    offset = len("\n".join(lines[:37]).encode()) + 1
    with pytest.raises(hugectr.DataError) as caught:
        convert([str(path)], tmp_path / "out", progress=False, processes=1)
    for word in [*words, str(path), f"byte {offset}"]:
        assert word in str(caught.value)
    made = convert([str(path)], tmp_path / "skip", skip_bad=True, progress=False, processes=1)
    assert (made.rows, made.dropped) == (49, 1)


def test_parse_of_nothing_and_of_windows_line_ends(rng):
    lines = make_lines(rng, 20)
    unix, _ = parse(("\n".join(lines) + "\n").encode(), "x", 0, False)
    windows, _ = parse(("\r\n".join(lines) + "\r\n").encode(), "x", 0, False)
    np.testing.assert_array_equal(unix.categories, windows.categories)
    np.testing.assert_array_equal(unix.integers, windows.integers)


def test_command(files, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["data", "criteo", files[0], files[1], "--eval", files[2], "--out", str(out)]
    assert main([*arguments, "--format", "raw", "--min-count", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 1001
    assert (out / "train.bin").stat().st_size == 1001 * 160
    assert main(["data", "criteo", "nowhere", "--out", str(out)]) == 1
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(("format", "name"), [("raw", "bin"), ("norm", "txt"), ("parquet", "")])
def test_an_evaluation_set_of_other_keys_does_not_stay(files, tmp_path, format, name):
    made = convert(files[:1], tmp_path, evaluation=files[2:], format=format, processes=1)
    assert made.eval_rows == 200
    again = convert(files[1:2], tmp_path, format=format, processes=1)
    assert again.eval_source == ""
    left = [tmp_path / f"eval.{name}"] if name else (tmp_path / "eval").glob("*.parquet")
    assert not [path for path in left if path.exists()]
