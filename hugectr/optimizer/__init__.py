# SPDX-License-Identifier: Apache-2.0
"""Optimizers and learning rates, by the name that training scripts import."""

from hugectr.spec.optimizer import (
    CreateOptimizer,
    LearningRateScheduler,
    OptParamsPy,
    Schedule,
)

__all__ = ["CreateOptimizer", "LearningRateScheduler", "OptParamsPy", "Schedule"]
