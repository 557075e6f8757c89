// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "core/cpp/embedding/embedding_params.hpp"
#include "core/cpp/embedding/placement/placement.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {

/// The keys of the batches that a table looks up.
struct BatchKeys {
  std::vector<std::size_t> of_slot;  ///< most keys of a sample in each slot (un-pooled: position)
  bool evaluates = true;             ///< whether evaluation batches are looked up too
  bool joined = false;               ///< whether they come from several inputs
};

/// Bytes of what one table needs on a device to look batches up, besides its rows.
struct LookupSize {
  std::size_t train_plans = 0, eval_plan = 0, exchange = 0;
  std::size_t staging = 0;  ///< of rows in tiers: which of a plan are to come
};

/// Most keys of a global batch of `samples` that the device `rank` has to look up: where keys are
/// dealt by hash, its share of them.
std::size_t own_keys(const Placement& placement, std::size_t rank, const BatchKeys& keys,
                     std::size_t samples);
/// By the code that takes it. Training plans are counted as if rows travelled between devices where
/// they may (`exchange` "unique" or "auto"). `memory`: a counting resource.
LookupSize size_of_lookup(const SparseEmbeddingHashParams& params, const Placement& placement,
                          std::size_t rank, const BatchKeys& keys,
                          const std::shared_ptr<MemoryResource>& memory);

}  // namespace hugectr
