# SPDX-License-Identifier: Apache-2.0
# The learning rate of each step, for loops of one's own.


cdef class LearningRateScheduler:
    """A learning rate a step: warm-up, plateau, polynomial decay.

    In step s = 1, 2, ... it is ``base_lr * s / warmup_steps`` up to ``warmup_steps``, then
    ``base_lr``; with ``decay_start`` from the step behind it on
    ``base_lr * ((decay_start + decay_steps - s) / decay_steps) ** decay_power``, but no less than
    ``end_lr``, and ``end_lr`` when ``decay_steps`` steps have decayed.

    Parameters
    ----------
    base_lr : float
    warmup_steps : int
        1: no warm-up.
    decay_start : int
        0: no decay.
    decay_steps : int
    decay_power : float
        At least 1.
    end_lr : float

    Raises
    ------
    InvalidArgument
        When one of them is out of its range.
    """

    cdef unique_ptr[CppLearningRateScheduler] _it

    def __cinit__(self, base_lr, warmup_steps=1, decay_start=0, decay_steps=1, decay_power=2.0,
                  end_lr=0.0):
        f = _Fields("learning rate", dict(
            lr=base_lr, warmup_steps=warmup_steps, decay_start=decay_start,
            decay_steps=decay_steps, decay_power=decay_power, end_lr=end_lr))
        self._it.reset(new CppLearningRateScheduler(_lr_params(f)))

    def get_next(self):
        """The rate of the next step, which is then the current one."""
        return deref(self._it).get_next()

    def get_lr(self):
        """The rate that ``get_next`` returned last; 0 before."""
        return deref(self._it).get_lr()
