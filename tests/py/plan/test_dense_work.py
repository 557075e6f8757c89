# SPDX-License-Identifier: Apache-2.0
"""What the ops of a step ask of a device, kernel by kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hugectr
from hugectr.data import from_arrays
from hugectr.plan.dense_work import DenseTime, KernelWork, OpWork, dense_time
from hugectr.plan.machine import read_machine

BATCH, SLOTS, D, WIDTH, RANK = 128, 6, 16, 40, 8
H200 = read_machine("h200")


@pytest.fixture(scope="module")
def work() -> dict[str, list[OpWork]]:
    """Of a model with two products, a low-rank cross and products of small matrices."""
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 50, BATCH * SLOTS)
    offsets = np.arange(BATCH * SLOTS + 1, dtype=np.uint64)
    data = from_arrays(
        rng.random((BATCH, 1), np.float32),
        rng.random((BATCH, 4), np.float32),
        {"keys": (keys, offsets)},
    )
    solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH, lr=0.1, device="cpu", i64_input_key=True
    )
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data)
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad)
    model = hugectr.Model(solver, reader, optimizer)
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)
    model.add(hugectr.Input(1, "label", 4, "dense", [sparse]))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 1, D, "sum", "table", "keys"))

    def add(kind: str, bottoms: list[str], top: str, **settings: object) -> None:
        model.add(hugectr.DenseLayer(hugectr.Layer_t[kind], bottoms, [top], **settings))

    add("Reshape", ["table"], "flat", leading_dim=SLOTS * D)
    add("MultiCross", ["flat"], "cross", num_layers=2, projection_dim=RANK)
    add("InnerProduct", ["cross"], "fc", num_output=WIDTH)
    add("ReLU", ["fc"], "relu")
    add("InnerProduct", ["relu"], "score", num_output=1)
    add("InnerProduct", ["relu"], "narrow", num_output=D)
    add("Reshape", ["narrow"], "row", leading_dim=D, time_step=1)
    add("Reshape", ["narrow"], "column", leading_dim=1, time_step=D)
    add("MatrixMultiply", ["column", "row"], "small")
    add("Reshape", ["small"], "squares", leading_dim=D * D)
    add("InnerProduct", ["squares"], "value", num_output=1)
    add("Add", ["value", "score"], "logit")
    add("BinaryCrossEntropyLoss", ["logit", "label"], "loss")
    found: dict[str, list[OpWork]] = {}
    for one in model.plan().work:
        found.setdefault(f"{one.op} {one.layer}", []).append(one)
    return found


def test_products_of_a_layer(work):
    n = SLOTS * D
    product = 2.0 * BATCH * n * WIDTH
    (forward,) = work["linear_fwd fc"]
    assert [kernel.flops for kernel in forward.kernels] == [product]
    assert forward.bytes == 4 * (BATCH * n + n * WIDTH + BATCH * WIDTH)
    (backward,) = work["linear_bwd fc"]
    assert backward.flops == pytest.approx(2 * product)
    assert sum(kernel.flops > 0 for kernel in backward.kernels) == 2, "of inputs and of weights"


def test_a_product_with_one_output_is_a_pass(work):
    (forward,) = work["linear_fwd value"]
    assert forward.flops == 0
    assert forward.bytes == 4 * (BATCH * D * D + D * D + BATCH)


def test_a_warp_takes_a_row_of_one_output(work):
    """However few columns it has: 512 bytes."""
    (forward,) = work["linear_fwd score"]
    assert forward.bytes == BATCH * 512 + 4 * (WIDTH + BATCH)


def test_low_rank_crosses_are_products_and_passes(work):
    n = SLOTS * D
    product = pytest.approx(2.0 * BATCH * n * RANK)
    for one in work["projected_cross_fwd cross"]:
        first, second, rows = one.kernels
        assert (first.flops, second.flops, rows.flops) == (product, product, 0.0)
        assert rows.bytes == 4 * 4 * BATCH * n
    assert len(work["projected_cross_bwd cross"]) == 2
    for one in work["projected_cross_bwd cross"]:
        assert one.flops == pytest.approx(4 * 2.0 * BATCH * n * RANK)
        assert one.kernels[0].flops == 0


def test_small_matrices_fill_whole_tiles(work):
    forward, *backward = work["batched_gemm small"]
    (kernel,) = forward.kernels
    assert kernel.flops == 2.0 * BATCH * D * D
    assert kernel.tile_flops == 2.0 * BATCH * 32**3
    assert [one.kernels[0].tile_flops for one in backward] == [2.0 * BATCH * 32**3] * 2


def test_what_is_updated_is_read_and_written(work):
    ((update,),) = (work["dense_update update_params"],)
    n = SLOTS * D
    weights = 2 * (2 * n * RANK + n) + n * WIDTH + WIDTH + WIDTH * D + D + D * D + 1 + WIDTH + 1
    # Weights and states twice, gradients once; and few numbers of the step.
    assert update.bytes == pytest.approx(20 * weights, rel=0.1)


def test_a_kernel_takes_the_longer_of_bytes_and_product():
    launch = H200.launch
    passing = KernelWork(36 * 10**8)
    assert passing.seconds(H200, "16") == pytest.approx(launch + 3.6e9 / H200.passes)
    few, many = KernelWork(10**9, 1e9), KernelWork(10**6, 1e12)
    assert few.seconds(H200, "16") == pytest.approx(launch + 1e9 / H200.operands)
    assert many.seconds(H200, "16") == pytest.approx(launch + 1e12 / H200.products("16"))
    assert many.seconds(H200, "fp32") > many.seconds(H200, "tf32") > many.seconds(H200, "16")
    small = KernelWork(10**6, 1e8, 1e10)
    assert small.seconds(H200, "16") == pytest.approx(launch + 1e10 / H200.tile_flops)
    # Without a rate of tiles they are products as all others.
    assert small.seconds(replace(H200, tile_flops=0.0), "16") < launch + 1e-6
    one = OpWork("op", "layer", True, (passing, many))
    assert dense_time([one], H200).whole > one.seconds(H200) > 2 * launch
    assert dense_time([], H200) == DenseTime()


def test_what_lies_beside_vectors_and_gradients():
    """Layers that need no vectors, forward and backward; sums and updates of dense weights."""
    kernel = (KernelWork(1 << 20),)
    ops = [
        OpWork(op, layer, True, kernel)
        for op, layer in (
            ("linear_fwd", "bottom"), ("linear_fwd", "top"), ("linear_bwd", "top"),
            ("linear_bwd", "bottom"), ("all_reduce", "wgrad 0"), ("dense_update", "params"),
        )
    ]  # fmt: skip
    one = ops[0].seconds(H200)
    found = dense_time(ops, H200, apart={"dense", "bottom"})
    np.testing.assert_allclose([found.before_vectors, found.behind_gradients], [one, 3 * one])
    found = dense_time(ops, H200)
    np.testing.assert_allclose([found.before_vectors, found.behind_gradients], [0, 2 * one])
    assert found.whole == dense_time(ops, H200, apart={"bottom"}).whole
