// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/model/spec.hpp"

/// Every sparse input can say how many keys its slots have: "<top_name>_lengths", (b, slots)
/// float32 also in mixed precision, which is there when a layer names it as a bottom.
namespace hugectr {

std::string lengths_name(const SparseInput& input);
/// Whether a layer of the model reads the lengths of an input (and none makes a tensor so called).
bool reads_lengths(const ModelSpec& model, const SparseInput& input);

/// Tensors of a network by name; empty: it has none of that name.
using TensorOf = std::function<TensorRef(const std::string&)>;
/// Enqueues: lengths of samples first_sample .. first_sample + b - 1 of a batch into the tensors
/// that there are. `sparse`: the sparse inputs of the whole batch.
void write_lengths(const OpContext& context, const InputSpec& input,
                   std::span<const SparseTensor> sparse, std::size_t first_sample,
                   const TensorOf& tensor);

}  // namespace hugectr
