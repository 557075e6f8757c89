# SPDX-License-Identifier: Apache-2.0
# What a model is and takes, before it takes it.


def footprint(solver, reader, model, rows=()):
    """See ``_core.pyi``."""
    cdef CppSolverSpec s = _solver_spec(solver)
    cdef optional[CppReaderSpec] r
    if reader is not None:
        r = _reader_spec(reader)
    cdef CppModelSpec m = _model_spec(model)
    cdef vector[optional[size_t]] counts
    cdef optional[size_t] count
    for number in rows:
        count = optional[size_t]()
        if number is not None:
            count = <size_t>number
        counts.push_back(count)
    cdef CppFootprint found
    with nogil:
        found = cpp_footprint(s, r, m, counts)
    entries = [(e.process, e.device, e.owner, e.part, e.bytes) for e in found.entries]
    tables = [(t.name, t.rows, t.max_rows, t.row_bytes) for t in found.tables]
    work = [
        (w.op, w.layer, bool(w.in_16_bits), [(k.bytes, k.flops, k.tile_flops) for k in w.kernels])
        for w in found.work
    ]
    return entries, tables, work, list(found.lacking)


def layer_summary(solver, model):
    """See ``_core.pyi``."""
    cdef CppSolverSpec s = _solver_spec(solver)
    cdef CppModelSpec m = _model_spec(model)
    cdef vector[CppLayerSummary] rows
    with nogil:
        rows = cpp_layer_summary(s, m)
    return _summary(rows)
