// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <limits>
#include <vector>

#include "core/cpp/ops/distinct_keys.hpp"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMeasuringThreads = 512;

// Keys and what they are sorted by. Where a section fits into a key's upper bits it goes there, and
// one sort is by both; else keys are sorted by value and then, stably, by section.
constexpr int kWide = 64;

// All keys of the batch, one table after the other.
struct AllKeys {
  std::uint64_t* keys;
  std::uint32_t *places, *sections;  // sections: null where they are in the keys
  std::uint32_t* groups;             // by rank
  unsigned long long* seen;
  int bits;  // of a key; kWide
  std::uint32_t tables;
  std::uint64_t processes;
};

__device__ std::uint64_t low_bits(std::uint64_t key, int bits) {
  return bits == kWide ? key : key & ((std::uint64_t{1} << bits) - 1);
}

struct KeysOfTable {
  const std::int64_t* keys;
  std::uint32_t n, first;
  std::int32_t owner;
  std::uint32_t rank, group;
  AllKeys all;
};

__global__ void pack_keys_kernel(const __grid_constant__ Many<KeysOfTable> many) {
  const KeysOfTable& a = many.mine();
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const std::uint32_t step = gridDim.x * blockDim.x;
  if (thread == 0) a.all.groups[a.rank] = a.group;
  std::uint64_t seen = 0;
  for (std::uint64_t i = thread; i < a.n; i += step) {
    const auto key = static_cast<std::uint64_t>(a.keys[i]);
    seen |= key;
    const std::uint32_t owner = a.owner >= 0 ? static_cast<std::uint32_t>(a.owner)
                                             : static_cast<std::uint32_t>(key % a.all.processes);
    const std::uint32_t section = owner * a.all.tables + a.rank;
    const std::uint32_t place = a.first + static_cast<std::uint32_t>(i);
    a.all.places[place] = place;
    if (a.all.sections != nullptr) {
      a.all.keys[place] = key;
      a.all.sections[place] = section;
    } else {
      a.all.keys[place] =
          static_cast<std::uint64_t>(section) << a.all.bits | low_bits(key, a.all.bits);
    }
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) seen |= __shfl_xor_sync(~0u, seen, lanes);
  const bool news = (seen & ~*static_cast<volatile unsigned long long*>(a.all.seen)) != 0;
  if (threadIdx.x % 32 == 0 && news) atomicOr(a.all.seen, seen);
}

// Of the keys by value: their sections, and their order.
__global__ void take_sections_kernel(const std::uint32_t* __restrict__ sections,
                                     const std::uint32_t* __restrict__ places,
                                     std::uint32_t* __restrict__ taken,
                                     std::uint32_t* __restrict__ order, std::uint32_t n) {
  const std::uint32_t step = gridDim.x * blockDim.x;
  for (std::uint64_t j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += step) {
    taken[j] = sections[places[j]];
    order[j] = static_cast<std::uint32_t>(j);
  }
}

// Keys by section, value and place in the batch.
struct SortedKeys {
  const std::uint64_t* keys;      // with their sections; without them: by value
  const std::uint32_t* places;    // of those
  const std::uint32_t* sections;  // by section; null where they are in the keys
  const std::uint32_t* order;     // by section, among those by value; null with sections
  int bits;                       // of AllKeys

  __device__ std::uint32_t at(std::uint32_t j) const { return order != nullptr ? order[j] : j; }
  __device__ std::int64_t key(std::uint32_t j) const {
    return static_cast<std::int64_t>(low_bits(keys[at(j)], bits));
  }
  __device__ std::uint32_t place(std::uint32_t j) const { return places[at(j)]; }
  __device__ std::uint32_t section(std::uint32_t j) const {
    return sections != nullptr ? sections[j] : static_cast<std::uint32_t>(keys[j] >> bits);
  }
};

struct StartsRow {
  SortedKeys sorted;
  __device__ std::uint32_t operator()(std::uint32_t j) const {
    return j == 0 || sorted.section(j) != sorted.section(j - 1) ||
                   sorted.key(j) != sorted.key(j - 1)
               ? 1u
               : 0u;
  }
};

// Where sections begin, S + 1 of each; what is to be subtracted from a row to have its number in
// its group.
struct Sections {
  std::uint32_t *keys, *rows, *shifts;
  const std::uint32_t* groups;  // by rank
  std::uint32_t count, tables;
};

struct Measures {
  std::uint32_t* run_offsets;
  std::int64_t *counts, *largest;
};

// One block: there are few sections.
__global__ void measure_sections_kernel(SortedKeys sorted, const std::uint32_t* __restrict__ rows,
                                        Sections sections, Measures out, std::uint32_t n) {
  __shared__ long long largest;
  if (threadIdx.x == 0) largest = std::numeric_limits<std::int64_t>::min();
  for (std::uint32_t s = threadIdx.x; s <= sections.count; s += blockDim.x) {
    std::uint32_t low = 0, high = n;  // the first key of section s or later
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (sorted.section(middle) < s) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    sections.keys[s] = low;
    sections.rows[s] = low == n ? rows[n - 1] : rows[low] - 1;
  }
  __syncthreads();
  for (std::uint32_t s = threadIdx.x; s < sections.count; s += blockDim.x) {
    const std::uint32_t key_count = sections.keys[s + 1] - sections.keys[s];
    out.counts[s] = sections.rows[s + 1] - sections.rows[s];
    out.counts[sections.count + s] = key_count;
    if (key_count > 0) {
      atomicMax(&largest, static_cast<long long>(sorted.key(sections.keys[s + 1] - 1)));
    }
    out.run_offsets[sections.rows[s + 1] + s] = key_count;
    const std::uint32_t rank = s % sections.tables, group = sections.groups[rank];
    std::uint32_t first = rank, end = rank + 1;  // ranks of the group
    while (first > 0 && sections.groups[first - 1] == group) --first;
    while (end < sections.tables && sections.groups[end] == group) ++end;
    const std::uint32_t owner_begin = s - rank;
    std::uint32_t shift = sections.rows[owner_begin + first];
    for (std::uint32_t other = 0; other < owner_begin; other += sections.tables) {
      shift -= sections.rows[other + end] - sections.rows[other + first];
    }
    sections.shifts[s] = shift;
  }
  __syncthreads();
  if (threadIdx.x == 0) *out.largest = largest;
}

struct Dealt {
  std::int64_t* distinct;
  std::uint32_t *sorted_buckets, *numbers, *run_offsets;
};

__global__ void deal_out_keys_kernel(SortedKeys sorted, const std::uint32_t* __restrict__ rows,
                                     const std::uint32_t* __restrict__ buckets, Sections sections,
                                     Dealt out, std::uint32_t n) {
  const std::uint32_t step = gridDim.x * blockDim.x;
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    const auto j = static_cast<std::uint32_t>(i);
    const std::uint32_t row = rows[j] - 1, section = sorted.section(j), place = sorted.place(j);
    out.sorted_buckets[j] = buckets[place];
    out.numbers[place] = row - sections.shifts[section];
    if (j > 0 && rows[j - 1] - 1 == row) continue;
    out.distinct[row] = sorted.key(j);
    out.run_offsets[row + section] = j - sections.keys[section];
  }
}

void no_keys(const OpContext& context, const DistinctKeys& op) {
  const cudaStream_t stream = native_stream(context);
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  HCTR_TRY(cudaMemsetAsync(op.counts.data, 0, op.counts.size_in_bytes(), stream));
  HCTR_TRY(cudaMemsetAsync(op.run_offsets.data, 0, op.run_offsets.size_in_bytes(), stream));
  context.stream->copy_scalars(op.largest.data, &least, sizeof least);
}

// A radix sort by key and section: 24 bytes a key for each 8 bits of both. Where both have more
// than 63 bits two of them, one after the other: 16 for each of the section then, and 30 more
// around them.
void distinct_keys(const OpContext& context, const DistinctKeys& op) {
  const std::size_t keys = op.buckets.size(), sections = op.sections();
  if (keys == 0) return no_keys(context, op);
  const auto n = static_cast<std::uint32_t>(keys);
  const auto tables = static_cast<std::uint32_t>(op.keys.size());
  const cudaStream_t stream = native_stream(context);
  const int section_bits = std::max(1, static_cast<int>(std::bit_width(sections - 1)));
  const int both_bits = static_cast<int>(op.key_bits) + section_bits;
  const bool wide = both_bits > 63;  // the sort is of signed keys
  const int bits = wide ? kWide : static_cast<int>(op.key_bits);
  const int sorted_bits = wide ? kWide : both_bits;

  std::size_t key_bytes = 0, section_bytes = 0, scan_bytes = 0;
  std::int64_t* const no_key = nullptr;
  std::uint32_t* const none = nullptr;
  const auto starts_of = [](const SortedKeys& sorted) {
    return thrust::make_transform_iterator(thrust::counting_iterator<std::uint32_t>(0),
                                           StartsRow{sorted});
  };
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(nullptr, key_bytes, no_key, no_key, none, none, n, 0,
                                           sorted_bits, stream));
  if (wide) {
    HCTR_TRY(cub::DeviceRadixSort::SortPairs(nullptr, section_bytes, none, none, none, none, n, 0,
                                             section_bits, stream));
  }
  HCTR_TRY(cub::DeviceScan::InclusiveSum(nullptr, scan_bytes, starts_of({}), none, n, stream));
  const std::uint32_t wide_n = wide ? n : 0;
  ScratchParts parts;
  const std::size_t packed_at = parts.add<std::int64_t>(n),
                    by_value_at = parts.add<std::int64_t>(n);
  const std::size_t places_at = parts.add<std::uint32_t>(n);
  const std::size_t sorted_places_at = parts.add<std::uint32_t>(n);
  const std::size_t rows_at = parts.add<std::uint32_t>(n);
  const std::size_t sections_at = parts.add<std::uint32_t>(wide_n);
  const std::size_t taken_at = parts.add<std::uint32_t>(wide_n);
  const std::size_t sorted_sections_at = parts.add<std::uint32_t>(wide_n);
  const std::size_t groups_at = parts.add<std::uint32_t>(tables);
  const std::size_t key_starts_at = parts.add<std::uint32_t>(sections + 1);
  const std::size_t row_starts_at = parts.add<std::uint32_t>(sections + 1);
  const std::size_t shifts_at = parts.add<std::uint32_t>(sections);
  const std::size_t temporary_at =
      parts.add<char>(std::max({key_bytes, section_bytes, scan_bytes}));
  const Scratch scratch(context, parts.bytes());
  const auto u32 = [&](std::size_t at) { return part<std::uint32_t>(scratch, at); };
  char* const temporary = part<char>(scratch, temporary_at);

  auto* const packed = part<std::int64_t>(scratch, packed_at);
  auto* const by_value = part<std::int64_t>(scratch, by_value_at);
  const AllKeys all{reinterpret_cast<std::uint64_t*>(packed),
                    u32(places_at),
                    wide ? u32(sections_at) : nullptr,
                    u32(groups_at),
                    reinterpret_cast<unsigned long long*>(op.seen.ptr<std::int64_t>()),
                    bits,
                    tables,
                    static_cast<std::uint64_t>(op.processes)};
  std::vector<KeysOfTable> of_tables;
  std::uint32_t first = 0;
  for (std::size_t t = 0; t < tables; ++t) {
    const auto count = static_cast<std::uint32_t>(op.keys[t].size());
    const auto rank = static_cast<std::uint32_t>(op.ranks[t]);
    of_tables.push_back({op.keys[t].ptr<std::int64_t>(), count, first,
                         static_cast<std::int32_t>(std::max<std::int64_t>(op.owners[t], -1)), rank,
                         static_cast<std::uint32_t>(op.groups[rank]), all});
    first += count;
  }
  launch_many<KeysOfTable>(
      context, DistinctKeys::kName, of_tables, dim3(kThreads), &pack_keys_kernel,
      [](const KeysOfTable& a) { return std::max(1u, grid_for(a.n, kThreads)); });
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(temporary, key_bytes, packed, by_value, all.places,
                                           u32(sorted_places_at), n, 0, sorted_bits, stream));
  SortedKeys sorted{reinterpret_cast<const std::uint64_t*>(by_value), u32(sorted_places_at),
                    nullptr, nullptr, bits};
  if (wide) {
    // The places as they came are not needed any more: the order by section goes there.
    launch(context, DistinctKeys::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
           &take_sections_kernel, all.sections, sorted.places, u32(taken_at), u32(rows_at), n);
    HCTR_TRY(cub::DeviceRadixSort::SortPairs(temporary, section_bytes, u32(taken_at),
                                             u32(sorted_sections_at), u32(rows_at), u32(places_at),
                                             n, 0, section_bits, stream));
    sorted.sections = u32(sorted_sections_at);
    sorted.order = u32(places_at);
  }
  std::uint32_t* const rows = u32(rows_at);  // 1 and more, by section
  HCTR_TRY(
      cub::DeviceScan::InclusiveSum(temporary, scan_bytes, starts_of(sorted), rows, n, stream));
  const Sections measured{u32(key_starts_at),
                          u32(row_starts_at),
                          u32(shifts_at),
                          u32(groups_at),
                          static_cast<std::uint32_t>(sections),
                          tables};
  auto* const run_offsets = op.run_offsets.ptr<std::uint32_t>();
  const Measures out{run_offsets, op.counts.ptr<std::int64_t>(), op.largest.ptr<std::int64_t>()};
  launch(context, DistinctKeys::kName, dim3(1), dim3(kMeasuringThreads), 0,
         &measure_sections_kernel, sorted, rows, measured, out, n);
  const Dealt dealt{op.distinct.ptr<std::int64_t>(), op.sorted_buckets.ptr<std::uint32_t>(),
                    op.numbers.ptr<std::uint32_t>(), run_offsets};
  launch(context, DistinctKeys::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &deal_out_keys_kernel, sorted, rows, op.buckets.ptr<std::uint32_t>(), measured, dealt, n);
}

const OpRegistration<DistinctKeys> distinct_keys_cuda{DeviceType::Cuda, &distinct_keys};

}  // namespace
}  // namespace hugectr::cuda
