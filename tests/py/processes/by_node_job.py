# SPDX-License-Identifier: Apache-2.0
"""train_job.py in processes that stand for nodes: `nodes` of the settings has one number each."""

import json
import os
import runpy
import sys
from pathlib import Path

settings = json.loads(Path(sys.argv[1]).read_text())
rank = int(os.environ["RANK"])
os.environ["HUGECTR_NODE"] = f"node {settings['nodes'][rank]}"
os.environ["HUGECTR_BY_NODE"] = settings["by_node"][rank % len(settings["by_node"])]
runpy.run_path(str(Path(__file__).with_name("train_job.py")), run_name="__main__")
