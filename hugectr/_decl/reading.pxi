# SPDX-License-Identifier: Apache-2.0
# What a reader reads: formats, shuffling, and record batches that Python decodes.


cdef extern from * nogil:
    """
    #include <string>
    #include "core/cpp/data/arrow_callbacks.hpp"
    #include "hugectr/_decl/interpreter.hpp"

    // Written in Cython, below; called with Python's lock. 0, or -1 with an error.
    static int hugectr_py_arrow_open(void* self, const std::string& source,
                                     hugectr::ArrowSource* found);
    static int hugectr_py_arrow_decode(void* self, size_t block, ArrowSchema* schema,
                                       ArrowArray* array);
    static PyObject* hugectr_py_reading_text(PyObject* error);

    namespace hugectr_py {
    inline void arrow_open(void* self, const std::string& source, hugectr::ArrowSource* found,
                           std::string* error) {
      *error = asked([&] { return hugectr_py_arrow_open(self, source, found); },
                     hugectr_py_reading_text);
    }

    // Memory of Arrow arrays may be that of Python objects, whose release asks for the GIL.
    inline void arrow_release(ArrowArray* array) {
      auto* const original = static_cast<ArrowArray*>(array->private_data);
      array->release = nullptr;
      const hugectr::InterpreterVisit visit;
      if (!visit) return;  // the program ends, and all memory with it
      original->release(original);
      delete original;
    }

    inline void arrow_decode(void* self, size_t block, ArrowSchema* schema, ArrowArray* array,
                             std::string* error) {
      *error = asked([&] { return hugectr_py_arrow_decode(self, block, schema, array); },
                     hugectr_py_reading_text);
      if (array->release == nullptr) return;
      array->private_data = new ArrowArray(*array);
      array->release = arrow_release;
    }

    inline void arrow_drop(void* self) { let_go(static_cast<PyObject*>(self)); }

    inline hugectr::ArrowDecoder arrow_decoder(PyObject* owned) {
      return hugectr::make_arrow_decoder({owned, arrow_open, arrow_decode, arrow_drop});
    }
    }  // namespace hugectr_py
    """
    CppArrowDecoder cpp_arrow_decoder "hugectr_py::arrow_decoder"(PyObject* owned)


cdef object _reading_text "hugectr_py_reading_text"(error):
    _interrupt_again(error)
    text = str(error)
    if not text and isinstance(error, MemoryError):
        text = cpp_memory_shortage(b"reading")
    # Whatever is in a path or a name: an exception on the way to the core would be lost.
    return (text or type(error).__name__).encode(errors="backslashreplace")


cdef int _arrow_open "hugectr_py_arrow_open"(
        void* self, const string& source, CppArrowSource* found) except -1:
    cdef CppBlockInfo block
    cdef bytes name = source
    files, blocks = (<object>self).open(os.fsdecode(name))
    for path in files:
        found.files.push_back(path.encode(errors="surrogateescape"))
    for file, rows, size in blocks:
        block.file, block.rows, block.bytes = file, rows, size
        found.blocks.push_back(block)
    return 0


cdef int _arrow_decode "hugectr_py_arrow_decode"(
        void* self, size_t block, CppArrowSchema* schema, CppArrowArray* array) except -1:
    (<object>self).decode(block, <uintptr_t>schema, <uintptr_t>array)
    return 0


cdef CppArrowDecoder _arrow_decoder(decoder) except *:
    cdef CppArrowDecoder none
    if decoder is None:
        return none
    Py_XINCREF(<PyObject*>decoder)
    return cpp_arrow_decoder(<PyObject*>decoder)


cdef CppRawReading _raw_reading(fields) except *:
    cdef CppRawReading r
    f = _Fields("reader.raw", fields or {})
    r.num_samples = f.take("num_samples", 0)
    r.numbers.float_label = f.take("float_label", False)
    r.numbers.float_dense = f.take("float_dense", False)
    r.keys = <CppRawKeys><int>f.choose("keys", "BySize", _RAW_KEYS)
    r.slot_offsets = f.take("slot_offsets", [])
    r.direct = f.take("direct", False)
    r.block_bytes = f.take("block_bytes", 1 << 20)
    r.keep_bytes = f.take("keep_bytes", 0)
    r.on_bad_data = <CppOnBadData><int>f.choose("on_bad_data", "error", _BAD_DATA)
    f.done()
    return r


cdef CppArrowMapping _arrow_mapping(fields) except *:
    cdef CppArrowMapping m
    f = _Fields("reader.columns", fields or {})
    m.labels = [name.encode() for name in f.take("labels", [])]
    m.dense = [name.encode() for name in f.take("dense", [])]
    m.slots = [name.encode() for name in f.take("slots", [])]
    m.slot_offsets = f.take("slot_offsets", [])
    m.sequences = [name.encode() for name in f.take("sequences", [])]
    f.done()
    return m


cdef CppShuffleSpec _shuffle(fields) except *:
    cdef CppShuffleSpec s
    f = _Fields("reader.shuffle", fields or {})
    s.seed = f.take("seed", 0)
    s.files = f.take("files", False)
    s.blocks = f.take("blocks", False)
    s.window = f.take("window", 0)
    f.done()
    return s


cdef bytes _path_bytes(path):
    # Names of files need not be UTF-8; the text says which byte the system can not have.
    try:
        return os.fsencode(path)
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"source {path!r} is no name of a file: {error}") from None


cdef CppReaderSpec _reader_spec(fields) except *:
    f = _Fields("reader", fields)
    cdef CppReaderSpec r
    r.format = <CppDataFormat><int>f.choose("format", "Norm", _FORMATS)
    r.source = _path_bytes(f.take("source", ""))
    r.eval_source = _path_bytes(f.take("eval_source", ""))
    r.max_bad_share = f.take("max_bad_share", r.max_bad_share)
    r.check = <CppCheck><int>f.choose("check", "None", _CHECKS)
    r.on_bad_data = <CppOnBadData><int>f.choose("on_bad_data", "error", _BAD_DATA)
    r.num_workers = f.take("num_workers", 12)
    r.resident_batches = f.take("resident_batches", 0)
    r.memory = _memory_data(f.take("memory", None))
    r.eval_memory = _memory_data(f.take("eval_memory", None))
    r.raw = _raw_reading(f.take("raw", None))
    r.eval_raw = _raw_reading(f.take("eval_raw", None))
    r.arrow = _arrow_decoder(f.take("arrow", None))
    r.eval_arrow = _arrow_decoder(f.take("eval_arrow", None))
    r.columns = _arrow_mapping(f.take("columns", None))
    r.shuffle = _shuffle(f.take("shuffle", None))
    r.decode_threads = f.take("decode_threads", 0)
    r.read_ahead_bytes = f.take("read_ahead_bytes", r.read_ahead_bytes)
    r.replicated = <cbool>f.take("replicated", False)
    f.done()
    return r


def read_through(solver, reader, input, batches):
    cdef CppSolverSpec s = _solver_spec(solver)
    cdef CppReaderSpec r = _reader_spec(reader)
    cdef CppInputSpec i = _input_spec(input)
    cdef size_t n = batches
    cdef CppReadThrough found
    with nogil:
        found = cpp_read_through(s, r, i, n)
    return dict(samples=found.samples, bytes=found.bytes, seconds=found.seconds,
                rows_decoded=found.metrics.rows_decoded, parse_seconds=found.metrics.parse_seconds,
                credit_seconds=found.metrics.credit_seconds,
                ready_seconds=found.metrics.ready_seconds,
                acquire_seconds=found.metrics.acquire_seconds)


cdef _reader_metrics(const CppReaderMetrics& m):
    return dict(batches=m.batches, bad_samples=m.bad_samples, parse_seconds=m.parse_seconds,
                credit_seconds=m.credit_seconds, ready_seconds=m.ready_seconds,
                acquire_seconds=m.acquire_seconds, rows_decoded=m.rows_decoded,
                seconds=m.seconds, ready_depth=m.ready_depth, credit_depth=m.credit_depth,
                ahead_depth=m.ahead_depth, chunks=m.chunks, slots=m.slots,
                acquired=m.acquired)


cdef CppReadPosition _read_position(position) except *:
    cdef CppReadPosition p
    f = _Fields("position", position)
    p.epoch, p.sample = f.take("epoch", 0), f.take("sample", 0)
    p.file, p.record, p.byte = f.take("file", 0), f.take("record", 0), f.take("byte", 0)
    f.done()
    return p
