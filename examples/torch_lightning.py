# SPDX-License-Identifier: Apache-2.0
"""DLRM under Lightning: the tables' optimizer beside that of the dense part.

Lightning's automatic optimization knows one optimizer; with two, ``training_step`` calls them, as a
plain loop does. Rows go into Lightning's checkpoints with the module's ``state_dict()``.

Run: python examples/torch_lightning.py [--steps 300] [--batch 1024] [--accelerator gpu]
     (pip install lightning)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import lightning
import torch
from torch_dlrm import DLRM, SIZES, Clicks, auc


class Batches(torch.utils.data.IterableDataset):
    """Generated batches; Lightning brings them to the device."""

    def __init__(self, seed: int, steps: int, samples: int) -> None:
        self._seed, self._steps, self._samples = seed, steps, samples

    def __iter__(self) -> Iterator[Any]:
        data = Clicks(self._seed)
        for _ in range(self._steps):
            yield data.batch(self._samples, torch.device("cpu"))


class Training(lightning.LightningModule):
    """DLRM with its two optimizers."""

    def __init__(self, device: torch.device, seed: int) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = DLRM(device, seed)
        self.scores: list[torch.Tensor] = []
        self.clicks: list[torch.Tensor] = []

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [
            torch.optim.Adam(self.model.parameters(), lr=0.003),
            self.model.tables.optimizer(lr=0.01),
        ]

    def training_step(self, batch: Any, index: int) -> None:
        numbers, keys, clicked = batch
        optimizers = self.optimizers()
        for each in optimizers:
            each.zero_grad()
        logits = self.model(numbers, keys)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, clicked)
        self.manual_backward(loss)
        for each in optimizers:
            each.step()
        self.log("loss", loss)

    def validation_step(self, batch: Any, index: int) -> None:
        numbers, keys, clicked = batch
        self.scores.append(self.model(numbers, keys))
        self.clicks.append(clicked)

    def on_validation_epoch_end(self) -> None:
        self.log("auc", auc(torch.cat(self.scores), torch.cat(self.clicks)))
        self.scores, self.clicks = [], []


def main() -> None:
    parser = argparse.ArgumentParser(description="DLRM under Lightning")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--accelerator", default="cpu", choices=["cpu", "gpu"])
    parser.add_argument("--folder", default=None, help="where Lightning puts its checkpoints")
    parser.add_argument("--seed", type=int, default=7)
    a = parser.parse_args()
    torch.manual_seed(a.seed)
    training = Training(torch.device("cuda" if a.accelerator == "gpu" else "cpu"), a.seed)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator=a.accelerator,
        devices=1,
        logger=False,
        enable_checkpointing=a.folder is not None,
        default_root_dir=a.folder,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = [
        torch.utils.data.DataLoader(Batches(a.seed + 1, a.steps, a.batch), batch_size=None),
        torch.utils.data.DataLoader(Batches(a.seed + 2, 4, 5_000), batch_size=None),
    ]
    trainer.fit(training, *data)
    rows = {name: len(training.model.tables.rows(name)) for name in SIZES}
    print(f"AUC {float(trainer.callback_metrics['auc']):.4f}; rows {rows}")


if __name__ == "__main__":
    main()
