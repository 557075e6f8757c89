# SPDX-License-Identifier: Apache-2.0
"""Optimizers of plain tables: torch's, and those it has not, as their authors write them."""

from functools import partial

import torch

import hugectr

RATE = 0.1


class RowWiseAdagrad(torch.optim.Optimizer):
    """A sum of mean squares a row, as its authors write it; dense gradients."""

    def __init__(self, params, lr, eps):
        super().__init__(params, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                total = self.state.setdefault(p, torch.zeros_like(p[:, :1]))
                total += p.grad.pow(2).mean(1, keepdim=True)
                p -= group["lr"] * p.grad / (total.sqrt() + group["eps"])


class AdamOfAllRows(torch.optim.Optimizer):
    """Adam as in the paper's section 2, epsilon beside the square root that is not corrected, as
    SparseAdam has it and torch.optim.Adam has not."""

    def __init__(self, params, lr, eps):
        super().__init__(params, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p] or {
                    "m": torch.zeros_like(p),
                    "v": torch.zeros_like(p),
                    "t": 0,
                }
                self.state[p] = state
                state["t"] += 1
                state["m"].lerp_(p.grad, 0.1)
                state["v"].lerp_(p.grad.square(), 0.001)
                rate = group["lr"] * (1 - 0.999 ** state["t"]) ** 0.5 / (1 - 0.9 ** state["t"])
                p -= rate * state["m"] / (state["v"].sqrt() + group["eps"])


class OfTouchedRows(torch.optim.Optimizer):
    """A rule in float64 for the rows that have a gradient; the others and their states stay.

    ``rule(w, a, b, g)`` returns what the weights and two states (touched rows, d) become.
    """

    def __init__(self, params, rule):
        super().__init__(params, {})
        self._rule = rule

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p not in self.state:
                    self.state[p] = [p.double(), *(torch.zeros_like(p).double() for _ in "ab")]
                state = self.state[p]
                touched = p.grad.ne(0).any(1)
                changed = self._rule(*(each[touched] for each in state), p.grad[touched].double())
                for each, new in zip(state, changed, strict=True):
                    each[touched] = new
                p.copy_(state[0])


def momentum(w, m, unused, g, share):
    m = share * m - RATE * g
    return w + m, m, unused


def nesterov(w, m, unused, g, share):
    after = share * m - RATE * g
    return w - share * m + (1 + share) * after, after, unused


def rms_prop(w, v, unused, g, rho, eps):
    v = rho * v + (1 - rho) * g.square()
    return w - RATE * g / (v.sqrt() + eps), v, unused


def ftrl(w, n, z, g, beta, lambda1, lambda2):
    """McMahan et al., 2013, algorithm 1, with float32's epsilon under the roots."""
    after, e = n + g.square(), 2.0**-23
    z = z + g - ((after + e).sqrt() - (n + e).sqrt()) / RATE * w
    w = (z.sign() * lambda1 - z) / (((after + e).sqrt() + beta) / RATE + lambda2)
    return torch.where(z.abs() <= lambda1, torch.zeros_like(w), w), after, z


Optimizer, Local, Global = hugectr.Optimizer_t, hugectr.Update_t.Local, hugectr.Update_t.Global


def touched(rule, **fields):
    """What makes an optimizer of this rule with these numbers."""
    return partial(OfTouchedRows, rule=partial(rule, **fields))


_FTRL = {"beta": 0.5, "lambda1": 0.02, "lambda2": 0.1}

#: Ours: which, the rows that move, its fields; and what makes the one of plain tables.
KINDS = {
    "sgd": (Optimizer.SGD, Local, {}, partial(torch.optim.SGD, lr=RATE)),
    "adagrad": (
        Optimizer.AdaGrad,
        Local,
        {"initial_accu_value": 0.0, "epsilon": 1e-6},
        partial(torch.optim.Adagrad, lr=RATE, eps=1e-6),
    ),
    "adam": (
        Optimizer.Adam,
        Local,
        {"epsilon": 1e-6},
        partial(torch.optim.SparseAdam, lr=RATE, eps=1e-6),
    ),
    "adam_of_all_rows": (
        Optimizer.Adam,
        Global,
        {"epsilon": 1e-6},
        partial(AdamOfAllRows, lr=RATE, eps=1e-6),
    ),
    "row_wise_adagrad": (
        Optimizer.RowWiseAdaGrad,
        Local,
        {"epsilon": 1e-6},
        partial(RowWiseAdagrad, lr=RATE, eps=1e-6),
    ),
    "momentum": (
        Optimizer.MomentumSGD,
        Local,
        {"momentum_factor": 0.8},
        touched(momentum, share=0.8),
    ),
    "momentum_of_all_rows": (
        Optimizer.MomentumSGD,
        Global,
        {"momentum_factor": 0.8},
        partial(torch.optim.SGD, lr=RATE, momentum=0.8),
    ),
    "nesterov": (
        Optimizer.Nesterov,
        Local,
        {"momentum_factor": 0.8},
        touched(nesterov, share=0.8),
    ),
    "nesterov_of_all_rows": (
        Optimizer.Nesterov,
        Global,
        {"momentum_factor": 0.8},
        partial(torch.optim.SGD, lr=RATE, momentum=0.8, nesterov=True),
    ),
    "rms_prop": (
        Optimizer.RMSProp,
        Local,
        {"rho": 0.8, "epsilon": 1e-3},
        touched(rms_prop, rho=0.8, eps=1e-3),
    ),
    "rms_prop_of_all_rows": (
        Optimizer.RMSProp,
        Global,
        {"rho": 0.8, "epsilon": 1e-3},
        partial(torch.optim.RMSprop, lr=RATE, alpha=0.8, eps=1e-3),
    ),
    "ftrl": (Optimizer.Ftrl, Local, _FTRL, touched(ftrl, **_FTRL)),
}


def optimizers(kind):
    """Ours, and what makes the one for the parameters of plain tables."""
    which, rows, fields, theirs = KINDS[kind]
    return hugectr.CreateOptimizer(which, rows, **fields), theirs
