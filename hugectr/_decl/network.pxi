# SPDX-License-Identifier: Apache-2.0
# The dense network of a Session: parameters in and out, tensors, views.


cdef class SessionNetwork:
    """See ``_core.pyi``."""

    cdef CppSessionNetwork* _it
    cdef Session _session  # keeps it: it is a part of that
    cdef readonly object _turn

    def __cinit__(self, Session session not None):
        self._it = &session._it.network()
        self._session = session
        self._turn = session._turn

    def layers(self):
        cdef vector[CppDenseLayerSpec] specs = self._it.layers()
        return [dict(type=layer.type, bottoms=list(layer.bottoms), tops=list(layer.tops),
                     attributes=_attributes_dict(layer.attributes))
                for layer in specs]

    def dense_weights(self):
        cdef vector[float] values
        with nogil:
            values = self._it.dense_weights()
        return _float_array(values)

    def set_dense_weights(self, values):
        cdef vector[float] floats = _floats(values)
        with nogil:
            self._it.set_dense_weights(floats)

    def dense_optimizer_states(self):
        cdef vector[float] values
        with nogil:
            values = self._it.dense_optimizer_states()
        return _float_array(values)

    def set_dense_optimizer_states(self, values):
        cdef vector[float] floats = _floats(values)
        with nogil:
            self._it.set_dense_optimizer_states(floats)

    def reset_dense_optimizer_states(self):
        with nogil:
            self._it.reset_dense_optimizer_states()

    def non_trainables(self):
        cdef vector[CppNonTrainableValues] values
        with nogil:
            values = self._it.non_trainables()
        return [(v.layer, _double_array(v.mean), _float_array(v.var)) for v in values]

    def set_non_trainables(self, values):
        cdef vector[CppNonTrainableValues] all_values = _non_trainable_values(values)
        with nogil:
            self._it.set_non_trainables(all_values)

    def loss_scaling_state(self):
        cdef CppLossScalingState s
        with nogil:
            s = self._it.loss_scaling_state()
        return dict(scale=s.scale, good_steps=s.good_steps, skipped_steps=s.skipped_steps)

    def set_loss_scaling_state(self, state):
        cdef CppLossScalingState s = _loss_scaling_state(state)
        with nogil:
            self._it.set_loss_scaling_state(s)

    def check_out_tensor(self, str name, train):
        cdef CppShape shape
        cdef vector[float] values
        cdef string tensor = name
        cdef cbool training = train
        with nogil:
            values = self._it.check_out_tensor(tensor, training, &shape)
        return _float_array(values).reshape(<vector[size_t]>shape)

    def tensor_view(self, str name, train, size_t device):
        return _view(self._it.tensor_view(name, <cbool>train, device))

    def weight_names(self):
        return list(self._it.weight_names())

    def weight_view(self, str name, size_t device):
        return _view(self._it.weight_view(name, device))

    def state_view(self, str name, size_t state, size_t device):
        return _view(self._it.state_view(name, state, device))

    def set_weight(self, str name, TensorView values not None):
        cdef string weight = name
        with nogil:
            self._it.set_weight(weight, values._it)

    def captured_pieces(self):
        return self._it.captured_pieces()
