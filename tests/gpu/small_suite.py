# SPDX-License-Identifier: Apache-2.0
"""What runs under compute-sanitizer: a few training steps and evaluations of each kind."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from census import train

for embedding in ("Distributed", "Localized"):
    for optimizer, update in (("SGD", "Local"), ("Adam", "Local"), ("Adam", "Global")):
        curve, model = train("cuda", optimizer, 6, embedding=embedding, update=update)
        model.eval()
        print(embedding, optimizer, update, curve[-1], dict(model.get_eval_metrics()))
