// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/life/unborn_rows.hpp"

#include <cstdint>
#include <limits>

#include "core/cpp/ops/embedding_init.hpp"

namespace hugectr {
namespace {

/// Later than every plan.
constexpr std::int64_t kNever = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void mark_unborn(const OpContext& context, const Table& table, const TensorRef& rows) {
  if (!table.has_gaps() || rows.empty() || rows.size() == 0) return;
  run(context, EmbeddingInit{.rows = rows,
                             .row_keys = table.index().row_keys(table.size()),
                             .births = table.births(table.size()),
                             .count = static_cast<std::int64_t>(rows.size()),
                             .birth = kNever});
}

}  // namespace hugectr
