# SPDX-License-Identifier: Apache-2.0
"""Predictions by the files of the original layout, as its scripts ask for them.

``CreateInferenceSession`` builds the model that ``Model.graph_to_json`` wrote and takes the weights
that ``Model.save_params_to_files`` wrote. For a model of this version ``hugectr.load`` of a
checkpoint is shorter.
"""

from hugectr.inference.parameters import InferenceParams
from hugectr.inference.session import CreateInferenceSession, InferenceSession

__all__ = ["CreateInferenceSession", "InferenceParams", "InferenceSession"]
