# SPDX-License-Identifier: Apache-2.0
"""Generated Norm data: layout of the files, ranges and distribution of the keys, the signal."""

import errno
import os
import struct

import numpy as np
import pytest

from hugectr.base.errors import InvalidArgument
from hugectr.data.parquet import columns_of_metadata
from hugectr.data.parquet_files import parquet_files
from hugectr.data.regular_file import read_file_list
from hugectr.spec.enums import Check_t, DataReaderType_t, Distribution_t, PowerLaw_t
from hugectr.tools import DataGenerator, DataGeneratorParams, generated_files
from hugectr.tools.key_distribution import draw_keys

SIZES = [50, 7, 1000]


def params(folder, **changes):
    arguments = {
        "format": DataReaderType_t.Norm,
        "label_dim": 1,
        "dense_dim": 2,
        "num_slot": 3,
        "i64_input_key": False,
        "source": str(folder / "file_list.txt"),
        "eval_source": str(folder / "file_list_test.txt"),
        "slot_size_array": SIZES,
        "num_files": 3,
        "eval_num_files": 2,
        "num_samples_per_file": 500,
        "seed": 5,
    }
    return DataGeneratorParams(**(arguments | changes))


def read(path, framed, i64, nnz=(1, 1, 1), label_dim=1):
    """Labels, dense and keys[slot] (n, nnz) of a file; frames and checksums are verified."""
    data = path.read_bytes()
    at = 69 if framed else 64
    header = struct.unpack_from("<8q", data, 4 if framed else 0)
    assert header == (int(framed), 500, label_dim, 2, 3, 0, 0, 0)
    labels, dense, keys = [], [], [[] for _ in nnz]
    for _ in range(header[1]):
        if framed:
            (length,) = struct.unpack_from("<i", data, at)
            at += 4
            payload = data[at : at + length]
        start = at
        labels.append(struct.unpack_from(f"<{label_dim}f", data, at))
        dense.append(struct.unpack_from("<2f", data, at + 4 * label_dim))
        at += 4 * label_dim + 8
        for slot, count in enumerate(nnz):
            assert struct.unpack_from("<i", data, at) == (count,)
            keys[slot].append(struct.unpack_from(f"<{count}{'q' if i64 else 'I'}", data, at + 4))
            at += 4 + (8 if i64 else 4) * count
        if framed:
            assert at == start + length
            assert data[at] == sum(payload) % 256
            at += 1
    assert at == len(data)
    return np.array(labels), np.array(dense), [np.array(k) for k in keys]


@pytest.mark.parametrize("check", [Check_t.Sum, Check_t.Non])
@pytest.mark.parametrize("i64", [False, True])
@pytest.mark.parametrize("distribution", [Distribution_t.Uniform, Distribution_t.PowerLaw])
def test_files(tmp_path, check, i64, distribution):
    generated = params(
        tmp_path,
        check_type=check,
        i64_input_key=i64,
        dist_type=distribution,
        nnz_array=[1, 4, 2],
        seed=None,
    )
    DataGenerator(generated).generate(progress=False)
    for name, folder, count in [("file_list", "train", 3), ("file_list_test", "val", 2)]:
        lines = (tmp_path / f"{name}.txt").read_text().splitlines()
        assert lines == [
            str(count),
            *(str(tmp_path / folder / f"gen_{i}.data") for i in range(count)),
        ]
        for i in range(count):
            path = tmp_path / folder / f"gen_{i}.data"
            label, dense, keys = read(path, check == Check_t.Sum, i64, (1, 4, 2))
            for values in (label, dense):
                assert values.min() >= 0
                assert values.max() < 1
                assert values.std() > 0.25
            low = 0
            for size, slot in zip(SIZES, keys, strict=True):
                assert low <= slot.min()
                assert slot.max() < low + size
                low += size


def test_a_seed_gives_the_same_files_and_files_differ(tmp_path):
    contents = []
    for run in range(3):
        folder = tmp_path / str(run)
        DataGenerator(params(folder, seed=None if run == 2 else 11)).generate(progress=False)
        contents.append([p.read_bytes() for p in sorted(folder.glob("*/*.data"))])
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]
    assert len(set(contents[0])) == 5


@pytest.mark.parametrize("alpha", [0.7, 0.9, 1.1, 1.2, 1.3, 3.0])
def test_power_law_follows_its_distribution_function(alpha):
    size, count = 1000, 200_000
    keys = draw_keys(np.random.default_rng(), count, 40, size, Distribution_t.PowerLaw, alpha)
    assert keys.min() == 40
    assert keys.max() < 40 + size
    found = np.cumsum(np.bincount(keys - 40, minlength=size)) / count
    # key 40 + r - 1 is drawn when y rounds to r, so P(rank <= r) = P(y < r + 1/2)
    upper = np.minimum(np.arange(1, size + 1) + 0.5, size)
    expected = (upper ** (1 - alpha) - 1) / (float(size) ** (1 - alpha) - 1)
    assert np.abs(found - expected).max() < 2.5 / count**0.5


def test_named_power_laws(tmp_path):
    alphas = {"Long": 0.9, "Medium": 1.1, "Short": 1.3, "Specific": 2.5}
    for name, alpha in alphas.items():
        assert params(tmp_path, power_law_type=PowerLaw_t[name], alpha=2.5).alpha == alpha


def auc(label, score):
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    positive = label > 0
    p, n = positive.sum(), (~positive).sum()
    return (ranks[positive].sum() - p * (p + 1) / 2) / (p * n)


def test_planted_signal_can_be_learnt(tmp_path):
    generated = params(
        tmp_path, planted_signal=True, num_files=40, label_dim=2, slot_size_array=[50, 7, 20]
    )
    DataGenerator(generated).generate(progress=False)
    parts = [
        read(tmp_path / "train" / f"gen_{i}.data", True, False, label_dim=2) for i in range(40)
    ]
    label = np.concatenate([p[0] for p in parts])
    dense = np.concatenate([p[1] for p in parts])
    keys = [np.concatenate([p[2][s][:, 0] for p in parts]) for s in range(3)]
    assert set(np.unique(label)) == {0.0, 1.0}
    one_hot = np.zeros((len(label), 77 + 2))
    for slot in keys:
        one_hot[np.arange(len(label)), slot] = 1
    one_hot[:, 77:] = dense
    half = len(label) // 2
    for column in range(2):  # least squares on one half predicts the other
        y = label[:, column]
        weights = np.linalg.lstsq(one_hot[:half], y[:half], rcond=None)[0]
        assert auc(y[half:], one_hot[half:] @ weights) > 0.65


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"format": "Parquet"}, "format.*DataReaderType_t.Norm"),
        ({"format": "Norm"}, "format"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": 0}, "alpha"),
        ({"slot_size_array": [1, 2]}, "slot_size_array.*3 slots"),
        ({"slot_size_array": [1, 2, 0]}, "slot_size_array"),
        ({"slot_size_array": [2**31, 2**31, 1]}, "i64_input_key=True"),
        ({"nnz_array": [1]}, "nnz_array"),
        ({"num_files": 0}, "num_files"),
        ({"label_dim": 0}, "label_dim"),
        ({"check_type": "Sum"}, "check_type"),
        ({"source": ""}, "source"),
        ({"seed": -1}, "seed"),
    ],
)
def test_refused(tmp_path, changes, text):
    with pytest.raises(InvalidArgument, match=text):
        params(tmp_path, **changes)


def test_parquet_files_of_others_stay(tmp_path):
    folders = {"source": str(tmp_path / "a"), "eval_source": str(tmp_path / "b")}
    made = params(tmp_path, format=DataReaderType_t.Parquet, **folders)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "orders.parquet").write_bytes(b"precious")
    with pytest.raises(InvalidArgument, match=r"b/orders.parquet was not generated.*another"):
        DataGenerator(made).generate(progress=False)
    assert (tmp_path / "b" / "orders.parquet").read_bytes() == b"precious"
    assert not (tmp_path / "a").exists()
    (tmp_path / "b" / "orders.parquet").unlink()
    DataGenerator(made).generate(progress=False)
    (tmp_path / "a" / "gen_9.parquet").write_bytes(b"of an earlier, larger set")
    DataGenerator(made).generate(progress=False)
    assert len(list((tmp_path / "a").glob("*.parquet"))) == 3


@pytest.mark.parametrize("kind", ["Norm", "Raw", "Parquet"])
def test_a_disk_that_is_full_leaves_nothing_that_looks_whole(tmp_path, monkeypatch, kind):
    names = {"source": str(tmp_path / "a"), "eval_source": str(tmp_path / "b")}
    made = params(tmp_path, format=DataReaderType_t[kind], **names)
    DataGenerator(made).generate(progress=False)
    before = (tmp_path / "a").read_bytes() if kind == "Raw" else b""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(generated_files, f"_write_{kind.lower()}", full)
    with pytest.raises(OSError, match=r"No space left.*'/.*(gen_0|a\.part)"):
        DataGenerator(made).generate(progress=False, processes=1)
    if kind == "Raw":
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]
        assert (tmp_path / "a").read_bytes() == before
    elif kind == "Norm":
        assert not (tmp_path / "a").exists()
    else:
        assert not list((tmp_path / "a").glob("_metadata.json"))


@pytest.mark.parametrize("kind", [DataReaderType_t.Norm, DataReaderType_t.Parquet])
def test_lists_of_one_folder_do_not_share_files(tmp_path, kind):
    def named(name, folder=tmp_path, seed=1):
        sources = {"source": f"{folder}/{name}.txt", "eval_source": f"{folder}/{name}_val.txt"}
        return params(tmp_path, format=kind, seed=seed, **sources)

    DataGenerator(named("a")).generate(progress=False)
    (tmp_path / "notes").write_text("1 of them is of no list\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(InvalidArgument, match=r"a\.txt lists files in .*train, which '.*b\.txt'"):
        DataGenerator(named("b", seed=2)).generate(progress=False)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    DataGenerator(named("b", tmp_path / "b")).generate(progress=False)
    DataGenerator(named("a", seed=2)).generate(progress=False)  # its own are replaced
    (tmp_path / "a.txt").unlink()
    (tmp_path / "a_val.txt").unlink()
    DataGenerator(named("b")).generate(progress=False)


def test_lists_of_both_formats_may_lie_in_one_folder(tmp_path):
    for seed in (1, 2):
        for kind in (DataReaderType_t.Norm, DataReaderType_t.Parquet):
            sources = {
                "source": f"{tmp_path}/{kind.name}",
                "eval_source": f"{tmp_path}/v{kind.name}",
            }
            lists = {name: f"{path}.txt" for name, path in sources.items()}
            DataGenerator(params(tmp_path, format=kind, seed=seed, **lists)).generate(
                progress=False
            )
    assert {path.suffix for path in (tmp_path / "train").glob("gen_*")} == {".data", ".parquet"}


def test_parquet_by_file_lists_as_scripts_name_them(tmp_path):
    """Data in ``train`` and ``val`` beside the lists, as of Norm; the readers take the lists."""
    made = params(tmp_path, format=DataReaderType_t.Parquet, nnz_array=[2, 1, 1])
    DataGenerator(made).generate(progress=False, processes=1)
    for name, folder, files in (("file_list.txt", "train", 3), ("file_list_test.txt", "val", 2)):
        paths = [str(tmp_path / folder / f"gen_{i}.parquet") for i in range(files)]
        assert read_file_list(tmp_path / name) == paths
        assert {path.name for path in (tmp_path / folder).iterdir()} == {
            *(f"gen_{i}.parquet" for i in range(files)),
            "_metadata.json",
        }
        tops = {"a": 1, "b": 2}
        found = columns_of_metadata(str(tmp_path / name), tops)
        assert found == columns_of_metadata(str(tmp_path / folder), tops)
        assert parquet_files(str(tmp_path / name))[1] == paths
