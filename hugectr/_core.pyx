# SPDX-License-Identifier: Apache-2.0
#
# cython: c_string_type=str, c_string_encoding=utf8
"""The compiled module: Python's view of libhugectr. Signatures are in ``_core.pyi``."""

from cython cimport no_gc_clear
from cpython.buffer cimport PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport PyObject, Py_XINCREF
from cython.operator cimport dereference as deref, preincrement
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.memory cimport make_shared, shared_ptr, unique_ptr
from libcpp.optional cimport optional
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector
from posix.unistd cimport close as posix_close

from hugectr._decl.base cimport (
    CppDeviceId,
    CppDeviceType,
    CppLogLevel,
    CppOptParams,
    CppOpTable,
    CppShape,
    CppTensorScalarType,
    CppWorkCounts,
    cpp_memory_shortage,
    cpp_thread_shortage,
    cpp_work_counts,
    delete_outside_of_groups,
    fork_generation,
    make_opt_params,
)
from hugectr._decl.base cimport set_log_level as cpp_set_log_level
from hugectr._decl.base cimport set_log_rank as cpp_set_log_rank
from hugectr._decl.catalogues cimport *
from hugectr._decl.collection cimport *
from hugectr._decl.errors cimport translate_error
from hugectr._decl.interop cimport *
from hugectr._decl.linked cimport *
from hugectr._decl.model cimport *
from hugectr._decl.ops cimport (
    CppAnyOp,
    CppDeviceBackend,
    CppOpAttribute,
    CppOpByName,
    CppTensorRef,
    CppThreadPool,
    cpp_hold_memory,
    run_on_host_tensors,
)
from hugectr._decl.serving cimport *
from hugectr._decl.specs cimport *

import _thread
import atexit
import collections
import fcntl
import functools
import itertools
import os
import weakref

import numpy as np

cdef extern from *:
    """
    #ifndef HUGECTR_VERSION
    #define HUGECTR_VERSION "0"
    #endif
    static const int hugectr_bfloat16 = static_cast<int>(hugectr::TensorScalarType::BFloat16);
    static int hugectr_cpu_has(int which) {
    #if defined(__x86_64__)
      switch (which) {
        case 0: return __builtin_cpu_supports("avx2");
        case 1: return __builtin_cpu_supports("fma");
        case 2: return __builtin_cpu_supports("f16c");
        case 3: return __builtin_cpu_supports("avx512f");
      }
    #else
      (void)which;
    #endif
      return 0;
    }
    """
    const char* HUGECTR_VERSION
    const int BFloat16_ "hugectr_bfloat16"
    int hugectr_cpu_has(int which)


class InvalidArgument(ValueError):
    """A value that can not work; the text names it and what is allowed."""


class OutOfMemory(MemoryError):
    """Memory or a table's budget does not suffice; the text names the owner and the way out."""


class DeviceError(RuntimeError):
    """A device, driver or kernel failed or is missing."""


class DataError(RuntimeError):
    """Input data or a file is damaged; the text has the file and the byte offset."""


#: Called where a CommError is made, which is in the thread that is going to get it.
comm_error_hooks = []


class CommError(RuntimeError):
    """A collective failed, or another rank failed first."""

    def __init__(self, *args):
        super().__init__(*args)
        for hook in comm_error_hooks:
            hook()


class NonFiniteLoss(RuntimeError):
    """Training has no finite loss any more; the text has the step and the way out."""


for _error in (InvalidArgument, OutOfMemory, DeviceError, DataError, CommError, NonFiniteLoss):
    _error.__module__ = "hugectr"


include "_decl/turns.pxi"
include "_decl/held_folder.pxi"
include "_decl/arrays.pxi"
include "_decl/catalogues.pxi"
include "_decl/specs.pxi"
include "_decl/reading.pxi"
include "_decl/processes.pxi"


def version():
    return HUGECTR_VERSION


def cpu_features():
    names = ("avx2", "fma", "f16c", "avx512f")
    return [name for i, name in enumerate(names) if hugectr_cpu_has(i)]


def work_counts():
    """See ``_core.pyi``."""
    cdef CppWorkCounts counts = cpp_work_counts()
    return {"ops": counts.ops, "collectives": counts.collectives, "launches": counts.launches}


cdef CppDeviceType _device_type(device) except *:
    if device not in _DEVICES:
        raise InvalidArgument(f"device: found {device!r}, allowed: 'cpu', 'cuda'")
    return <CppDeviceType><int>_DEVICES[device]


def device_count(str device):
    cdef CppDeviceType kind = _device_type(device)
    if CppDeviceBackend.why_not(kind).size():
        return 0
    return CppDeviceBackend.get(kind).device_count()


def why_not(str device):
    return CppDeviceBackend.why_not(_device_type(device))


def device_name(str device, int index):
    return CppDeviceBackend.get(_device_type(device)).device_name(index)


def device_memory(str device, int index):
    return CppDeviceBackend.get(_device_type(device)).memory_bytes(index)


def hold_memory(str device, int index, bint on_host, size_t size):
    """See ``_core.pyi``."""
    cdef CppDeviceId which
    which.type = _device_type(device)
    which.index = index
    with nogil:
        cpp_hold_memory(which, on_host, size)


def device_libraries(str device):
    return dict(CppDeviceBackend.get(_device_type(device)).libraries())


def set_log_level(int level):
    cpp_set_log_level(<CppLogLevel>level)


def set_log_rank(int rank):
    cpp_set_log_rank(rank)


def op_names(str device="cpu"):
    return list(CppOpTable.instance().ops(_device_type(device)))


def op_fields(str name):
    cdef unique_ptr[CppOpByName] op
    op.reset(new CppOpByName(<string>name))
    return dict(deref(op).fields())


cdef unique_ptr[CppThreadPool] _pool
cdef uint64_t _pool_generation = 0


cdef CppOpAttribute _op_attribute(value) except *:
    cdef cbool flag
    cdef vector[int64_t] ints
    cdef vector[double] doubles
    if isinstance(value, (bool, np.bool_)):
        flag = value
        return CppOpAttribute(flag)
    if isinstance(value, (int, np.integer)):
        return CppOpAttribute(<int64_t>value)
    if isinstance(value, (float, np.floating)):
        return CppOpAttribute(<double>value)
    if all(isinstance(v, (int, np.integer)) for v in value):
        ints = value
        return CppOpAttribute(ints)
    doubles = value
    return CppOpAttribute(doubles)


cdef CppThreadPool* _shared_pool() except NULL:
    """The pool of what belongs to no model; a forked child makes its own."""
    global _pool, _pool_generation
    if not _pool or _pool_generation != fork_generation():
        _pool_generation = fork_generation()
        _pool.reset(new CppThreadPool(<size_t>0))
    return _pool.get()


include "_decl/keys.pxi"


def run_op(str name, dict tensors, dict attributes=None, str device="cpu"):
    cdef CppThreadPool* pool = _shared_pool()
    cdef unique_ptr[CppOpByName] op
    op.reset(new CppOpByName(<string>name))
    cdef vector[CppTensorRef] refs
    for field, value in tensors.items():
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            refs.clear()
            for i, array in enumerate(value):
                refs.push_back(_tensor_ref(f"{field}[{i}]", array))
            deref(op).set_tensors(field, refs)
        else:
            deref(op).set_tensor(field, _tensor_ref(field, value))
    for field, value in (attributes or {}).items():
        deref(op).set_attribute(field, _op_attribute(value))
    cdef CppDeviceId where
    where.type = _device_type(device)
    where.index = 0
    cdef CppAnyOp call = deref(op).take()
    with nogil:
        run_on_host_tensors(call, where, deref(pool))


include "_decl/learning_rate.pxi"
include "_decl/interop.pxi"
include "_decl/rows.pxi"
include "_decl/linked.pxi"
include "_decl/session.pxi"
include "_decl/footprint.pxi"
include "_decl/table.pxi"
include "_decl/collection.pxi"
include "_decl/sharing.pxi"
include "_decl/network.pxi"
include "_decl/reader.pxi"
include "_decl/serving.pxi"
include "_decl/program_end.pxi"


cdef class Network:
    """See ``_core.pyi``."""

    cdef CppSingleNetwork* _it
    cdef readonly object _turn
    cdef uint64_t _generation

    # As everywhere: what __cinit__ makes is there in every object, whoever called __new__.
    def __cinit__(self, dict inputs, list layers, train=True, seed=1, no_gradient=None,
                  device="cpu", dtype="float32"):
        self._turn = Turn("network")
        self._it = NULL
        self._generation = fork_generation()
        cdef vector[CppNetworkInput] specs
        cdef CppNetworkInput spec
        for name, shape in inputs.items():
            spec.name = name
            spec.shape = shape
            spec.needs_gradient = name not in (no_gradient or [])
            spec.may_be_16_bits = True
            specs.push_back(spec)
        self._it = new CppSingleNetwork(
            specs, _layer_specs(layers), <cbool>train, <uint64_t>seed, _device_type(device),
            _compute_dtype(dtype))

    def __dealloc__(self):
        if self._generation == fork_generation():  # a forked child has no thread to end
            del self._it

    def _get(self, str name):
        cdef CppShape shape
        cdef vector[float] values = deref(self._it).get(name, &shape)
        return _float_array(values).reshape(<vector[size_t]>shape)

    def parameters(self):
        cdef vector[CppParameter] parameters = deref(self._it).graph().parameters()
        return [(p.name, tuple(p.shape)) for p in parameters]

    def parameter(self, str name):
        return self._get(name)

    def set_parameter(self, str name, value):
        deref(self._it).set(name, _floats(value))

    def non_trainable(self, str name):
        return self._get(name)

    def forward(self, dict inputs, sample_weight=None, int64_t step=1):
        for name, value in inputs.items():
            deref(self._it).set(name, _floats(value))
        if sample_weight is not None:
            deref(self._it).set("@sample_weight", _floats(sample_weight))
        with nogil:
            deref(self._it).forward(step)

    def backward(self, dict gradients):
        for name, value in gradients.items():
            deref(self._it).set(f"{name}@grad", _floats(value))
        with nogil:
            deref(self._it).backward()

    def tensor(self, str name):
        return self._get(name)

    def gradient(self, str name):
        return self._get(f"{name}@grad")

    def parameter_gradient(self, str name):
        return self._get(f"{name}@grad")

    def loss(self):
        return float(self._get("@loss")[0])

    def op_records(self):
        return list(deref(self._it).op_names())


# Session.leave ends the waits of the others.
serialised(Session, but={"leave", "has_left"})
serialised(TableAccess)
serialised(SessionTable)
serialised(SessionNetwork)
serialised(SessionReader)
serialised(LivePredictor)
serialised(Network)
serialised(TableCollection)
serialised(CollectionTable)
serialised(TableSharing)
serialised(SharedCommunicator)
serialised(TableExchange)
