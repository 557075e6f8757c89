// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/move_rows.hpp"

#include <algorithm>
#include <cstring>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kMoveGrain = 256;  // rows of a thread's part

std::size_t row_bytes(const TensorRef& array) { return array.row_size() * size_of(array.dtype); }

void move_part(const MoveRows& op, const TensorRef& cache, const TensorRef& home, std::size_t begin,
               std::size_t end) {
  const std::size_t bytes = row_bytes(cache);
  const auto* places = op.places.ptr<std::uint32_t>();
  const auto* leaving = op.leaving.empty() ? nullptr : op.leaving.ptr<std::uint32_t>();
  const auto* coming = op.coming.empty() ? nullptr : op.coming.ptr<std::uint32_t>();
  char* const at_home = static_cast<char*>(home.data);
  for (std::size_t i = begin; i < end; ++i) {
    char* const place = static_cast<char*>(cache.data) + places[i] * bytes;
    const std::size_t goes = leaving ? leaving[i] : kNoRow, comes = coming ? coming[i] : kNoRow;
    if (goes == comes && goes != kNoRow) {
      std::swap_ranges(place, place + bytes, at_home + goes * bytes);
      continue;
    }
    if (goes != kNoRow) std::memcpy(at_home + goes * bytes, place, bytes);
    if (comes != kNoRow) std::memcpy(place, at_home + comes * bytes, bytes);
  }
}

void move_rows_kernel(const OpContext& context, const MoveRows& op) {
  parallel_for(*context.pool, static_cast<std::size_t>(op.count), kMoveGrain,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t a = 0; a < op.cache.size(); ++a) {
                   move_part(op, op.cache[a], op.home[a], begin, end);
                 }
               });
}

const OpRegistration<MoveRows> move_rows_cpu{DeviceType::Cpu, &move_rows_kernel};
const SeveralRegistration<MoveRows> several_move_rows_cpu{DeviceType::Cpu};

}  // namespace

void MoveRows::check() const {
  HCTR_CHECK(count >= 0, kName, ": count ", count, " is negative");
  const auto n = static_cast<std::size_t>(count);
  check_array_at_least(kName, "places", places, TensorScalarType::UInt32, n);
  for (const TensorRef* list : {&leaving, &coming}) {
    if (!list->empty()) {
      check_array_at_least(kName, "leaving or coming", *list, TensorScalarType::UInt32, n);
    }
  }
  HCTR_CHECK(cache.size() == home.size(), kName, ": ", cache.size(), " arrays in the cache and ",
             home.size(), " at home");
  for (std::size_t a = 0; a < cache.size(); ++a) {
    HCTR_CHECK(cache[a].dtype == home[a].dtype && cache[a].contiguous() && home[a].contiguous() &&
                   cache[a].row_size() == home[a].row_size(),
               kName, ": array ", a, " has rows of ", cache[a].row_size(), " ",
               to_string(cache[a].dtype), " in the cache and of ", home[a].row_size(), " ",
               to_string(home[a].dtype), " at home");
  }
}

}  // namespace hugectr
