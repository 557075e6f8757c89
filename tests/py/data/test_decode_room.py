# SPDX-License-Identifier: Apache-2.0
"""Address space is looked for before pyarrow decodes: below a limit there is an error, no abort."""

import json
import subprocess
import sys

BODY = """
import json, resource
from pathlib import Path
from hugectr.data.decode_room import decode_room
from hugectr import OutOfMemory

def limit(mib):
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (mib << 20), -1))

def enter(size):
    try:
        with decode_room(size << 20, "row group 3 of 'a.parquet'"):
            return "entered"
    except OutOfMemory as error:
        return str(error)

said = {}
limit(40)  # room for one part of 8 MiB (20 MiB with its pages), not for two at once
said["one"] = enter(8)
with decode_room(8 << 20, "another"):
    said["beside"] = enter(16)
said["after"] = enter(8)
said["too_large"] = enter(64)
said["after_a_refusal"] = enter(8)
print(json.dumps(said))
"""


def test_parts_decoded_at_once_need_room_together():
    done = subprocess.run(
        [sys.executable, "-c", BODY], capture_output=True, text=True, check=True, timeout=60
    )
    said = json.loads(done.stdout)
    assert [said[name] for name in ("one", "after", "after_a_refusal")] == ["entered"] * 3
    for name, mib in (("beside", 36), ("too_large", 132)):
        assert said[name].startswith(f"decoding row group 3 of 'a.parquet' takes about {mib} MiB")
        assert "ulimit -v" in said[name]
