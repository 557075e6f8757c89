# SPDX-License-Identifier: Apache-2.0
"""A classifier and a regressor in scikit-learn's conventions."""

from hugectr.estimator.classifier import CTRClassifier
from hugectr.estimator.regressor import CTRRegressor

__all__ = ["CTRClassifier", "CTRRegressor"]
