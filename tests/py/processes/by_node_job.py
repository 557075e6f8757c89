# SPDX-License-Identifier: Apache-2.0
"""A job in processes that stand for nodes: `nodes` of the settings has one number each.

`script_of_nodes` is what they run, from tests/py on; train_job.py by itself.
"""

import json
import os
import runpy
import sys
from pathlib import Path

settings = json.loads(Path(sys.argv[1]).read_text())
rank = int(os.environ["RANK"])
os.environ["HUGECTR_NODE"] = f"node {settings['nodes'][rank]}"
os.environ["HUGECTR_BY_NODE"] = settings["by_node"][rank % len(settings["by_node"])]
script = Path(__file__).parents[1] / settings.get("script_of_nodes", "processes/train_job.py")
runpy.run_path(str(script), run_name="__main__")
