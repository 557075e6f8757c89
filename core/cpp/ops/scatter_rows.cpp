// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/scatter_rows.hpp"

#include <cstdint>
#include <cstring>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

void scatter_rows_kernel(const OpContext& context, const ScatterRows& op) {
  const std::size_t bytes = op.target.row_size() * size_of(op.target.dtype);
  const std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
  const char* values = static_cast<const char*>(op.values.data);
  char* target = static_cast<char*>(op.target.data);
  parallel_for(*context.pool, op.rows.size(), 2048, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (rows[i] != kNoRow) std::memcpy(target + rows[i] * bytes, values + i * bytes, bytes);
    }
  });
}

const OpRegistration<ScatterRows> scatter_rows_cpu{DeviceType::Cpu, &scatter_rows_kernel};
const SeveralRegistration<ScatterRows> several_scatter_rows_cpu{DeviceType::Cpu};

}  // namespace

void ScatterRows::check() const {
  check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
  HCTR_CHECK(values.dtype == target.dtype && values.contiguous() && target.contiguous() &&
                 values.size() == rows.size() * target.row_size(),
             kName, ": values have shape ", to_string(values.shape), ", must be (", rows.size(),
             ", ", target.row_size(), ") ", to_string(target.dtype));
}

}  // namespace hugectr
