# SPDX-License-Identifier: Apache-2.0
"""SIGTERM leaves nothing half written behind."""

import signal
import subprocess
import sys
import time

import pytest

from hugectr.base.interruption import terminated_in_order

SCRIPT = """
import pathlib, sys, time
from hugectr.command import data_files
from hugectr.command.cli import main

whole = data_files.encode_in_batches

def slow(*arguments, **settings):
    for batch in whole(*arguments, **settings):
        yield batch
        print("written", flush=True)
        time.sleep(100)

data_files.ROWS = 100
data_files.encode_in_batches = slow
sys.exit(main(sys.argv[1:]))
"""


def test_what_predict_has_written_so_far_goes(tmp_path):
    from hugectr.command.cli import main

    rows = "".join(f"{i % 3},{i % 2}\n" for i in range(300))
    (tmp_path / "data.csv").write_text(f"city,clicked\n{rows}")
    data, model = str(tmp_path / "data.csv"), str(tmp_path / "model")
    assert main(["train", data, "--label", "clicked", "--no-progress", "-o", model]) == 0
    out = tmp_path / "out"
    out.mkdir()
    (out / "p.csv").write_text("of before")
    words = [sys.executable, "-c", SCRIPT, "predict", model, data, "-o", str(out / "p.csv")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "written\n"
        assert len(list(out.iterdir())) == 2
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert [path.name for path in out.iterdir()] == ["p.csv"]
    assert (out / "p.csv").read_text() == "of before"


def test_a_second_one_ends_the_program_at_once():
    work = (
        "import os, signal, time\n"
        "from hugectr.base.interruption import terminated_in_order\n"
        "with terminated_in_order():\n"
        "    try: os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)\n"
        "    finally: os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)\n"
    )
    begin = time.monotonic()
    assert subprocess.run([sys.executable, "-c", work], check=False).returncode == -signal.SIGTERM
    assert time.monotonic() - begin < 8


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_a_program_of_its_own_handler_keeps_it(handler):
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with terminated_in_order():
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
