// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "core/cpp/comm/communicator.hpp"

namespace hugectr::cuda {

/// The communicator of a job of one device: sums are what they are, exchanges are copies.
std::unique_ptr<Communicator> make_single_communicator();

}  // namespace hugectr::cuda
