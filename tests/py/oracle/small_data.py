# SPDX-License-Identifier: Apache-2.0
"""Generated files for the model of ``small_net``."""

from oracle.small_net import DENSE, SIZES

from hugectr.spec.enums import DataReaderType_t
from hugectr.tools import DataGenerator, DataGeneratorParams

NAMES = {"Norm": "list.txt", "Raw": "a.bin", "Parquet": "list.txt"}


def generate(folder, kind, **changes):
    """The same samples in any format; returns the paths of training and evaluation data.

    By default 3 files of 700 for training and 2 of 300 for evaluation; changes go to
    ``DataGeneratorParams``.
    """
    source, eval_source = folder / kind / NAMES[kind], folder / kind / "eval" / NAMES[kind]
    settings = {
        "label_dim": 1,
        "dense_dim": DENSE,
        "num_slot": len(SIZES),
        "i64_input_key": True,
        "source": str(source),
        "eval_source": str(eval_source),
        "slot_size_array": SIZES,
        "num_files": 3,
        "eval_num_files": 2,
        "num_samples_per_file": 700,
        "num_samples": 2100,
        "eval_num_samples": 600,
        "float_label_dense": True,
        "planted_signal": True,
        "seed": 3,
    }
    params = DataGeneratorParams(DataReaderType_t[kind], **(settings | changes))
    DataGenerator(params).generate(progress=False, processes=1)
    return str(source), str(eval_source)
