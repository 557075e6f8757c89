// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>

#include "core/cpp/device/op.hpp"

namespace hugectr::cuda {

/// False where the environment says HUGECTR_GEMM_ALGORITHMS=first or a graph is being captured on
/// the context's stream.
bool may_search(const OpContext& context);

/// The fastest of `candidates` ways to make one result of `bytes` bytes; 0 unless another is faster
/// by more than the noise. `run(candidate, result)` launches one of them into memory of the
/// search's own and says whether it could. Only a candidate whose bits equal those of candidate 0
/// counts, so that what is found does not change a run. Waits for the stream; 0 when there is no
/// memory for two more results.
std::size_t fastest_candidate(const OpContext& context, std::size_t candidates, std::size_t bytes,
                              const std::function<bool(std::size_t, void*)>& run);

}  // namespace hugectr::cuda
