# SPDX-License-Identifier: Apache-2.0
import hugectr

model = hugectr.CTRClassifier(random_state=1).fit("train.csv", "clicked")
print(model.evaluate("test.csv", "clicked"))
model.save("model")
