# SPDX-License-Identifier: Apache-2.0
"""killed_link_job.py FOLDER CALL: saves a checkpoint, then another, and is killed in that: before
link 0, behind it, before the last file of the manifest, behind all links; or "never"."""

import os
import signal
import sys
from pathlib import Path

from model.nets import make_model
from model.test_disk_tier import on_disk
from model.test_tiers import course, setup_of

from hugectr.checkpoints import linked, publication

folder, call = Path(sys.argv[1]), sys.argv[2]
setup = setup_of(60, optimizer="Adam")
model = make_model(on_disk(setup, folder / "rows"))
if (folder / "run").exists():
    model.resume(folder / "run")
else:
    course(model, 40)
    model.save(folder / "run")
course(model, 10)


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


link, share, text = os.link, linked.HeldLink.share, publication.manifest_text
if call == "0":
    linked.os.link = die
elif call == "1":
    linked.os.link = lambda *a, **k: (link(*a, **k), die())
elif call == "2":
    linked.HeldLink.share = lambda self, *a: (share(self, *a), die())
elif call == "3":
    publication.manifest_text = die
model.save(folder / "run")
