// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/cpp/ops/join_slots.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/bucket_lanes.cuh"

namespace hugectr::cuda {
namespace {

// A few threads share a row of the result; moves 4 bytes a row for each input and a key twice.
template <class Key>
__global__ void join_slots_kernel(BucketLanes lanes, const JoinedInput* __restrict__ inputs,
                                  std::size_t count, std::size_t slots, Key* __restrict__ keys,
                                  std::uint32_t* __restrict__ offsets) {
  lanes.for_each([&](std::size_t row, unsigned lane) {
    const std::size_t sample = row / slots, of_sample = row - sample * slots;
    std::size_t k = 0;
    while (k + 1 < count && inputs[k + 1].first_slot <= of_sample) ++k;
    const JoinedInput& input = inputs[k];
    const std::size_t slot = of_sample - input.first_slot;
    const std::uint32_t* const rows = input.offsets + sample * input.slots;
    const std::uint32_t to = joined_offset(inputs, count, k, sample, 0) + rows[slot] - rows[0];
    if (lane == 0) offsets[row] = to;
    if (lane == 0 && row + 1 == lanes.buckets) {
      offsets[row + 1] = joined_offset(inputs, count, 0, sample + 1, 0);
    }
    const Key* const from = static_cast<const Key*>(input.keys);
    for (std::uint32_t i = rows[slot] + lane; i < rows[slot + 1]; i += lanes.lanes()) {
      keys[to + (i - rows[slot])] = from[i];
    }
  });
}

// In the pieces that a stream takes from memory that goes away.
void copy_inputs(const OpContext& context, const std::vector<JoinedInput>& inputs,
                 JoinedInput* to) {
  constexpr std::size_t kPiece = 256 / sizeof(JoinedInput);
  for (std::size_t at = 0; at < inputs.size(); at += kPiece) {
    context.stream->copy_scalars(to + at, inputs.data() + at,
                                 std::min(kPiece, inputs.size() - at) * sizeof(JoinedInput));
  }
}

void join_slots(const OpContext& context, const JoinSlots& op) {
  const std::vector<JoinedInput> host = joined_inputs(op);
  const Scratch scratch(context, host.size() * sizeof(JoinedInput));
  auto* inputs = static_cast<JoinedInput*>(scratch.data());
  copy_inputs(context, host, inputs);
  std::size_t keys = 0;
  for (const TensorRef& part : op.keys) keys += part.size();
  const std::size_t slots = host.back().first_slot + host.back().slots;
  const BucketLanes lanes(op.joined_row_offsets.size() - 1, keys);
  with_key_type(op.joined_keys.dtype, [&]<class Key>(Key) {
    launch(context, JoinSlots::kName, lanes.grid(), lanes.block(), 0, &join_slots_kernel<Key>,
           lanes, static_cast<const JoinedInput*>(inputs), host.size(), slots,
           op.joined_keys.ptr<Key>(), op.joined_row_offsets.ptr<std::uint32_t>());
  });
}

const OpRegistration<JoinSlots> join_slots_cuda{DeviceType::Cuda, &join_slots};

}  // namespace
}  // namespace hugectr::cuda
