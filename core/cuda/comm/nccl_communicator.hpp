// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "core/cpp/comm/communicator.hpp"

namespace hugectr::cuda {

/// One communicator for each of the devices of this process, on NCCL; collective over the job's
/// processes. Each rank must call from a thread of its own: the first collective of a kind waits
/// for the other ranks inside the call. Ranks of one process that disagree get their CommError from
/// the later call; the earlier one ends with the group's abort. Between processes nothing is
/// compared: NCCL would wait for ever, and the job's limit ends that.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<int>& devices,
                                                                   const JobRanks& job);

}  // namespace hugectr::cuda
