# SPDX-License-Identifier: Apache-2.0
"""Rows that come and go: the same ones, with the same bits, in one process and in two."""

import json
from pathlib import Path

import numpy as np
import pytest
from processes import job

SCRIPT = Path(__file__).with_name("row_lives_job.py")
STEPS = 12
LIVES = {
    "lru": {"max_rows": 60, "evict": "lru", "evict_every": 3},
    "lfu": {"max_rows": 50, "evict": "lfu", "decay": 0.6, "evict_every": 2},
    "ttl": {"evict": "ttl", "ttl": 4, "evict_every": 2, "admit_after": 2},
    "time": {
        "evict": "ttl",
        "ttl": 900,
        "evict_every": 2,
        "max_rows": 90,
        "ttl_column": "time",
    },
}


def rows(folder, life, optimizer, vvgpu, seed, untils, **more):
    """All rows of a job that was started as often as ``untils`` says, by (slot, key)."""
    folder.mkdir()
    for until in untils:
        file = folder / "settings.json"
        file.write_text(
            json.dumps(
                {
                    "life": life,
                    "optimizer": optimizer,
                    "vvgpu": vvgpu,
                    "seed": seed,
                    "steps": STEPS,
                    "until": until,
                    **more,
                }
            )
        )
        status, out, err = job.run("launch", len(vvgpu), SCRIPT, file)
        assert status == 0, out + err
    parts = [dict(np.load(folder / f"rows-{rank}.npz")) for rank in range(len(vvgpu))]
    assert len({int(part.pop("evicted")) for part in parts}) == 1
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    found = {}
    for index in range(2):
        keys = joined[f"{index}.keys"]
        slots = joined.get(f"{index}.slot_ids", np.zeros(len(keys), np.uint64))
        order = np.lexsort([keys, slots])
        for name, values in joined.items():
            if name.startswith(f"{index}."):
                found[name] = values[order]
    return found


@pytest.mark.parametrize(
    ("name", "optimizer"), [("lru", "Adam"), ("lfu", "AdaGrad"), ("ttl", "Adam"), ("time", "Adam")]
)
def test_one_and_two_processes(tmp_path, rng, name, optimizer):
    seed = int(rng.integers(2**31))
    settings = LIVES[name], optimizer
    wanted = rows(tmp_path / "one", *settings, [[0, 1, 2, 3]], seed, [STEPS])
    found = rows(tmp_path / "two", *settings, [[0, 1], [0, 1]], seed, [STEPS])
    again = rows(tmp_path / "again", *settings, [[0], [0]], seed, [5, STEPS])
    # One of the processes has no row of a table, and tells what rows go all the same.
    of_one = rows(tmp_path / "of one", *settings, [[0], [0]], seed, [5, STEPS], device=1)
    assert len(wanted["0.keys"]) > 10
    for other in (found, again, of_one):
        assert wanted.keys() == other.keys()
        for part in wanted:
            np.testing.assert_array_equal(wanted[part], other[part], err_msg=part)


def test_a_full_table_stops_all_processes_before_the_batch(tmp_path, rng):
    settings = {
        "life": {"max_rows": 80},
        "optimizer": "Adam",
        "vvgpu": [[0], [0]],
        "seed": int(rng.integers(2**31)),
        "steps": STEPS,
        "until": STEPS,
    }
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings))
    status, out, err = job.run("launch", 2, SCRIPT, file)
    assert status != 0
    # By whoever is first; another that comes to the same has nothing to add (processes.report).
    assert "may have max_rows = 80 in the whole job" in err, f"{out}\n{err}"
    assert "ended with status 1; the other 1 have ended too" in err
    assert not list(tmp_path.glob("rows-*"))
