// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/join_slots.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kJoinGrain = 512;  // samples of a piece

template <class Key>
void join(const OpContext& context, const JoinSlots& op) {
  const std::vector<JoinedInput> inputs = joined_inputs(op);
  Key* const keys = op.joined_keys.ptr<Key>();
  std::uint32_t* const offsets = op.joined_row_offsets.ptr<std::uint32_t>();
  const std::size_t slots = inputs.back().first_slot + inputs.back().slots;
  parallel_for(*context.pool, static_cast<std::size_t>(op.samples), kJoinGrain,
               [&](std::size_t begin, std::size_t end) {
                 std::uint32_t at = joined_offset(inputs.data(), inputs.size(), 0, begin, 0);
                 for (std::size_t i = begin; i < end; ++i) {
                   for (const JoinedInput& input : inputs) {
                     const std::uint32_t* const rows = input.offsets + i * input.slots;
                     std::uint32_t* const to = offsets + i * slots + input.first_slot;
                     for (std::size_t s = 0; s < input.slots; ++s) to[s] = at + rows[s] - rows[0];
                     const Key* const from = static_cast<const Key*>(input.keys);
                     std::copy(from + rows[0], from + rows[input.slots], keys + at);
                     at += rows[input.slots] - rows[0];
                   }
                 }
               });
  offsets[op.joined_row_offsets.size() - 1] =
      joined_offset(inputs.data(), inputs.size(), 0, static_cast<std::size_t>(op.samples), 0);
}

void join_slots_kernel(const OpContext& context, const JoinSlots& op) {
  with_key_type(op.joined_keys.dtype, [&]<class Key>(Key) { join<Key>(context, op); });
}

const OpRegistration<JoinSlots> join_slots_cpu{DeviceType::Cpu, &join_slots_kernel};

}  // namespace

std::vector<JoinedInput> joined_inputs(const JoinSlots& op) {
  std::vector<JoinedInput> inputs;
  std::size_t first = 0;
  for (std::size_t k = 0; k < op.row_offsets.size(); ++k) {
    const std::size_t rows = op.row_offsets[k].size() - 1;
    const std::size_t slots = op.samples > 0 ? rows / static_cast<std::size_t>(op.samples) : 0;
    inputs.push_back({op.row_offsets[k].ptr<std::uint32_t>(), op.keys[k].data, slots, first});
    first += slots;
  }
  return inputs;
}

void JoinSlots::check() const {
  HCTR_CHECK(!keys.empty() && keys.size() == row_offsets.size(), kName, ": ", keys.size(),
             " arrays of keys and ", row_offsets.size(), " of row_offsets");
  HCTR_CHECK(samples >= 1, kName, ": samples is ", samples, ", must be at least 1");
  const auto count = static_cast<std::size_t>(samples);
  std::size_t rows = 0, all = 0;
  with_key_type(joined_keys.dtype, [](auto) {});
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const std::size_t own = check_row_offsets(kName, row_offsets[k]);
    HCTR_CHECK(own >= count && own % count == 0, kName, ": input ", k, " has ", own,
               " rows, which are no slots of ", samples, " samples");
    check_array_at_least(kName, "keys", keys[k], joined_keys.dtype, 0);
    rows += own;
    all += keys[k].size();
  }
  check_array_at_least(kName, "joined_keys", joined_keys, joined_keys.dtype, all);
  check_array(kName, "joined_row_offsets", joined_row_offsets, TensorScalarType::UInt32, rows + 1);
}

}  // namespace hugectr
