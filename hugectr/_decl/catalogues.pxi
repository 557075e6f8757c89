# SPDX-License-Identifier: Apache-2.0
# What the entries of the core's catalogues say of themselves, as dicts.


def _shortest(value):
    """A float32 as the number that it was written as."""
    return float(str(np.float32(value)))


cdef dict _fields(vector[CppFieldDescription] fields):
    return {field.name: {"default": _shortest(field.initial), "minimum": field.minimum,
                         "below": field.below, "doc": field.doc}
            for field in fields}


cdef dict _entry(CppEntryDescription entry):
    return {"doc": entry.doc, "fields": _fields(entry.fields)}


def optimizers():
    """See ``_core.pyi``."""
    return {entry.name: {**_entry(entry),
                         "states": {state.name: "row" if state.per_row else "element"
                                    for state in entry.states},
                         "moves_untouched_rows": entry.moves_untouched_rows,
                         "decays": entry.decays}
            for entry in describe_optimizers()}


def adjustments():
    """See ``_core.pyi``."""
    return _fields(describe_adjustments())


def activations():
    """See ``_core.pyi``."""
    return {entry.name: {"op": entry.op, **_entry(entry)} for entry in describe_activations()}


def losses():
    """See ``_core.pyi``."""
    return {entry.name: {"op": entry.op, "labels": (entry.least_label, entry.most_label),
                         "prediction": entry.prediction,
                         **_entry(entry)} for entry in describe_losses()}


def metrics():
    """See ``_core.pyi``."""
    return {entry.name: _entry(entry) for entry in describe_metrics()}
