// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/hash_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/cpp/device/stream.hpp"
#include "core/cpp/ops/hash_index.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kMinCapacity = 1024;

/// Places for `rows` keys at a load of at most three quarters.
std::size_t capacity_for(std::size_t rows) {
  return std::max(kMinCapacity, std::bit_ceil(rows + rows / 3 + 1));
}

}  // namespace

template <class Key>
HashTable<Key>::HashTable(std::shared_ptr<MemoryResource> memory, std::string name,
                          std::size_t max_rows, bool with_slots)
    : memory_(std::move(memory)),
      name_(std::move(name)),
      with_slots_(with_slots),
      row_keys_(*memory_, ScalarTypeOf<Key>::value, 1, max_rows, name_ + " row keys") {
  HCTR_CHECK(max_rows < kNoRow, "'", name_, "' can not have ", max_rows,
             " rows on a device: the largest number is ", kNoRow - 1);
  if (with_slots_) {
    row_slots_ =
        GrowableTensor(*memory_, TensorScalarType::UInt32, 1, max_rows, name_ + " row slots");
  }
  auto arena = DeviceBuffer2::create(name_ + " counters", DeviceAllocator(memory_));
  arena->reserve({1}, &counter_, "counter");
  arena->reserve({1}, &first_reserved_, "first reserved key");
  arena->allocate();
}

template <class Key>
void HashTable<Key>::set_counter(const OpContext& context) {
  const auto rows = static_cast<std::int64_t>(rows_);
  context.stream->copy_scalars(counter_.get_ptr(), &rows, sizeof rows);
}

template <class Key>
void HashTable<Key>::rebuild(const OpContext& context) {
  run(context, HashClear{.index_keys = index_keys_.ref(), .index_values = index_values_.ref()});
  if (rows_ > 0) {
    run(context, HashInsert{.row_keys = row_keys(rows_),
                            .row_slots = row_slots(rows_),
                            .index_keys = index_keys_.ref(),
                            .index_values = index_values_.ref()});
  }
  set_counter(context);
}

template <class Key>
void HashTable<Key>::reserve(const OpContext& context, std::size_t keys) {
  const std::size_t rows = std::min(rows_ + keys, max_rows());
  row_keys_.grow_to(rows);
  if (with_slots_) row_slots_.grow_to(rows);
  // All keys may turn out to be new, even those that the budget then refuses.
  const std::size_t needed = capacity_for(rows_ + keys);
  if (needed <= capacity()) return;
  auto arena = DeviceBuffer2::create(name_ + " index", DeviceAllocator(memory_));
  Tensor2<Key> index_keys;
  Tensor2<std::uint64_t> index_values;
  arena->reserve({needed}, &index_keys, "keys");
  arena->reserve({needed}, &index_values, "rows");
  arena->allocate();
  context.stream->synchronize();  // nothing may use the old index when it goes
  index_keys_ = index_keys;
  index_values_ = index_values;
  rebuild(context);
}

template <class Key>
typename HashTable<Key>::Result HashTable<Key>::wait_result(const OpContext& context) {
  std::int64_t host[2] = {};
  context.stream->copy(&host[0], counter_.get_ptr(), sizeof host[0]);
  context.stream->copy(&host[1], first_reserved_.get_ptr(), sizeof host[1]);
  context.stream->synchronize();
  return {static_cast<std::size_t>(host[0]), host[1]};
}

template <class Key>
typename HashTable<Key>::Result HashTable<Key>::get_insert(const OpContext& context,
                                                           const TensorRef& keys,
                                                           const TensorRef& buckets,
                                                           SlotOfBucket slot_of,
                                                           const TensorRef& rows) {
  reserve(context, keys.size());
  const std::size_t limit = std::min(rows_ + keys.size(), max_rows());
  run(context, HashGetInsert{.keys = keys,
                             .buckets = buckets,
                             .index_keys = index_keys_.ref(),
                             .index_values = index_values_.ref(),
                             .counter = counter_.ref(),
                             .row_keys = row_keys(limit),
                             .row_slots = row_slots(limit),
                             .rows = rows,
                             .first_reserved = first_reserved_.ref(),
                             .slot_num = slot_of.num,
                             .slot_stride = slot_of.stride,
                             .slot_first = slot_of.first});
  const Result result = wait_result(context);
  rows_ = std::min(result.rows, max_rows());
  return result;
}

template <class Key>
typename HashTable<Key>::Result HashTable<Key>::get_mark(
    const OpContext& context, const TensorRef& keys, const TensorRef& buckets, SlotOfBucket slot_of,
    std::size_t row_limit, const TensorRef& rows) {
  if (capacity() == 0) reserve(context, 0);
  run(context, HashGet{.keys = keys,
                       .buckets = buckets,
                       .index_keys = index_keys_.ref(),
                       .index_values = index_values_.ref(),
                       .rows = rows,
                       .first_reserved = first_reserved_.ref(),
                       .row_limit = static_cast<std::int64_t>(row_limit),
                       .slot_num = slot_of.num,
                       .slot_stride = slot_of.stride,
                       .slot_first = slot_of.first});
  return wait_result(context);
}

template <class Key>
void HashTable<Key>::get(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
                         SlotOfBucket slot_of, const TensorRef& rows) {
  get_mark(context, keys, buckets, slot_of, rows_, rows);
  std::vector<std::uint32_t> host(rows.size());
  context.stream->copy(host.data(), rows.data, rows.size_in_bytes());
  context.stream->synchronize();
  const auto missing = std::find(host.begin(), host.end(), kNoRow);
  HCTR_CHECK(missing == host.end(), "'", name_, "' has no row for key number ",
             missing - host.begin());
}

template <class Key>
void HashTable<Key>::insert(const OpContext& context, const TensorRef& keys,
                            const TensorRef& slots) {
  const std::size_t n = keys.size();
  if (n > max_rows() - rows_) {
    throw OutOfMemory(concat("'", name_, "' has ", rows_, " rows and may have ", max_rows(), ": ",
                             n, " more do not fit"));
  }
  HCTR_CHECK(keys.dtype == ScalarTypeOf<Key>::value && with_slots_ == !slots.empty() &&
                 (!with_slots_ || slots.size() == n),
             "'", name_, "': insert needs keys of its type and a slot a key if it keeps slots");
  if (n == 0) return;
  reserve(context, n);
  Stream& stream = *context.stream;
  TensorRef new_keys = row_keys(rows_ + n), new_slots = row_slots(rows_ + n);
  const auto tail = [&](TensorRef& ref, std::size_t element) {
    ref.data = static_cast<char*>(ref.data) + rows_ * element;
    ref.shape = {n};
  };
  tail(new_keys, sizeof(Key));
  stream.copy(new_keys.data, keys.data, n * sizeof(Key));
  if (with_slots_) {
    tail(new_slots, sizeof(std::uint32_t));
    stream.copy(new_slots.data, slots.data, n * sizeof(std::uint32_t));
  }
  run(context, HashInsert{.row_keys = new_keys,
                          .row_slots = new_slots,
                          .index_keys = index_keys_.ref(),
                          .index_values = index_values_.ref(),
                          .first = static_cast<std::int64_t>(rows_)});
  rows_ += n;
  set_counter(context);
}

template <class Key>
void HashTable<Key>::set(const OpContext& context, const TensorRef& keys, const TensorRef& slots) {
  clear(context);
  insert(context, keys, slots);
}

template <class Key>
void HashTable<Key>::dump(const OpContext& context, std::size_t rows, std::vector<Key>& keys,
                          std::vector<std::uint32_t>& slots) const {
  keys.resize(rows);
  slots.resize(with_slots_ ? rows : 0);
  context.stream->copy(keys.data(), row_keys(rows).data, rows * sizeof(Key));
  if (with_slots_) {
    context.stream->copy(slots.data(), row_slots(rows).data, rows * sizeof(std::uint32_t));
  }
  context.stream->synchronize();
}

template <class Key>
void HashTable<Key>::truncate(const OpContext& context, std::size_t rows) {
  HCTR_CHECK(rows <= rows_, "'", name_, "' has ", rows_, " rows, can not go back to ", rows);
  rows_ = rows;
  if (capacity() > 0) rebuild(context);
}

template <class Key>
std::size_t HashTable<Key>::size_in_bytes() const {
  return row_keys_.size_in_bytes() + row_slots_.size_in_bytes() + index_keys_.get_size_in_bytes() +
         index_values_.get_size_in_bytes();
}

template class HashTable<std::uint32_t>;
template class HashTable<std::int64_t>;

}  // namespace hugectr
