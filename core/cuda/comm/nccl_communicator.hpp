// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "core/cpp/comm/communicator.hpp"

namespace hugectr::cuda {

/// One communicator for each of the devices of this process, on NCCL. Each rank must call from a
/// thread of its own: the first collective of a kind waits for the other ranks inside the call.
/// Ranks that disagree get their CommError from the later call; the earlier one ends with the
/// group's abort.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<int>& devices);

}  // namespace hugectr::cuda
