# SPDX-License-Identifier: Apache-2.0
"""A classifier in scikit-learn's conventions."""

from hugectr.estimator.classifier import CTRClassifier

__all__ = ["CTRClassifier"]
