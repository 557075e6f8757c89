# SPDX-License-Identifier: Apache-2.0
"""One process of a job that saves or resumes: checkpoint_job.py SETTINGS.json."""

import json
import sys
from pathlib import Path

from oracle.small_net import SIZES, build, losses

from hugectr import InvalidArgument, processes
from hugectr.spec.enums import DataReaderType_t

settings = json.loads(Path(sys.argv[1]).read_text())
folder = Path(settings["folder"])


def make():
    return build(
        DataReaderType_t.Raw,
        settings["source"],
        slot_size_array=SIZES,
        float_label_dense=True,
        vvgpu=settings["vvgpu"],
        embedding=settings["embedding"],
    )


model = make()
curve = []
if settings["action"] == "save":
    losses(model, 8)
    model.save(folder / "run", delta=True)
    losses(model, 3)
    model.save(folder / "run", delta=True, background=True)
    model.wait_for_save()
    model.save_params_to_files(str(folder / "files" / "m"), 11)
    curve = losses(model, 4)  # from step 11 on
elif settings["action"] == "resume":
    model.resume(folder / "run")
    model.save(folder / settings["again"])  # full
    model.save_params_to_files(str(folder / settings["again"] / "m"), 11)
    curve = losses(model, 4)
    ((keys, _),) = model.get_incremental_model()
    assert len(keys) == len(model.session.table(0).dump()["keys"])
elif settings["action"] == "refused":  # what the model is goes on as if nothing had been asked
    curve = losses(model, 2)
    said = ""
    try:
        model.resume(folder / "run")
    except InvalidArgument as error:
        said = str(error)
    assert "there is no sample" in said
    curve += losses(model, 3)
else:  # files
    prefix = folder / "files" / "m"
    model.load_dense_weights(f"{prefix}_dense_11.model")
    model.load_dense_optimizer_states(f"{prefix}_opt_dense_11.model")
    model.load_sparse_weights([f"{prefix}0_sparse_11.model"])
    model.load_sparse_optimizer_states([f"{prefix}0_opt_sparse_11.model"])
    model.save_params_to_files(str(folder / settings["again"] / "m"), 11)
if processes.current().rank == 0:
    Path(settings["result"]).write_text(json.dumps(curve))
