# SPDX-License-Identifier: Apache-2.0
"""Fuzzes ``manifest.json`` of native checkpoints: run it with ``tools/fuzz.sh manifest``.

The input is the file; its checksum is put right, so that what lies behind is reached. It lies among
the files of a small checkpoint. What reading it allows must then hold for all that uses it.
"""

import contextlib
import importlib
import json
import shutil
import sys
from pathlib import Path

with contextlib.suppress(ImportError):  # the seeds do without
    import atheris

    with atheris.instrument_imports(include=["json", "hugectr.checkpoints"]):
        importlib.import_module("hugectr.checkpoints")

sys.path.insert(0, __file__.rpartition("/")[0])
from python_target import run, scratch

from hugectr.base.errors import DataError
from hugectr.checkpoints import verify
from hugectr.checkpoints.description import differences
from hugectr.checkpoints.export import dense_tensors
from hugectr.checkpoints.inspect import format_report, inspect_model
from hugectr.checkpoints.manifest import MANIFEST, manifest_text, read_manifest
from hugectr.checkpoints.merge import MergedRows, links_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "checkpoints" / "b17f4bf"
FOLDER = scratch()
for place in (FIXTURES / "deltas").iterdir():
    shutil.copytree(place, FOLDER / place.name)
LAST = max(FOLDER.iterdir())

#: As ``description_of`` makes them.
DESCRIPTION = {
    "label": {"name": "label", "dim": 1},
    "dense": {"name": "dense", "dim": 3},
    "keys": "int64",
    "precision": "float16",
    "loss_scaling": "dynamic",
    "optimizer": {"type": "Adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-07},
    "inputs": [{"name": "ones", "slots": 2}],
    "tables": [
        {"name": "one", "type": "Localized", "input": "ones", "vec_size": 4, "combiner": "sum",
         "slot_sizes": [3, 4], "optimizer": {"type": "Adam", "update_type": "LazyGlobal"}}
    ],
    "layers": [
        {"name": "flat", "type": "Reshape", "inputs": ["one"], "outputs": ["flat"],
         "parameters": {"leading_dim": 8, "selected": False, "selected_slots": [1, 2]}}
    ],
}  # fmt: skip


def target(content: bytes) -> None:
    """A manifest is damaged, which can be shown, or all that it says can be used."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(content)
        if isinstance(value, dict):
            value.pop("crc32", None)
            content = manifest_text(value)
    (LAST / MANIFEST).write_bytes(content)
    format_report(inspect_model(LAST)).encode()
    try:
        manifest = read_manifest(LAST)
        if manifest.get("description") is not None:
            "\n".join(differences(manifest["description"], DESCRIPTION)).encode()
            "\n".join(differences(DESCRIPTION, manifest["description"])).encode()
        links = links_of(LAST)
        verify(LAST)
        for index in range(len(manifest["tables"])):
            rows = MergedRows(links, index)
            assert sum(len(block["key"]) for block in rows.blocks()) == rows.count()
        dense_tensors(links[-1])
    except DataError as error:
        str(error).encode()


def seeds() -> dict[str, bytes]:
    """The three links of the chain, and the last one in the newest format."""
    found = {path.name: (path / MANIFEST).read_bytes() for path in FOLDER.iterdir()}
    newest = json.loads(found[LAST.name]) | {"format": 3, "run": "0f" * 16}
    del newest["crc32"]
    return found | {"newest": manifest_text(newest | {"description": DESCRIPTION})}


if __name__ == "__main__":
    run(target, seeds())
