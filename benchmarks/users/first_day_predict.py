# SPDX-License-Identifier: Apache-2.0
import numpy as np

import hugectr

model = hugectr.CTRClassifier.load("model")
chances = model.predict_proba("test.csv")[:, 1]
np.savetxt("predictions.csv", chances, header="probability", comments="")
