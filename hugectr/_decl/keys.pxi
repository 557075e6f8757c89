# SPDX-License-Identifier: Apache-2.0
# Keys of categories, from the memory of Arrow arrays.

from cpython.pycapsule cimport PyCapsule_GetPointer


cdef extern from "<span>" namespace "std" nogil:
    cdef cppclass CppKeys "std::span<std::int64_t>":
        CppKeys(int64_t*, size_t)
    cdef cppclass CppKnownKeys "std::span<const std::int64_t>":
        CppKnownKeys(const int64_t*, size_t)

cdef extern from "core/cpp/data/key_hash.hpp" namespace "hugectr" nogil:
    uint64_t cpp_xxh64 "hugectr::xxh64"(const void* data, size_t bytes, uint64_t seed)
    cdef cppclass CppFieldKeys "hugectr::FieldKeys":
        uint64_t seed
        int64_t missing
    void cpp_hash_keys "hugectr::hash_keys"(
        CppThreadPool&, const CppArrowSchema&, const CppArrowArray&, const CppFieldKeys&,
        int64_t*) except +translate_error
    void cpp_replace_unknown_keys "hugectr::replace_unknown_keys"(
        CppThreadPool&, CppKeys, CppKnownKeys, int64_t, int64_t) except +translate_error


def xxh64(bytes data, uint64_t seed=0):
    """See ``_core.pyi``."""
    return cpp_xxh64(<const char*>data, len(data), seed)


def hash_keys(array, uint64_t seed, int64_t missing, known=None, int64_t rare=0):
    """See ``_core.pyi``."""
    schema_capsule, array_capsule = array.__arrow_c_array__()
    cdef const CppArrowSchema* schema = <const CppArrowSchema*>PyCapsule_GetPointer(
        schema_capsule, "arrow_schema")
    cdef const CppArrowArray* values = <const CppArrowArray*>PyCapsule_GetPointer(
        array_capsule, "arrow_array")
    cdef CppFieldKeys field
    field.seed = seed
    field.missing = missing
    cdef size_t count = <size_t>deref(values).length
    keys = np.empty(count, dtype=np.int64)
    if not count:
        return keys
    if known is not None:
        known = np.ascontiguousarray(known, dtype=np.int64)
    cdef CppThreadPool* pool = _shared_pool()
    cdef int64_t* out = <int64_t*>_pointer(keys)
    cdef size_t known_count = 0 if known is None else len(known)
    cdef const int64_t* known_keys = NULL
    if known_count:
        known_keys = <const int64_t*>_pointer(known)
    cdef cbool all_pass = known is None
    with nogil:
        cpp_hash_keys(deref(pool), deref(schema), deref(values), field, out)
        if not all_pass:
            cpp_replace_unknown_keys(
                deref(pool), CppKeys(out, count),
                CppKnownKeys(known_keys, known_count), missing, rare)
    return keys
