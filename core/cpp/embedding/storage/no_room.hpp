// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/error.hpp"

namespace hugectr {

/// A disk or a budget of one is full. Nothing is lost: what was to be written is where it was, and
/// writing goes on once there is room.
class NoRoom : public OutOfMemory {
 public:
  using OutOfMemory::OutOfMemory;
};

}  // namespace hugectr
