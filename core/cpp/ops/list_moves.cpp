// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/list_moves.hpp"

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

void list_half(const std::uint32_t* places, const std::uint32_t* rows, std::uint32_t* listed,
               std::uint32_t* at, std::size_t i) {
  listed[i] = rows ? rows[i] : kNoRow;
  at[i] = listed[i] == kNoRow ? kNoRow : places[i];
}

void list_moves_kernel(const OpContext& context, const ListMoves& op) {
  const auto* places = op.places.ptr<std::uint32_t>();
  const auto* leaving = op.leaving.empty() ? nullptr : op.leaving.ptr<std::uint32_t>();
  const auto* coming = op.coming.empty() ? nullptr : op.coming.ptr<std::uint32_t>();
  auto *leaves = op.leaves.ptr<std::uint32_t>(), *comes = op.comes.ptr<std::uint32_t>();
  auto *from = op.from.ptr<std::uint32_t>(), *to = op.to.ptr<std::uint32_t>();
  parallel_for(*context.pool, static_cast<std::size_t>(op.count), 1 << 14,
               [=](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) {
                   list_half(places, leaving, leaves, from, i);
                   list_half(places, coming, comes, to, i);
                 }
               });
}

const OpRegistration<ListMoves> list_moves_cpu{DeviceType::Cpu, &list_moves_kernel};
const SeveralRegistration<ListMoves> several_list_moves_cpu{DeviceType::Cpu};

}  // namespace

void ListMoves::check() const {
  constexpr auto kNumbers = TensorScalarType::UInt32;
  HCTR_CHECK(count >= 0, kName, ": count ", count, " is negative");
  const auto n = static_cast<std::size_t>(count);
  check_array_at_least(kName, "places", places, kNumbers, n);
  for (const TensorRef* list : {&leaving, &coming}) {
    if (!list->empty()) check_array_at_least(kName, "leaving or coming", *list, kNumbers, n);
  }
  check_array(kName, "leaves", leaves, kNumbers, n);
  check_array(kName, "comes", comes, kNumbers, n);
  check_array(kName, "from", from, kNumbers, n);
  check_array(kName, "to", to, kNumbers, n);
}

}  // namespace hugectr
