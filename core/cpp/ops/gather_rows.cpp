// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gather_rows.hpp"

#include <cstdint>
#include <cstring>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kAhead = 16;  // rows that are fetched before they are copied

void gather_rows_kernel(const OpContext& context, const GatherRows& op) {
  const std::size_t bytes = op.source.row_size() * size_of(op.source.dtype);
  const std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
  const char* source = static_cast<const char*>(op.source.data);
  char* values = static_cast<char*>(op.values.data);
  parallel_for(*context.pool, op.rows.size(), 2048, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) {
        const char* const later = source + rows[i + kAhead] * bytes;
        for (std::size_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(later + byte);
      }
      std::memcpy(values + i * bytes, source + rows[i] * bytes, bytes);
    }
  });
}

const OpRegistration<GatherRows> gather_rows_cpu{DeviceType::Cpu, &gather_rows_kernel};

}  // namespace

void GatherRows::check() const {
  check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
  HCTR_CHECK(values.dtype == source.dtype && values.contiguous() && source.contiguous() &&
                 values.size() == rows.size() * source.row_size(),
             kName, ": values have shape ", to_string(values.shape), ", must be (", rows.size(),
             ", ", source.row_size(), ") ", to_string(source.dtype));
}

}  // namespace hugectr
