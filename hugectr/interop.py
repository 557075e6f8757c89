# SPDX-License-Identifier: Apache-2.0
"""Memory shared with other array libraries, without a copy.

``Model.tensor``, ``Model.dense_weight`` and ``Model.table`` hand out ``TensorView`` objects. On a
CUDA device these have ``__cuda_array_interface__`` (version 3), on the CPU ``__array_interface__``,
and on both DLPack, so that ``torch.from_dlpack(view)``, ``cupy.asarray(view)`` or
``numpy.asarray(view)`` show the model's own memory. The other way, ``as_view`` takes any such
object.

Notes
-----
Lifetime: a view, and whatever another library made of it, keeps the whole model alive: its device
memory is free when the last of them is gone. Rows of a table never move, so a view of a table stays
good while the table grows.

Order: a model works on a stream of its own. Who takes a view through one of the protocols, or names
its stream where the view is made, gets the values that all work submitted so far leaves. Before a
later step overwrites what another library still reads, ``Model.wait_for_stream(stream)`` makes the
model wait for it.

Streams are given as an integer handle (a ``cudaStream_t``; 1 is the legacy default stream, 2 the
thread's) or as an object with ``__cuda_stream__``, as ``cuda.core`` streams are.

Examples
--------
>>> import numpy
>>> view = as_view(numpy.arange(6.0).reshape(2, 3))
>>> view.shape, view.dtype, view.device
((2, 3), 'float64', 'cpu')
>>> numpy.from_dlpack(view)[1, 2]
np.float64(5.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr import _core
from hugectr._core import TensorView
from hugectr.base.errors import rejected
from hugectr.base.html_table import html_table

__all__ = ["TableRows", "TensorView", "as_view", "stream_handle", "to_numpy"]


@dataclass(frozen=True)
class TableRows:
    """The trained rows of an embedding table on one device, in the order they came in.

    Parameters
    ----------
    keys : TensorView, (n,)
        uint32, or int64 with ``i64_input_key``.
    slot_ids : TensorView, (n,), or None
        uint32; Localized tables only, whose rows belong to (slot, key).
    vectors : TensorView, (n, embedding_vec_size)
        float32, or bfloat16 of a table with that ``vector_type``.
    states : tuple of TensorView, each (n, embedding_vec_size), or (n, 1) where a row has one number
        Optimizer states in the order that ``help(hugectr.CreateOptimizer)`` names them.
    """

    keys: TensorView
    slot_ids: TensorView | None
    vectors: TensorView
    states: tuple[TensorView, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def _repr_html_(self) -> str:
        views = {"keys": self.keys, "slot_ids": self.slot_ids, "vectors": self.vectors}
        views |= {f"states[{i}]": state for i, state in enumerate(self.states)}
        rows = [
            [name, " x ".join(map(str, view.shape)), view.dtype, view.device]
            for name, view in views.items()
            if view is not None
        ]
        return html_table(f"{len(self):,} rows of a table", ["", "shape", "type", "where"], rows)


def stream_handle(stream: Any) -> int:
    """The handle of a CUDA stream.

    Parameters
    ----------
    stream : int or object with ``__cuda_stream__``
        A handle (0 and 1: the legacy default stream, 2: the thread's), or a stream object of
        ``cuda.core`` or another library that follows its protocol.

    Raises
    ------
    InvalidArgument
        For anything else.
    """
    found = stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # Version 0 of the protocol: (0, handle); it was an attribute before it became a method.
        found = protocol() if callable(protocol) else protocol
        if not isinstance(found, tuple) or len(found) < 2:
            raise rejected("stream: __cuda_stream__", found, "a tuple (0, handle)")
        if found[0] != 0:
            raise rejected("stream: version of __cuda_stream__", found[0], "0")
        found = found[1]
    if isinstance(found, bool) or not hasattr(found, "__index__") or int(found) < 0:
        raise rejected("stream", stream, "an integer handle or an object with __cuda_stream__")
    return int(found)


def _from_dlpack(x: Any) -> TensorView:
    on_cuda = int(x.__dlpack_device__()[0]) in (2, 13)
    # What is taken lies ready in the order of the legacy default stream (1).
    arguments: dict[str, Any] = {"stream": 1} if on_cuda else {}
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **arguments)
    except TypeError:  # a library from before versions
        capsule = x.__dlpack__(**arguments)
    return _core.view_of_dlpack(capsule)


def _from_cuda_array(x: Any) -> TensorView:
    interface = x.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise rejected("as_view: mask of __cuda_array_interface__", "a mask", "no mask")
    dtype = np.dtype(interface["typestr"])
    view = _core.view_of_cuda_array(
        x, interface["data"][0], interface["shape"], interface.get("strides"), dtype.name
    )
    stream = interface.get("stream")
    if stream is not None and view.device != "cpu":
        view.order_after(stream)
    return view


def as_view(x: Any, *, stream: Any = None) -> TensorView:
    """See the memory of any array, without a copy.

    Parameters
    ----------
    x : array
        A TensorView; anything with DLPack or ``__cuda_array_interface__`` (arrays of PyTorch, CuPy,
        JAX, Numba, ...); or what ``numpy.asarray`` takes.
    stream : int or object with ``__cuda_stream__``, optional
        Where ``x`` is being written, when that is not what its own protocol says: whoever uses the
        view waits for it. CUDA memory only.

    Returns
    -------
    TensorView
        Keeps ``x`` alive.

    Raises
    ------
    InvalidArgument
        When the dtype is not supported, or more than dimension 0 is strided.
    """
    if isinstance(x, TensorView):
        view = x
    elif not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        view = _from_dlpack(x)
    elif hasattr(x, "__cuda_array_interface__"):
        view = _from_cuda_array(x)
    else:
        view = _core.view_of_array(np.asarray(x))
    if stream is not None:
        view.order_after(stream_handle(stream))
    return view


def to_numpy(x: Any, *, stream: Any = None) -> npt.NDArray[Any]:
    """The values of any array as a NumPy array.

    Parameters
    ----------
    x : array
        As in ``as_view``; also lists and scalars.
    stream : int or object with ``__cuda_stream__``, optional
        As in ``as_view``.

    Returns
    -------
    ndarray
        The array itself where it lies in host memory and NumPy has its type; else a copy
        (bfloat16 becomes float32, which loses nothing).
    """
    if isinstance(x, np.ndarray):
        return x
    on_device = isinstance(x, TensorView) or hasattr(x, "__dlpack__")
    if not on_device and not hasattr(x, "__cuda_array_interface__"):
        return np.asarray(x)
    view = as_view(x, stream=stream)
    return np.asarray(view) if view.device == "cpu" else view.copy_to_host()
