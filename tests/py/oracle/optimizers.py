# SPDX-License-Identifier: Apache-2.0
"""Optimizer update rules in float64, update type Local."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Names in the order of the core's enum, with the number of state arrays.
STATES = {
    "Adam": 2,
    "AdaGrad": 1,
    "MomentumSGD": 1,
    "Nesterov": 1,
    "SGD": 0,
    "Ftrl": 2,
    "RowWiseAdaGrad": 1,
    "RMSProp": 1,
}
#: Those whose state is one number a row of a table.
ROW_WISE = ("RowWiseAdaGrad",)


def state_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of a state of rows of this shape."""
    return (shape[0], 1) if name in ROW_WISE else shape


def adjusted(
    w: Array,
    g: Array,
    lr: float,
    weight_decay: float = 0.0,
    l1: float = 0.0,
    l2: float = 0.0,
    clip_value: float = 0.0,
) -> tuple[Array, Array]:
    """Weights and gradients as a rule gets them: clipped, penalised, decayed."""
    if clip_value > 0:
        g = np.clip(g, -clip_value, clip_value)
    return w - lr * weight_decay * w, g + l2 * w + l1 * np.sign(w)


def optimizer_step(
    name: str,
    w: Array,
    g: Array,
    states: list[Array],
    lr: float,
    step: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-7,
    momentum_factor: float = 0.0,
    beta: float = 0.0,
    lambda1: float = 0.0,
    lambda2: float = 0.0,
    rho: float = 0.9,
    **adjustments: float,
) -> tuple[Array, list[Array]]:
    """Weights and states after update number `step` (from 1) with gradient `g`.

    Weights are rows of a table, (n, d), or dense ones, (n,), which are rows of their own.
    """
    if adjustments:
        w, g = adjusted(w, g, lr, **adjustments)
    if name == "SGD":
        return w - lr * g, []
    if name == "MomentumSGD":
        m = momentum_factor * states[0] - lr * g
        return w + m, [m]
    if name == "Nesterov":
        m = momentum_factor * states[0] - lr * g
        return w - momentum_factor * states[0] + (1 + momentum_factor) * m, [m]
    if name == "AdaGrad":
        a = states[0] + g * g
        return w - lr * g / (np.sqrt(a) + epsilon), [a]
    if name == "RowWiseAdaGrad":
        a = states[0] + ((g * g).mean(axis=1, keepdims=True) if g.ndim == 2 else g * g)
        return w - lr * g / (np.sqrt(a) + epsilon), [a]
    if name == "Ftrl":
        n, tiny = states[0] + g * g, 2.0**-23
        z = states[1] + g - (np.sqrt(n + tiny) - np.sqrt(states[0] + tiny)) * w / lr
        root = np.sqrt(n + tiny) / lr + lambda2 + beta / lr
        return np.where(np.abs(z) > lambda1, (lambda1 * np.sign(z) - z) / root, 0.0), [n, z]
    if name == "RMSProp":
        v = rho * states[0] + (1 - rho) * g * g
        return w - lr * g / (np.sqrt(v) + epsilon), [v]
    m = beta1 * states[0] + (1 - beta1) * g
    v = beta2 * states[1] + (1 - beta2) * g * g
    lr_t = lr * np.sqrt(1 - beta2**step) / (1 - beta1**step)
    return w - lr_t * m / (np.sqrt(v) + epsilon), [m, v]
