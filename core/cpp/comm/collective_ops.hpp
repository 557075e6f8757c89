// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"

/// Collectives as ops, so that a step schedule can place them. One kernel serves every device: it
/// calls context.communicator.
namespace hugectr {

/// data := sum over devices of data. float32 or float64, contiguous, in place.
struct HCTR_API AllReduce {
  static constexpr const char* kName = "all_reduce";
  static constexpr bool kSubmits = true;
  TensorRef data;
  void visit(OpVisitor& v) { v.tensor("data", Access::InOut, data); }
  void check() const;
};

}  // namespace hugectr
