# SPDX-License-Identifier: Apache-2.0
"""Opens one strange thing through every entry point: STRANGE FOLDER.

The last line of the output is a JSON list of what was neither refused by name nor read as data.
"""

import json
import os
import socket
import sys
from pathlib import Path

from faults.small_data import model, write
from hugectr.base.errors import DataError, OutOfMemory
from hugectr.command import cli
from hugectr.config.config_file import read_config
from hugectr.config.graph import read_graph
from hugectr.data.criteo import convert
from hugectr.data.inspect import inspect
from hugectr.data.inspect_columns import RawShape

strange, folder = sys.argv[1], Path(sys.argv[2])
SAMPLE = 4 * 9  # bytes of a Raw sample of the small model


def make(path):
    """Put the strange thing there; returns its path."""
    links = {"zero": "/dev/zero", "random": "/dev/urandom", "kmsg": "/proc/kmsg"}
    links["proc"] = "/proc/self/status"
    if strange in links:
        path.symlink_to(links[strange])
    elif strange == "pipe":
        os.mkfifo(path)
    elif strange == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket is short
        socket.socket(socket.AF_UNIX).bind(path.name)
        os.chdir(here)
    elif strange == "folder":
        path.mkdir()
    elif strange == "loop":
        path.symlink_to(path.name)
    elif strange == "dangling":
        path.symlink_to("nowhere")
    elif strange == "empty":
        path.touch()
    elif strange in ("sparse", "sparse_samples"):
        path.touch()
        size = (1 << 42) // SAMPLE * SAMPLE + (1 if strange == "sparse" else 0)
        os.truncate(path, size)
    elif strange == "not_utf8":
        path.write_bytes(b"1\n/data/\xff\xfe.norm\n")
    elif strange == "zero_bytes":
        path.write_bytes(b"1\n/data/\0.norm\n" * 50)
    elif strange == "long_name":
        return path.with_name("n" * 5000)
    else:
        return path.with_name(os.fsdecode(b"\xff\xfe"))
    return path


def train(kind, source, **settings):
    one = model(folder, kind, source, **settings)
    for _ in range(2):
        one.train()


def listed(path):
    name = folder / "list.txt"
    name.write_bytes(b"1\n" + os.fsencode(path) + b"\n")
    return str(name)


def in_folder(name):
    """A folder whose file of this name is the strange one; None where it can have no name."""
    place = folder / f"with_{name}"
    place.mkdir()
    if name != "a.parquet":
        write(place, "parquet")
    found = make(place / name)
    if found.name != name:
        raise DataError("a name that is strange itself is no name of this file")
    return str(place)


def command(*arguments):
    """The command line says what is wrong, and its status says so too."""
    if cli.main(list(arguments)) != 0:
        raise ValueError("refused")


good = write(folder, "raw")
path = make(folder / "strange.bin")
text = os.fspath(path)
ENTRIES = {
    "norm list": lambda: train("norm", text, eval_source=""),
    "norm file": lambda: train("norm", listed(path), eval_source=""),
    "raw": lambda: train("raw", text, eval_source=""),
    "raw evaluation": lambda: train("raw", str(good), eval_source=text),
    "raw_async": lambda: train("raw_async", text, eval_source=""),
    "parquet": lambda: train("parquet", text, eval_source=""),
    "parquet list": lambda: train("parquet", listed(path), eval_source=""),
    "parquet in a folder": lambda: train("parquet", in_folder("a.parquet"), eval_source=""),
    "metadata": lambda: train("parquet", in_folder("_metadata.json"), columns=None),
    "set_source": lambda: model(folder, "raw", str(good), eval_source="").set_source(text),
    "config": lambda: read_config(text),
    "graph": lambda: read_graph(text),
    "command": lambda: command("train", text),
    "inspect": lambda: inspect(text),
    "inspect raw": lambda: inspect(text, raw=RawShape(1, 3, (1,) * 5)),
    "criteo": lambda: convert([text], folder / "out", format="raw", processes=1, progress=False),
}
wrong = []
for name, call in ENTRIES.items():
    print(f"{strange}: {name}", file=sys.stderr, flush=True)
    try:
        call()
    except (DataError, ValueError, OutOfMemory) as error:
        print("   ", type(error).__name__, ascii(str(error))[:200], file=sys.stderr)
        if isinstance(error, UnicodeError):
            wrong.append(f"{name}: a bare {error!r}")
        continue
    except BaseException as error:
        wrong.append(f"{name}: {type(error).__name__}: {error}")
        continue
    # Zeros are legal samples of a format without a header; nothing else here is data.
    if strange != "sparse_samples" or ("raw" not in name and name != "set_source"):
        wrong.append(f"{name}: taken for data")
print(json.dumps(wrong))
