// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <random>

#include "core/cpp/model/session.hpp"

namespace hugectr {

/// Random samples with three one-key slots of 40 keys each and two dense features.
std::shared_ptr<MemoryData> random_data(std::size_t samples, std::uint32_t seed,
                                        std::int64_t first_key = 0);

/// Embedding (d 4) + dense -> 8 ReLU -> 1, BCE.
ModelSpec small_model(EmbeddingType type, Optimizer optimizer, std::size_t max_rows = 0);

/// `devices` virtual CPU devices, batch 24, seed 5.
SolverSpec small_solver(int devices);

/// Losses of `steps` steps.
std::vector<float> losses(Session& session, int steps);

}  // namespace hugectr
