# SPDX-License-Identifier: Apache-2.0
"""Parquet data in a store, as v4's DataSourceParams names it; other formats are on this machine."""

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr.data import DataSourceParams, FileSystemType_t, parquet_files, write_metadata

NORM, PARQUET = hugectr.DataReaderType_t.Norm, hugectr.DataReaderType_t.Parquet


@pytest.mark.parametrize(
    ("params", "path", "url"),
    [
        (DataSourceParams(), "/data/train", "/data/train"),
        (DataSourceParams(FileSystemType_t.Local, "node", 9), "train", "train"),
        (DataSourceParams(FileSystemType_t.HDFS, "node", 8020), "/a/b", "hdfs://node:8020/a/b"),
        (DataSourceParams(FileSystemType_t.HDFS), "a", "hdfs://localhost:9000/a"),
        (DataSourceParams(FileSystemType_t.HDFS), "hdfs://other/a", "hdfs://other/a"),
        (DataSourceParams(FileSystemType_t.S3, "x", 9000), "bucket/a", "s3://bucket/a"),
        (DataSourceParams(FileSystemType_t.S3), "s3://bucket/a", "s3://bucket/a"),
        (DataSourceParams(FileSystemType_t.GCS), "bucket/a", "gs://bucket/a"),
        (DataSourceParams(FileSystemType_t.GCS), "", ""),
    ],
)
def test_paths_in_a_store(params, path, url):
    assert params.located(path) == url
    reader = hugectr.DataReaderParams(PARQUET, "x", eval_source=path, data_source_params=params)
    assert reader.eval_source == url
    assert reader.source == params.located("x")


def test_both_modules_have_it():
    assert hugectr.DataSourceParams is DataSourceParams
    assert hugectr.FileSystemType_t is FileSystemType_t


def test_several_sources_in_a_store():
    reader = hugectr.DataReaderParams(
        PARQUET,
        ["b/1", "s3://b/2"],
        keyset=["1.keys", "2.keys"],
        data_source_params=DataSourceParams(FileSystemType_t.S3),
    )
    assert reader.sources == ("s3://b/1", "s3://b/2")
    assert reader.keysets == ("1.keys", "2.keys")


@pytest.mark.parametrize("kind", [NORM, hugectr.DataReaderType_t.Raw])
def test_other_formats_are_on_this_machine(kind):
    with pytest.raises(hugectr.InvalidArgument, match=rf"{kind.name} files: copy them"):
        hugectr.DataReaderParams(
            kind, "a", data_source_params=DataSourceParams(FileSystemType_t.HDFS)
        )
    hugectr.DataReaderParams(kind, "a", data_source_params=DataSourceParams())
    with pytest.raises(hugectr.InvalidArgument, match=r"data_source_params: found 's3'"):
        hugectr.DataReaderParams(kind, "a", data_source_params="s3")


def test_hdfs_without_hadoop_says_so(monkeypatch):
    def no_library(uri):
        raise OSError("Unable to load libjvm")

    monkeypatch.setattr(parquet_files, "_from_uri", no_library)
    with pytest.raises(hugectr.DataError, match=r"hdfs://node:9/a.* can not be opened: .*libjvm"):
        parquet_files.parquet_files("hdfs://node:9/a")


def test_a_model_trains_on_a_store(tmp_path, monkeypatch):
    """The store is a folder here; what pyarrow makes of a URL is its own business."""
    asked = []

    def store(uri):
        asked.append(uri)
        assert uri.startswith("s3://")
        return pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), uri[5:]

    rng = np.random.default_rng(3)
    for name in ("train", "val", "next"):
        folder = tmp_path / "bucket" / name
        folder.mkdir(parents=True)
        columns = {"y": rng.integers(0, 2, 64), "x": rng.random(64)}
        table = {key: pa.array(value.astype(np.float32)) for key, value in columns.items()}
        table |= {f"c{k}": pa.array(rng.integers(0, 9, 64)) for k in range(3)}
        pq.write_table(pa.table(table), folder / "0.parquet")
        write_metadata(folder, ["y"], ["x"], ["c0", "c1", "c2"])
    monkeypatch.setattr(parquet_files, "_from_uri", store)
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=32, batchsize_eval=32, max_eval_batches=2, i64_input_key=True, device="cpu"
        ),
        hugectr.DataReaderParams(
            PARQUET,
            ["/bucket/train"],
            eval_source="bucket/val",
            data_source_params=DataSourceParams(FileSystemType_t.S3),
        ),
        hugectr.CreateOptimizer(),
    )
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, 3)
    model.add(hugectr.Input(1, "label", 1, "dense", [sparse]))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 1, 4, "sum", "table", "keys"))
    model.add(hugectr.DenseLayer(hugectr.Layer_t.Reshape, ["table"], ["flat"], leading_dim=12))
    model.add(hugectr.DenseLayer(hugectr.Layer_t.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(
        hugectr.DenseLayer(hugectr.Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"])
    )
    model.compile()
    model.fit(max_iter=4, display=2, eval_interval=2, snapshot=0)
    assert "AUC" in model.evaluate()
    model.set_source("bucket/next", "bucket/val")
    model.train()
    for name in ("train", "val", "next"):
        assert any(uri.endswith(f"s3://bucket/{name}") for uri in asked), name
