# SPDX-License-Identifier: Apache-2.0
"""A model's GPU memory in PyTorch and CuPy and theirs in a model, as far as they are installed.

Run: PYTHONPATH=.:tests/py python benchmarks/interop/other_libraries.py

Every check prints one JSON line: the library, what was checked, and "ok" or what was found. The
tests cover the same ground without any library; this shows that the libraries read the protocols
as we do. Exit code 1 when a check fails.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from model import failing

import hugectr
from hugectr import interop

failures = 0


def check(library: str, what: str, body: Callable[[], Any]) -> None:
    """Run one check; it returns nothing or a figure, and fails by an exception."""
    global failures
    line: dict[str, Any] = {"library": library, "check": what}
    try:
        found = body()
        line["result"] = "ok" if found is None else found
    except Exception as error:
        failures += 1
        line["result"] = f"{type(error).__name__}: {error}"
    print(json.dumps(line), flush=True)


def with_torch(torch: Any, model: hugectr.Model, lowered: hugectr.Model) -> None:
    """Checks with PyTorch."""

    def shares(view: interop.TensorView, tensor: Any) -> None:
        assert tensor.data_ptr() == view.ptr
        assert tuple(tensor.shape) == view.shape
        np.testing.assert_array_equal(tensor.float().cpu().numpy(), view.copy_to_host())

    def from_dlpack() -> None:
        for name in ("relu1", "table", "label"):
            view = model.tensor(name)
            shares(view, torch.from_dlpack(view))

    def as_tensor() -> None:
        view = model.tensor("relu1")
        shares(view, torch.as_tensor(view, device="cuda"))

    def bfloat16() -> None:
        view = lowered.tensor("relu1")
        assert view.dtype == "bfloat16"
        tensor = torch.from_dlpack(view)
        assert tensor.dtype == torch.bfloat16
        shares(view, tensor)
        back = interop.as_view(tensor * 2)
        assert back.dtype == "bfloat16"
        np.testing.assert_array_equal(back.copy_to_host(), 2 * view.copy_to_host())

    def weights() -> None:
        shape = model.dense_weight("fc1.weight").shape
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                values = torch.randn(shape, device="cuda")
            model.set_dense_weight("fc1.weight", values, stream=stream.cuda_stream)
            shown = torch.from_dlpack(model.dense_weight("fc1.weight"))
            assert torch.equal(shown, values)
            shown.mul_(0.5)  # in place, in the model's own memory
        model.wait_for_stream(stream.cuda_stream)
        found = model.dense_weight("fc1.weight").copy_to_host()
        np.testing.assert_array_equal(found, 0.5 * values.cpu().numpy())
        failing.train(model, 2)

    def rows() -> None:
        table = model.table("table")
        keys = torch.from_dlpack(table.keys)
        assert keys.dtype == torch.int64
        assert torch.unique(keys).numel() == len(table)
        norms = torch.linalg.vector_norm(torch.from_dlpack(table.vectors), dim=1)
        wanted = np.linalg.norm(model.session.table(0).dump()["vectors"], axis=1)
        order = torch.argsort(keys).cpu().numpy()
        np.testing.assert_allclose(norms.cpu().numpy()[order], wanted, rtol=1e-5)

    def training_data() -> None:
        keys = torch.from_numpy(failing.small_keys()).cuda()
        label = (keys[:, 0] % 2).float()
        dense = torch.randn(len(keys), 3, device="cuda")
        data = hugectr.data.from_arrays(label, dense, {"keys": keys})
        losses = failing.train(failing.build("cuda", data), 20)
        assert losses[-1] < losses[0]

    def outlives() -> None:
        other = failing.build("cuda", failing.dataset(failing.small_keys()))
        failing.train(other, 2)
        wanted = other.check_out_tensor("relu1")
        tensor = torch.from_dlpack(other.tensor("relu1"))
        del other
        gc.collect()
        failing.another_model_trains("cuda")
        np.testing.assert_array_equal(tensor.cpu().numpy(), wanted)
        del tensor
        gc.collect()

    def stream_object() -> Any:
        stream = torch.cuda.Stream()
        if not hasattr(stream, "__cuda_stream__"):
            return "torch.cuda.Stream has no __cuda_stream__ in this version; its handle works"
        assert interop.stream_handle(stream) == stream.cuda_stream
        return None

    def cost() -> dict[str, float]:
        times = {}
        for name, body in (
            ("torch.from_dlpack(model.tensor(name))",
             lambda: torch.from_dlpack(model.tensor("relu1"))),
            ("model.table(name)", lambda: model.table("table")),
        ):  # fmt: skip
            body()
            begin = time.perf_counter()
            for _ in range(1000):
                body()
            times[name + " microseconds"] = round(1e3 * (time.perf_counter() - begin), 2)
        return times

    for body in (
        from_dlpack,
        as_tensor,
        bfloat16,
        weights,
        rows,
        training_data,
        outlives,
        stream_object,
        cost,
    ):
        check(f"torch {torch.__version__}", body.__name__, body)


def with_cupy(cupy: Any, model: hugectr.Model) -> None:
    """Checks with CuPy."""

    def asarray() -> None:
        for name in ("relu1", "table"):
            view = model.tensor(name)
            array = cupy.asarray(view)
            assert array.data.ptr == view.ptr
            assert array.strides == view.strides
            np.testing.assert_array_equal(array.get(), view.copy_to_host())

    def from_dlpack() -> None:
        view = model.dense_weight("fc1.weight")
        array = cupy.from_dlpack(view)
        assert array.data.ptr == view.ptr
        np.testing.assert_array_equal(array.get(), view.copy_to_host())

    def weights() -> None:
        shape = model.dense_weight("fc1.weight").shape
        with cupy.cuda.Stream(non_blocking=True):
            values = cupy.random.standard_normal(shape, dtype=cupy.float32)
            model.set_dense_weight("fc1.weight", values)
            model.set_table_rows("table", cupy.arange(100, 110), cupy.ones((10, 8), "f4"))
        found = model.dense_weight("fc1.weight").copy_to_host()
        np.testing.assert_array_equal(found, values.get())
        table = model.table("table")
        kept = cupy.asarray(table.vectors)[cupy.asarray(table.keys) >= 100]
        assert kept.shape == (10, 8)
        assert bool((kept == 1).all())

    def stream_object() -> Any:
        stream = cupy.cuda.Stream(non_blocking=True)
        if not hasattr(stream, "__cuda_stream__"):
            return "cupy.cuda.Stream has no __cuda_stream__ in this version; its ptr works"
        assert interop.stream_handle(stream) == stream.ptr
        return None

    for body in (asarray, from_dlpack, weights, stream_object):
        check(f"cupy {cupy.__version__}", body.__name__, body)


def main() -> int:
    """All checks with the libraries there are."""
    data = failing.dataset(failing.small_keys())
    model = failing.build("cuda", data)
    lowered = failing.build(
        "cuda", data, solver={"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}
    )
    for made in (model, lowered):
        failing.train(made, 3)
    for name, run in (
        ("torch", lambda library: with_torch(library, model, lowered)),
        ("cupy", lambda library: with_cupy(library, model)),
    ):
        try:
            library = importlib.import_module(name)
        except ImportError as error:
            print(json.dumps({"library": name, "check": "import", "result": str(error)}))
            continue
        run(library)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
