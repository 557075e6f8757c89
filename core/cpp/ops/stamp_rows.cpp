// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/stamp_rows.hpp"

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

void stamp_rows_kernel(const OpContext& context, const StampRows& op) {
  const auto n =
      op.count.empty() ? op.rows.size() : static_cast<std::size_t>(*op.count.ptr<std::int64_t>());
  const std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
  std::uint32_t* stamps = op.stamps.ptr<std::uint32_t>();
  const auto first = static_cast<std::uint32_t>(op.first);
  const auto stamp = static_cast<std::uint32_t>(op.stamp);
  parallel_for(*context.pool, n, 8192, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (rows[i] != kNoRow && rows[i] >= first) stamps[rows[i]] = stamp;
    }
  });
}

const OpRegistration<StampRows> stamp_rows_cpu{DeviceType::Cpu, &stamp_rows_kernel};

bool is_u32(std::int64_t value) { return value >= 0 && value <= 0xffffffffLL; }

}  // namespace

void StampRows::check() const {
  check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
  check_array(kName, "stamps", stamps, TensorScalarType::UInt32, stamps.size());
  if (!count.empty()) check_array(kName, "count", count, TensorScalarType::Int64, 1);
  HCTR_CHECK(is_u32(first) && is_u32(stamp), kName, ": first ", first, " and stamp ", stamp,
             " must be uint32");
}

}  // namespace hugectr
