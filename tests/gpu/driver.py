# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver by ctypes: another owner of device memory and streams, without a library."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt


class Driver:
    """GPU 0 as a program beside hugectr sees it."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name}: {status}"

    def read(self, where: int, shape: tuple[int, ...], dtype: str) -> npt.NDArray[np.generic]:
        """Device memory as it is now, in no order with any stream."""
        array = np.empty(shape, dtype)
        if array.size:
            to, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
            self("cuMemcpyDtoH_v2", to, ctypes.c_uint64(where), size)
        return array

    def clear(self, where: int, size: int) -> None:
        """Zeros, in the order of the legacy default stream."""
        self("cuMemsetD8_v2", ctypes.c_uint64(where), ctypes.c_ubyte(0), ctypes.c_size_t(size))

    def stream(self) -> int:
        handle = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(handle), 1)  # does not wait for the default stream
        assert handle.value
        return handle.value

    def wait(self, stream: int) -> None:
        self("cuStreamSynchronize", ctypes.c_void_p(stream))


class Array:
    """Device memory of this program with ``__cuda_array_interface__``, written in its stream."""

    def __init__(self, driver: Driver, values: npt.NDArray[np.generic], stream: int) -> None:
        self.driver, self.stream = driver, stream
        self.values = np.ascontiguousarray(values)
        self.place = ctypes.c_uint64()
        driver("cuMemAlloc_v2", ctypes.byref(self.place), ctypes.c_size_t(self.values.nbytes))
        driver(
            "cuMemcpyHtoDAsync_v2",
            self.place,
            ctypes.c_void_p(self.values.ctypes.data),
            ctypes.c_size_t(self.values.nbytes),
            ctypes.c_void_p(stream),
        )
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": self.values.shape,
            "typestr": self.values.dtype.str,
            "data": (self.place.value, False),
            "strides": None,
            "stream": stream,
        }

    def copy_from(self, where: int) -> None:
        """Device memory, in the order of the array's stream."""
        self.driver(
            "cuMemcpyDtoDAsync_v2",
            self.place,
            ctypes.c_uint64(where),
            ctypes.c_size_t(self.values.nbytes),
            ctypes.c_void_p(self.stream),
        )

    def free(self) -> None:
        self.driver("cuMemFree_v2", self.place)
