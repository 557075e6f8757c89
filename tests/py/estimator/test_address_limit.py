# SPDX-License-Identifier: Apache-2.0
"""Little data needs little address space: under `ulimit -v` estimators do as they do without."""

import resource
import subprocess
import sys
from pathlib import Path

#: Half of it is what Python, NumPy and Arrow map before anything is trained.
LIMIT = 3 << 30

DAY = """
import hashlib, sys
from oracle.clicks import clicks, part
from hugectr import CTRClassifier
columns = clicks(500)
model = CTRClassifier(random_state=3, epochs=2).fit(part(columns, 0, 400), "clicked")
test = part(columns, 400, 500)
found = model.predict_proba(test)
model.save(sys.argv[1])
again = CTRClassifier.load(sys.argv[1]).predict_proba(test)
assert again.tobytes() == found.tobytes()
print(hashlib.sha256(found.tobytes()).hexdigest())
"""


def _day(folder: Path, limit: int) -> str:
    run = subprocess.run(
        [sys.executable, "-c", DAY, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parent.parent,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_model_is_trained_saved_and_loaded_in_three_gib_of_addresses(tmp_path: Path) -> None:
    free = _day(tmp_path / "free", resource.RLIM_INFINITY)
    assert _day(tmp_path / "limited", LIMIT) == free
