// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// The distinct keys of a batch of T tables, in the order in which a process asks their owners for
/// them, one of N. Section s = owner * T + rank of the table; rows of a section ascend by key:
///   owner of key k of table t = owners[t] >= 0 ? owners[t] : uint64(k) % N
///   distinct = the keys of section 0, of section 1, ...;  counts[0, s] = how many, R_s
///   sorted_buckets = buckets of the keys by section, key and place;  counts[1, s] = how many, K_s
///   run_offsets[R_0 + .. + R_s-1 + s ..] (R_s + 1) = where the keys of each row of section s begin
///   numbers[i] = row of key i, counted over the sections of its table's group alone
///
/// keys: T arrays (n_t) int64, numbered one after the other as i < n = their sum; buckets (n)
/// uint32. distinct (n) int64, sorted_buckets (n), numbers (n), run_offsets (n + N T) uint32; what
/// lies behind the rows that there are is left as it is. counts (2, N T) int64. largest (1) int64:
/// of the keys, or the least int64. ranks: a permutation of the tables; groups: of the table of
/// each rank, ascending from 0 without gaps. Overwrites; no overlap. Deterministic.
///
/// key_bits: keys are taken for numbers of so many bits, which fewer passes sort; 64: any. seen (1)
/// int64 |= every key: where it has more bits than that, the other outputs are of no use.
struct HCTR_API DistinctKeys {
  static constexpr const char* kName = "distinct_keys";
  std::vector<TensorRef> keys;
  TensorRef buckets, distinct, sorted_buckets, numbers, run_offsets, counts, largest, seen;
  std::vector<std::int64_t> owners, ranks, groups;
  std::int64_t processes = 1, key_bits = 64;

  void visit(OpVisitor& v) {
    v.tensors("keys", Access::In, keys);
    v.tensor("buckets", Access::In, buckets);
    v.tensor("distinct", Access::Out, distinct);
    v.tensor("sorted_buckets", Access::Out, sorted_buckets);
    v.tensor("numbers", Access::Out, numbers);
    v.tensor("run_offsets", Access::Out, run_offsets);
    v.tensor("counts", Access::Out, counts);
    v.tensor("largest", Access::Out, largest);
    v.tensor("seen", Access::InOut, seen);
    v.attribute("owners", owners);
    v.attribute("ranks", ranks);
    v.attribute("groups", groups);
    v.attribute("processes", processes);
    v.attribute("key_bits", key_bits);
  }
  void check() const;

  std::size_t sections() const { return keys.size() * static_cast<std::size_t>(processes); }
};

}  // namespace hugectr
