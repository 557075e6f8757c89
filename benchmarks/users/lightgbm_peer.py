# SPDX-License-Identifier: Apache-2.0
"""LightGBM's default on two CSV files; needs lightgbm and pandas, and nothing of this project.

Run: python lightgbm_peer.py TRAIN.csv TEST.csv LABEL OUT.csv
"""

import sys

import lightgbm
import pandas as pd


def main() -> None:
    """Read, make text categorical, fit, predict, write."""
    train_file, test_file, label, out = sys.argv[1:]
    train, test = pd.read_csv(train_file), pd.read_csv(test_file)
    for name in train.columns:
        if not pd.api.types.is_numeric_dtype(train[name]):
            train[name] = train[name].astype("category")
            test[name] = pd.Categorical(test[name], categories=train[name].cat.categories)
    model = lightgbm.LGBMClassifier(verbose=-1)
    model.fit(train.drop(columns=label), train[label])
    chances = model.predict_proba(test.drop(columns=label))[:, 1]
    pd.DataFrame({"probability": chances}).to_csv(out, index=False)


if __name__ == "__main__":
    main()
