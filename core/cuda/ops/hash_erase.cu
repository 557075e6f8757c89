// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/hash_index.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/hash_lines.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// What hash_erase() has of a table; places null: only the keys go.
template <class Key>
struct Erase {
  const std::uint32_t* rows;
  Key* row_keys;
  const std::uint32_t* row_slots;  // null: slots do not count
  HashPlace* places;
  std::size_t capacity;
  unsigned long long* dead;
  std::uint32_t n;
};

// A line of 64 bytes a row, or a few at a high load, and 4 + 2 sizeof(Key) bytes. Other threads may
// take rows out of the same line: a full one stays full then, and one that is not stays so.
template <class Key>
__global__ void hash_erase_kernel(Erase<Key> a) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.n) return;
  const std::uint32_t row = a.rows[i];
  const Key key = a.row_keys[row];
  a.row_keys[row] = kEmptyKey<Key>;
  if (a.places == nullptr || key == kEmptyKey<Key>) return;
  const std::uint32_t slot = a.row_slots ? a.row_slots[row] : 0;
  const std::uint64_t word = key_word(key);
  LineWalk walk(hash_key(widen_key(key), slot), a.capacity);
  do {
    HashPlace* const line = a.places + walk.first();
    HashPlace* own = nullptr;
    bool full = true;
#pragma unroll
    for (unsigned k = 0; k < kPlacesPerLine; ++k) {
      const HashPlace there = load_place<true>(line + k);
      if (there.key == word && value_row(there.value) == row) own = line + k;
      full &= there.key != kFreePlace;
    }
    if (own == nullptr) continue;
    if (full) {
      own->value = pack_value(slot, kDeadRow);
      atomicAdd(a.dead, 1ull);
    } else {
      *own = {kFreePlace, kUnpublished};
    }
    return;
  } while (walk.next());
}

void hash_erase(const OpContext& context, const HashErase& op) {
  const auto n = static_cast<std::uint32_t>(op.rows.size());
  if (n == 0) return;
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    launch(context, HashErase::kName, dim3((n + kThreads - 1) / kThreads), dim3(kThreads), 0,
           &hash_erase_kernel<Key>,
           Erase<Key>{op.rows.ptr<std::uint32_t>(), op.row_keys.ptr<Key>(),
                      op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>(),
                      op.index.empty() ? nullptr : places_of(HashErase::kName, op.index),
                      op.index.size() / 2, op.dead.empty() ? nullptr : words_of(op.dead), n});
  });
}

const OpRegistration<HashErase> hash_erase_cuda{DeviceType::Cuda, &hash_erase};

}  // namespace
}  // namespace hugectr::cuda
