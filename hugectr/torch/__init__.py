# SPDX-License-Identifier: Apache-2.0
"""hugectr's tables under a PyTorch model.

Rows are found by 64-bit keys, come with their keys, and are updated by fused optimizers; the dense
part of the model stays PyTorch's. Needs torch 2.4 or later: ``pip install hugectr[torch]``.
``import hugectr`` alone never imports torch.
"""

from hugectr.torch.requirement import require_torch

require_torch()

from hugectr.torch.configs import TableConfig  # noqa: E402
from hugectr.torch.distributed_checkpoint import tables_to_load, tables_to_save  # noqa: E402
from hugectr.torch.modules import (  # noqa: E402
    EmbeddingBag,
    EmbeddingBagCollection,
    EmbeddingCollection,
)
from hugectr.torch.optimizer import CollectionOptimizer  # noqa: E402
from hugectr.torch.pipeline import pipeline, until_all_end  # noqa: E402
from hugectr.torch.plain import export_embedding_bag, import_embedding_bag  # noqa: E402
from hugectr.torch.vectors import JaggedVectors, PooledVectors  # noqa: E402

__all__ = [
    "CollectionOptimizer",
    "EmbeddingBag",
    "EmbeddingBagCollection",
    "EmbeddingCollection",
    "JaggedVectors",
    "PooledVectors",
    "TableConfig",
    "export_embedding_bag",
    "import_embedding_bag",
    "pipeline",
    "tables_to_load",
    "tables_to_save",
    "until_all_end",
]
