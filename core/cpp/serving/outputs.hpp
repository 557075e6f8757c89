// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace hugectr {

/// The tensor of the evaluation graph that an output is made of. `score`: the input of the loss, ""
/// where there is none; InvalidArgument then for what is made of it.
std::string tensor_of(const std::string& output, const std::string& score);

/// sigmoid of each.
void to_probabilities(std::vector<float>& logits);

}  // namespace hugectr
