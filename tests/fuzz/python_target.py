# SPDX-License-Identifier: Apache-2.0
"""What the Python fuzz targets share: seeds, mutations, a scratch folder. See tools/fuzz.sh."""

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

MEMORY = Path("/dev/shm")


def run(target: Callable[[bytes], None], seeds: Mapping[str, bytes]) -> None:
    """Write the seeds (``--seeds FOLDER``), or fuzz ``target`` with libFuzzer's options.

    Parameters
    ----------
    target : function of bytes
        Raises only for a finding.
    seeds : dict of str to bytes
        Inputs that the target accepts.
    """
    if sys.argv[1:2] == ["--seeds"]:
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / name).write_bytes(content)
        return
    import atheris
    from json_mutations import mutate

    def mutator(content: bytes, most: int, seed: int) -> bytes:
        changed = mutate(content, seed) if seed % 4 else None
        if changed is None or len(changed) > most:
            return bytes(atheris.Mutate(content, most))
        return changed

    atheris.Setup(sys.argv, target, custom_mutator=mutator)
    atheris.Fuzz()


def scratch() -> Path:
    """A folder of this process, in memory where there is one."""
    return Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
