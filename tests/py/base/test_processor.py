# SPDX-License-Identifier: Apache-2.0
"""A processor without AVX2 gets a message instead of an illegal instruction."""

import platform
from pathlib import Path

import pytest

from hugectr.base import processor

OLD = "processor\t: 0\nflags\t\t: fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt avx\nbugs\t\t:\n"


def test_features_an_old_processor_lacks():
    missing = ["avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"]
    assert processor.missing_features(OLD) == missing
    assert processor.missing_features(OLD.replace("avx", " ".join(["avx", *missing]))) == []


def test_nothing_known_is_nothing_missing():
    assert processor.missing_features("Features : fp asimd\n") == []


def test_the_message_names_what_is_missing_and_the_way_out(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: OLD)
    with pytest.raises(ImportError, match=r"lacks: avx2.*HUGECTR_CPU_ARCH"):
        processor.require_features()


def test_this_machine_runs_the_package():
    processor.require_features()
