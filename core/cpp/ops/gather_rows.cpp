// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gather_rows.hpp"

#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/copy_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

/// Rows in order, but for those that are kNoRow in a list.
struct NamedRows : RowsInOrder {
  const std::uint32_t* list;
  char* operator()(std::size_t i) const {
    return list[i] == kNoRow ? nullptr : RowsInOrder::operator()(i);
  }
};
void fetch_row(const NamedRows&, std::size_t, std::size_t) {}

void gather_rows_kernel(const OpContext& context, const GatherRows& op) {
  const std::size_t bytes = op.source.row_size() * size_of(op.source.dtype);
  const std::uint32_t* const rows = op.rows.ptr<std::uint32_t>();
  const char* const source = static_cast<const char*>(op.source.data);
  copy_rows(*context.pool, op.rows.size(), 2048, bytes,
            NamedRows{{static_cast<char*>(op.values.data), bytes}, rows},
            [=](std::size_t i) { return rows[i] == kNoRow ? nullptr : source + rows[i] * bytes; });
}

const OpRegistration<GatherRows> gather_rows_cpu{DeviceType::Cpu, &gather_rows_kernel};
const SeveralRegistration<GatherRows> several_gather_rows_cpu{DeviceType::Cpu};

}  // namespace

void GatherRows::check() const {
  check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
  HCTR_CHECK(values.dtype == source.dtype && values.contiguous() && source.contiguous() &&
                 values.size() == rows.size() * source.row_size(),
             kName, ": values have shape ", to_string(values.shape), ", must be (", rows.size(),
             ", ", source.row_size(), ") ", to_string(source.dtype));
}

}  // namespace hugectr
