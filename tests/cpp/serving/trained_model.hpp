// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/model/session.hpp"
#include "tests/cpp/model/small_model.hpp"

namespace hugectr {

inline constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
inline constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

/// small_model() with BatchNorm, and slots of no, one or several keys that are averaged.
ModelSpec many_hot_model(EmbeddingType type);

/// Samples of that model: slots with 0 to 3 keys, some of which training never saw.
std::shared_ptr<MemoryData> many_hot_data(std::size_t samples, std::uint32_t seed);

/// A session that has trained on `data` for some steps, and evaluates it.
std::unique_ptr<Session> trained(const SolverSpec& solver, const ModelSpec& model,
                                 const std::shared_ptr<MemoryData>& data);

/// The same weights, statistics and rows in a session that does not train and has no reader.
std::unique_ptr<Session> for_prediction(Session& from, const SolverSpec& solver, ModelSpec model);

/// What evaluation says about all of its data: a tensor, batch after batch.
std::vector<float> evaluated(Session& session, const std::string& tensor, std::size_t samples);

/// Samples in another order: sample i of what is returned was order[i].
std::shared_ptr<MemoryData> reordered(const MemoryData& data,
                                      const std::vector<std::size_t>& order);

/// What `call` is refused with; empty: it is not.
template <class F>
std::string refusal(const F& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

inline bool says(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

}  // namespace hugectr
