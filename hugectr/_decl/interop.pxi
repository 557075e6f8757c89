# SPDX-License-Identifier: Apache-2.0
# TensorView: memory as other libraries see it, and how theirs is taken.

from cpython.pycapsule cimport (
    PyCapsule_Destructor,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyCapsule_SetName,
)

_DTYPE_NAMES = {number: name for name, number in _DTYPES.items()}
_DTYPE_NAMES[<int>BFloat16_] = "bfloat16"


cdef void _drop_capsule(object capsule) noexcept:
    """Of a capsule that nobody has consumed (a consumer renames it)."""
    cdef DLManagedTensor* tensor
    cdef DLManagedTensorVersioned* versioned
    if PyCapsule_IsValid(capsule, "dltensor"):
        tensor = <DLManagedTensor*>PyCapsule_GetPointer(capsule, "dltensor")
        tensor.deleter(tensor)
    elif PyCapsule_IsValid(capsule, "dltensor_versioned"):
        versioned = <DLManagedTensorVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        versioned.deleter(versioned)


cdef cbool _making_a_view = False


cdef TensorView _view(const CppTensorView& it):
    global _making_a_view
    cdef TensorView view
    _making_a_view = True
    try:
        view = TensorView.__new__(TensorView)
    finally:
        _making_a_view = False
    view._it = it
    return view


cdef class TensorView:
    """A tensor in memory that is shared, not copied; keeps its owner alive.

    Handed out by ``Model.tensor``, ``Model.dense_weight``, ``Model.table`` and
    ``hugectr.interop.as_view``. On a CUDA device it has ``__cuda_array_interface__``, on the CPU
    ``__array_interface__``, and on both DLPack. Dimension 0 may be strided, the others are packed.
    """

    cdef CppTensorView _it

    def __dealloc__(self):
        # Without the GIL: with the last view its model may go, whose threads might wait for it.
        with nogil:
            self._it = CppTensorView()

    def __cinit__(self):
        if not _making_a_view:
            raise InvalidArgument("TensorView: made by Model.tensor and hugectr.interop.as_view")

    # --- what it looks like ---------------------------------------------------------------------

    @property
    def shape(self):
        return tuple(self._it.ref.shape)

    @property
    def ndim(self):
        return self._it.ref.shape.size()

    @property
    def size(self):
        return self._it.ref.size()

    @property
    def nbytes(self):
        return self._it.ref.size_in_bytes()

    @property
    def dtype(self):
        return _DTYPE_NAMES[<int>self._it.ref.dtype]

    @property
    def strides(self):
        cdef size_t size = 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize
        return tuple(stride * size for stride in element_strides(self._it.ref))

    @property
    def ptr(self):
        return <uintptr_t>self._it.ref.data

    @property
    def device(self):
        if self._it.ref.device.type == CppDeviceType.Cpu:
            return "cpu"
        return f"cuda:{self._it.ref.device.index}"

    @property
    def stream(self):
        if self._it.ref.device.type == CppDeviceType.Cpu:
            return None
        return <uintptr_t>native_stream_of(self._it).handle

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("a TensorView without dimensions has no length")
        return self._it.ref.shape[0]

    def __repr__(self):
        return f"<TensorView {self.dtype} {self.shape} on {self.device}>"

    # --- order ----------------------------------------------------------------------------------

    def wait(self):
        with nogil:
            wait_until_ready(self._it)

    def order_before(self, uintptr_t stream):
        order_after_view(self._it, stream)

    def order_after(self, uintptr_t stream):
        order_before_view(self._it, stream)

    # --- NumPy and the array interfaces ---------------------------------------------------------

    def _interface(self, where):
        if self.dtype == "bfloat16":
            raise AttributeError(
                "bfloat16 has no array interface type: use DLPack (torch.from_dlpack), or "
                "copy_to_host() for float32")
        strides = None if self._it.ref.contiguous() else self.strides
        return {"version": 3, "shape": self.shape, "typestr": np.dtype(self.dtype).str,
                "data": (where, False), "strides": strides}

    @property
    def __array_interface__(self):
        if self._it.ref.device.type != CppDeviceType.Cpu:
            raise AttributeError(f"the tensor lies on {self.device}, not in host memory")
        interface = self._interface(self.ptr)
        self.wait()
        return interface

    @property
    def __cuda_array_interface__(self):
        if self._it.ref.device.type == CppDeviceType.Cpu:
            raise AttributeError("the tensor lies in host memory, not on a CUDA device")
        interface = self._interface(self.ptr if self.size else 0)
        interface["stream"] = self.stream
        return interface

    def __array__(self, dtype=None, copy=None):
        # NumPy comes here only where there is no __array_interface__.
        if self._it.ref.device.type != CppDeviceType.Cpu:
            raise TypeError(
                f"the tensor lies on {self.device}: use copy_to_host(), or hand it to a library "
                "of the GPU")
        if copy is False:
            raise ValueError(f"NumPy has no {self.dtype}: the values must be copied")
        return self.copy_to_host().astype(dtype or np.float32, copy=False)

    def copy_to_host(self):
        cdef TensorView copy = self._copy("cpu")
        bits = np.asarray(_HostMemory(copy, "<u2" if self.dtype == "bfloat16" else None))
        if self.dtype == "bfloat16":
            return (bits.astype(np.uint32) << 16).view(np.float32)
        return bits

    def _copy(self, device):
        cdef CppDeviceId to
        cdef CppTensorView copy
        to.type = CppDeviceType.Cpu
        to.index = -1
        if device != "cpu":
            to = self._it.ref.device
        with nogil:
            copy = copy_view(self._it, to)
        return _view(copy)

    # --- DLPack ---------------------------------------------------------------------------------

    def __dlpack_device__(self):
        cdef DLDevice device = dlpack_device(self._it.ref)
        return (device.device_type, device.device_id)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        cdef TensorView view = self
        here = self.__dlpack_device__()
        wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        copied = bool(copy)
        if wanted != here:
            if wanted[0] != kDLCPU or copy is False:
                raise BufferError(
                    f"the tensor lies on {self.device}: it can be handed out there, or copied to "
                    f"the CPU, not to DLPack device {wanted}")
            view, copied = self._copy("cpu"), True
        elif copied:
            view = self._copy(self.device)
        if wanted[0] == kDLCPU:
            if stream is not None and wanted == here:
                raise BufferError("a tensor on the CPU is handed out with stream=None")
            view.wait()
        elif stream != -1:
            if stream == 0:
                raise BufferError("stream=0 is ambiguous in DLPack: use 1, 2, or a stream's handle")
            view.order_before(1 if stream is None else stream)
        if max_version is not None and max_version[0] >= 1:
            return _versioned_capsule(view, copied)
        return _legacy_capsule(view)


class _HostMemory:
    """The array interface of a view in host memory, as another type if one is given."""

    def __init__(self, view, typestr=None):
        self._view = view
        self.__array_interface__ = {
            "version": 3, "shape": view.shape, "data": (view.ptr, False), "strides": None,
            "typestr": typestr or np.dtype(view.dtype).str}


cdef object _legacy_capsule(TensorView view):
    cdef DLManagedTensor* tensor = export_tensor(
        view._it.ref, hugectr_drop_without_gil(view._it.owner))
    try:
        return PyCapsule_New(tensor, "dltensor", <PyCapsule_Destructor>_drop_capsule)
    except BaseException:
        tensor.deleter(tensor)
        raise


cdef object _versioned_capsule(TensorView view, copied):
    cdef uint64_t flags = FLAG_IS_COPIED if copied else 0
    cdef DLManagedTensorVersioned* tensor = export_versioned(
        view._it.ref, hugectr_drop_without_gil(view._it.owner), flags)
    try:
        return PyCapsule_New(tensor, "dltensor_versioned", <PyCapsule_Destructor>_drop_capsule)
    except BaseException:
        tensor.deleter(tensor)
        raise


def view_of_dlpack(capsule):
    """The view that a DLPack capsule gives; consumes it."""
    cdef CppTensorView it
    cdef DLManagedTensor* tensor
    cdef DLManagedTensorVersioned* versioned
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        versioned = <DLManagedTensorVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if versioned.version.major != DLPACK_MAJOR:
            raise BufferError(
                f"DLPack {versioned.version.major}.{versioned.version.minor} is not known: "
                f"version {DLPACK_MAJOR} is")
        it.ref = import_tensor(versioned.dl_tensor)
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
        it.owner = take_versioned(versioned)
    elif PyCapsule_IsValid(capsule, "dltensor"):
        tensor = <DLManagedTensor*>PyCapsule_GetPointer(capsule, "dltensor")
        it.ref = import_tensor(tensor.dl_tensor)
        PyCapsule_SetName(capsule, "used_dltensor")
        it.owner = take(tensor)
    else:
        raise InvalidArgument("DLPack: no capsule, or one that has been used already")
    it.stream = NULL
    return _view(it)


def view_of_array(array):
    """The view of a NumPy array."""
    cdef CppTensorView it
    it.ref = _tensor_ref("array", array)
    it.owner = hugectr_hold(array)
    it.stream = NULL
    return _view(it)


def view_of_cuda_array(owner, uintptr_t ptr, shape, strides, str dtype):
    """The view of CUDA memory; strides in bytes, or None."""
    cdef CppTensorView it
    cdef vector[int64_t] steps
    if dtype not in _DTYPES:
        raise InvalidArgument(f"CUDA array: dtype {dtype} is not supported")
    size = np.dtype(dtype).itemsize
    for stride in strides or ():
        if stride % size:
            raise InvalidArgument(f"CUDA array: stride {stride} is no multiple of {size} bytes")
        steps.push_back(stride // size)
    it.ref.data = <void*>ptr
    it.ref.dtype = <CppTensorScalarType><int>_DTYPES[dtype]
    it.ref.shape = shape
    it.ref.row_stride = row_stride_of(it.ref.shape, steps, "CUDA array")
    it.ref.device = CppDeviceBackend.get(CppDeviceType.Cuda).device_of(it.ref.data)
    it.owner = hugectr_hold(owner)
    it.stream = NULL
    return _view(it)
