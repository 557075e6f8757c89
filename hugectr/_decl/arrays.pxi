# SPDX-License-Identifier: Apache-2.0
# NumPy arrays <-> C++ vectors and tensor views. Pointers go through the buffer protocol, so that
# the module needs no NumPy headers and one wheel serves every NumPy.

_DTYPES = {
    "float32": <int>CppTensorScalarType.Float32,
    "float64": <int>CppTensorScalarType.Float64,
    "float16": <int>CppTensorScalarType.Float16,
    "uint16": <int>BFloat16_,  # NumPy has no bfloat16: its bits travel as uint16
    "int64": <int>CppTensorScalarType.Int64,
    "uint64": <int>CppTensorScalarType.UInt64,
    "int32": <int>CppTensorScalarType.Int32,
    "uint32": <int>CppTensorScalarType.UInt32,
    "uint8": <int>CppTensorScalarType.UInt8,
}


cdef void* _pointer(array) except? NULL:
    """Where the array's elements are: good while the array is held."""
    cdef Py_buffer view  # arr.ctypes tells it too, and takes ten times as long
    PyObject_GetBuffer(array, &view, PyBUF_STRIDES)
    cdef void* data = view.buf
    PyBuffer_Release(&view)
    return data


cdef CppTensorRef _tensor_ref(str name, array) except *:
    """A view of the array; rows (axis 0) may be strided, the rest must be contiguous."""
    if not isinstance(array, np.ndarray):
        raise InvalidArgument(
            f"tensor '{name}' must be a numpy array, found {type(array).__name__}")
    if array.dtype.name not in _DTYPES:
        raise InvalidArgument(f"tensor '{name}': dtype {array.dtype} is not supported")
    cdef CppTensorRef ref
    ref.data = _pointer(array)
    ref.dtype = <CppTensorScalarType><int>_DTYPES[array.dtype.name]
    ref.device.type = CppDeviceType.Cpu
    ref.device.index = -1
    ref.shape = array.shape
    if array.ndim > 0 and array.size > 0:
        if not array[0].flags.c_contiguous:
            raise InvalidArgument(f"tensor '{name}': only axis 0 may be strided")
        if array.shape[0] > 1:
            ref.row_stride = array.strides[0] // array.itemsize
        else:
            ref.row_stride = ref.row_size()
    else:
        ref.row_stride = ref.row_size()
    return ref


cdef vector[float] _floats(values) except *:
    array = np.ascontiguousarray(values, np.float32)
    cdef vector[float] result
    result.resize(array.size)
    if array.size:
        memcpy(result.data(), _pointer(array), array.size * sizeof(float))
    return result


cdef object _float_array(const vector[float]& values):
    array = np.empty(values.size(), np.float32)
    if values.size():
        memcpy(_pointer(array), values.data(), values.size() * sizeof(float))
    return array


cdef vector[double] _doubles(values) except *:
    array = np.ascontiguousarray(values, np.float64)
    cdef vector[double] result
    result.resize(array.size)
    if array.size:
        memcpy(result.data(), _pointer(array), array.size * sizeof(double))
    return result


cdef object _double_array(const vector[double]& values):
    array = np.empty(values.size(), np.float64)
    if values.size():
        memcpy(_pointer(array), values.data(), values.size() * sizeof(double))
    return array


cdef vector[int64_t] _int64s(values) except *:
    array = np.ascontiguousarray(values, np.int64)
    cdef vector[int64_t] result
    result.resize(array.size)
    if array.size:
        memcpy(result.data(), _pointer(array), array.size * 8)
    return result


cdef object _uint32_array(const vector[uint32_t]& values):
    array = np.empty(values.size(), np.uint32)
    if values.size():
        memcpy(_pointer(array), values.data(), values.size() * 4)
    return array


cdef object _int64_array(const vector[int64_t]& values):
    array = np.empty(values.size(), np.int64)
    if values.size():
        memcpy(_pointer(array), values.data(), values.size() * 8)
    return array


cdef vector[uint64_t] _uint64s(values) except *:
    array = np.ascontiguousarray(values, np.uint64)
    cdef vector[uint64_t] result
    result.resize(array.size)
    if array.size:
        memcpy(result.data(), _pointer(array), array.size * 8)
    return result


cdef object _uint64_array(const vector[uint64_t]& values):
    array = np.empty(values.size(), np.uint64)
    if values.size():
        memcpy(_pointer(array), values.data(), values.size() * 8)
    return array
