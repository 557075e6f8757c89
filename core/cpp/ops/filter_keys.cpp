// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/filter_keys.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kFilterGrain = 2048;  // buckets of a piece

/// Two passes over pieces of buckets: count(begin, end) fills own_offsets[bucket + 1] with the
/// piece's running count and returns the total; write(begin, end, first) gets where the piece
/// starts and adds it to the counts.
template <class Count, class Write>
void scan_pieces(ThreadPool& pool, std::size_t buckets, const Count& count, const Write& write) {
  const std::size_t pieces = (buckets + kFilterGrain - 1) / kFilterGrain;
  std::vector<std::uint32_t> first(pieces + 1, 0);
  parallel_for(pool, buckets, kFilterGrain, [&](std::size_t begin, std::size_t end) {
    first[begin / kFilterGrain + 1] = count(begin, end);
  });
  for (std::size_t p = 0; p < pieces; ++p) first[p + 1] += first[p];
  parallel_for(pool, buckets, kFilterGrain, [&](std::size_t begin, std::size_t end) {
    write(begin, end, first[begin / kFilterGrain]);
  });
}

template <class Key, class Owns>
void filter_by_key(ThreadPool& pool, const FilterKeys& op, const Owns& owns) {
  const Key* __restrict keys = op.keys.ptr<Key>();
  const std::uint32_t* __restrict offsets = op.row_offsets.ptr<std::uint32_t>();
  Key* __restrict own = op.own_keys.ptr<Key>();
  std::uint32_t* __restrict own_offsets = op.own_row_offsets.ptr<std::uint32_t>();
  std::uint32_t* const places = op.places();
  own_offsets[0] = 0;
  scan_pieces(
      pool, op.row_offsets.size() - 1,
      [&](std::size_t begin, std::size_t end) {
        std::uint32_t count = 0;
        for (std::size_t bucket = begin; bucket < end; ++bucket) {
          for (std::uint32_t i = offsets[bucket]; i < offsets[bucket + 1]; ++i) {
            count += owns(i);
          }
          own_offsets[bucket + 1] = count;
        }
        return count;
      },
      [&](std::size_t begin, std::size_t end, std::uint32_t first) {
        std::uint32_t at = first;
        for (std::uint32_t i = offsets[begin]; i < offsets[end]; ++i) {
          if (!owns(i)) continue;
          if (places) places[at] = i;
          own[at++] = keys[i];
        }
        for (std::size_t bucket = begin; bucket < end; ++bucket) own_offsets[bucket + 1] += first;
      });
}

template <class Key>
void filter_by_slot(ThreadPool& pool, const FilterKeys& op) {
  const auto slots = static_cast<std::size_t>(op.slot_num);
  const auto rank = static_cast<std::size_t>(op.rank);
  const auto devices = static_cast<std::size_t>(op.device_count);
  const std::size_t own_slots = slots_of_device(slots, rank, devices);
  const Key* __restrict keys = op.keys.ptr<Key>();
  const std::uint32_t* __restrict offsets = op.row_offsets.ptr<std::uint32_t>();
  Key* __restrict own = op.own_keys.ptr<Key>();
  std::uint32_t* __restrict own_offsets = op.own_row_offsets.ptr<std::uint32_t>();
  std::uint32_t* const places = op.places();
  own_offsets[0] = 0;
  const auto source_bucket = [=](std::size_t own_bucket) {
    return own_bucket / own_slots * slots + own_bucket % own_slots * devices + rank;
  };
  scan_pieces(
      pool, op.own_row_offsets.size() - 1,
      [&](std::size_t begin, std::size_t end) {
        std::uint32_t count = 0;
        for (std::size_t bucket = begin; bucket < end; ++bucket) {
          const std::size_t source = source_bucket(bucket);
          count += offsets[source + 1] - offsets[source];
          own_offsets[bucket + 1] = count;
        }
        return count;
      },
      [&](std::size_t begin, std::size_t end, std::uint32_t first) {
        Key* to = own + first;
        for (std::size_t bucket = begin; bucket < end; ++bucket) {
          const std::size_t source = source_bucket(bucket);
          if (places) {
            std::iota(places + (to - own),
                      places + (to - own) + (offsets[source + 1] - offsets[source]),
                      offsets[source]);
          }
          to = std::copy(keys + offsets[source], keys + offsets[source + 1], to);
          own_offsets[bucket + 1] += first;
        }
      });
}

void filter_keys_kernel(const OpContext& context, const FilterKeys& op) {
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    if (op.by_slot) return filter_by_slot<Key>(*context.pool, op);
    const auto devices = static_cast<std::uint64_t>(op.device_count);
    const auto rank = static_cast<std::uint64_t>(op.rank);
    const Key* const keys = op.keys.ptr<Key>();
    if (!op.held.empty()) {
      return filter_by_key<Key>(
          *context.pool, op,
          [=, held = op.held.ptr<std::uint32_t>(), keep = op.keep_held](std::uint32_t i) {
            return (held[i] != kNoRow) == keep && owner_of_key(widen_key(keys[i]), devices) == rank;
          });
    }
    if ((devices & (devices - 1)) == 0) {  // a mask costs a tenth of a division
      return filter_by_key<Key>(*context.pool, op, [=](std::uint32_t i) {
        return (widen_key(keys[i]) & (devices - 1)) == rank;
      });
    }
    filter_by_key<Key>(*context.pool, op, [=](std::uint32_t i) {
      return owner_of_key(widen_key(keys[i]), devices) == rank;
    });
  });
}

const OpRegistration<FilterKeys> filter_keys_cpu{DeviceType::Cpu, &filter_keys_kernel};
const SeveralRegistration<FilterKeys> several_filter_keys_cpu{DeviceType::Cpu};

}  // namespace

void FilterKeys::check() const {
  const std::size_t buckets = check_row_offsets(kName, row_offsets);
  with_key_type(keys.dtype, [](auto) {});
  HCTR_CHECK(keys.contiguous(), kName, ": keys must lie without gaps");
  HCTR_CHECK(slot_num >= 1 && buckets % static_cast<std::size_t>(slot_num) == 0, kName, ": ",
             buckets, " buckets are no multiple of ", slot_num, " slots");
  HCTR_CHECK(device_count >= 1 && rank >= 0 && rank < device_count, kName, ": rank ", rank,
             " is not below device_count ", device_count);
  check_array_at_least(kName, "own_keys", own_keys, keys.dtype, keys.size());
  if (!own_places.empty()) {
    check_array_at_least(kName, "own_places", own_places, TensorScalarType::UInt32, keys.size());
  }
  if (!held.empty()) {
    HCTR_CHECK(!by_slot, kName, ": held is of keys that are chosen by key");
    check_array(kName, "held", held, TensorScalarType::UInt32, keys.size());
  }
  const auto slots = static_cast<std::size_t>(slot_num);
  const std::size_t own_slots = by_slot ? slots_of_device(slots, static_cast<std::size_t>(rank),
                                                          static_cast<std::size_t>(device_count))
                                        : slots;
  check_array(kName, "own_row_offsets", own_row_offsets, TensorScalarType::UInt32,
              buckets / slots * own_slots + 1);
}

}  // namespace hugectr
