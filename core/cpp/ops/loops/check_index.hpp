// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstddef>

#include "core/cpp/memory/tensor_ref.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

/// What the ops of hash_index.hpp ask of their arguments.
namespace hugectr {

inline std::size_t check_hashed(const char* op, const TensorRef& index) {
  const std::size_t capacity = index.size() / 2;
  HCTR_CHECK(index.dtype == TensorScalarType::UInt64 && index.shape.size() == 2 &&
                 index.shape[1] == 2 && index.contiguous(),
             op, ": index holds ", to_string(index.dtype), " of shape ", to_string(index.shape),
             ", must hold (capacity, 2) uint64");
  HCTR_CHECK(capacity >= 64 && std::has_single_bit(capacity) && capacity <= std::size_t{1} << 33,
             op, ": capacity ", capacity, " must be a power of two, 64 to 2^33");
  return capacity;
}

/// Places of a hashed index, or of a direct one.
inline std::size_t check_index(const char* op, const TensorRef& index, const TensorRef& direct) {
  if (direct.empty()) return check_hashed(op, index);
  HCTR_CHECK(direct.dtype == TensorScalarType::Int64 && direct.shape.size() == 2 &&
                 direct.shape[1] == 3 && direct.contiguous(),
             op, ": direct has shape ", to_string(direct.shape), ", must be (slots, 3) int64");
  HCTR_CHECK(index.dtype == TensorScalarType::UInt32 && index.contiguous(), op,
             ": a direct index holds ", to_string(index.dtype), ", must hold uint32");
  return index.size();
}

inline void check_report(const char* op, const TensorRef& report) {
  HCTR_CHECK(report.dtype == TensorScalarType::Int64 && report.size() == kReportSize &&
                 report.contiguous(),
             op, ": report must hold ", std::size_t{kReportSize}, " int64");
}

template <class Op>
void check_lookup(const Op& op) {
  check_index(Op::kName, op.index, op.direct);
  HCTR_CHECK(op.direct.empty() || op.slot_num > 0, Op::kName, ": slots count in a direct index");
  check_report(Op::kName, op.report);
  with_key_type(op.keys.dtype, [](auto) {});
  HCTR_CHECK(op.keys.size() < 0xFFFFFFFFu, Op::kName, ": ", op.keys.size(),
             " keys are more than a call may have, 2^32 - 2");
  HCTR_CHECK(op.rows.dtype == TensorScalarType::UInt32 && op.rows.size() == op.keys.size(),
             Op::kName, ": rows must hold ", op.keys.size(), " uint32");
  HCTR_CHECK(op.slot_num == 0 || (op.buckets.dtype == TensorScalarType::UInt32 &&
                                  op.buckets.size() == op.keys.size()),
             Op::kName, ": buckets must hold one uint32 a key when slots count");
  HCTR_CHECK(op.keys.contiguous() && op.buckets.contiguous() && op.rows.contiguous(), Op::kName,
             ": keys, buckets and rows must lie without gaps");
}

}  // namespace hugectr
