// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/device/op.hpp"

/// What devices tell one another so that each distinct row of a batch travels once (the `unique`
/// exchange, embedding/exchange/unique_exchange.hpp). A device owns rows; all devices ask for those
/// that their samples use, in one micro-batch or in several, for each of them anew; or their nodes
/// ask. A request is a pair of who asks, a micro-batch of a device or node, and row, in one number:
///
///   request = (micro-batch * askers + asker) * row_count + row     all below 2^32 - 1
///
/// Sorted requests lie together by who asks. All ops overwrite and are deterministic.
namespace hugectr {

/// On the owner, for its keys of the global batch in sample order:
///   part = bucket / buckets_per_part, which is device * micro_batches + micro-batch
///   requests[i] = (part % micro_batches * askers + asker) * row_count + rows[i];  places[i] = i
///
/// bucket: buckets[i]; or of all keys of the batch that of keys[i], if there are keys. asker: the
/// device; or asker_of_device[device], if that is not empty. rows (n) below row_count, keys (n),
/// buckets (n, or any number of them), requests (n), places (n + 1): uint32. The places are buckets
/// of one row each for those who read requests as a batch. A key that is none of the batch's, which
/// a collective that was aborted may leave, asks for its row as the first.
struct HCTR_API RequestRows {
  static constexpr const char* kName = "request_rows";
  static constexpr const char* kSeveralName = "several_request_rows";
  TensorRef rows, buckets, keys, requests, places;
  std::vector<std::int64_t> asker_of_device;
  std::int64_t row_count = 0, buckets_per_part = 1, askers = 1, micro_batches = 1;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("buckets", Access::In, buckets);
    v.optional("keys", Access::In, keys);
    v.tensor("requests", Access::Out, requests);
    v.tensor("places", Access::Out, places);
    v.attribute("asker_of_device", asker_of_device);
    v.attribute("row_count", row_count);
    v.attribute("buckets_per_part", buckets_per_part);
    v.attribute("askers", askers);
    v.attribute("micro_batches", micro_batches);
  }
  void check() const;
};

/// What is asked for, by who asks:
///   rows[u] = requests[u] % row_count;  counts[0, r] = requests of asker r;
///   counts[1, r] = keys that they stand for
/// requests (>= U) uint32, ascending and distinct; run_offsets (>= U + 1) uint32: where the keys of
/// a request begin; run_count (1) int64 holds U; rows (>= U) uint32; counts (2, askers) int64.
struct HCTR_API CountRequests {
  static constexpr const char* kName = "count_requests";
  static constexpr const char* kSeveralName = "several_count_requests";
  TensorRef requests, run_offsets, run_count, rows, counts;
  std::int64_t row_count = 0;

  void visit(OpVisitor& v) {
    v.tensor("requests", Access::In, requests);
    v.tensor("run_offsets", Access::In, run_offsets);
    v.tensor("run_count", Access::In, run_count);
    v.tensor("rows", Access::Out, rows);
    v.tensor("counts", Access::Out, counts);
    v.attribute("row_count", row_count);
  }
  void check() const;
};

/// On the device that asks, where the runs of all owners have come one after the other: what
/// lookup_sort makes of rows numbered in the order they come, and the number of each key's row.
///   run_offsets[u] = offsets[u] - offsets[row_starts[o]] + key_starts[o], row u of owner o;
///   for place j of run u, key i = keys[j] - row_offsets[0]:
///     numbers[i] = u;  sorted_buckets[j] = buckets[i]
/// offsets (U): where an owner's runs begin; keys (n): numbers of the keys in the batch;
/// row_offsets
/// (>= 1): those of the device's samples in the batch; buckets (n); run_offsets (U + 1); numbers,
/// sorted_buckets (n): uint32. row_starts, key_starts: of each owner, in each micro-batch anew, the
/// first is 0. Numbers of keys that are none of the device's are passed over.
struct HCTR_API PlaceRequests {
  static constexpr const char* kName = "place_requests";
  static constexpr const char* kSeveralName = "several_place_requests";
  TensorRef offsets, keys, row_offsets, buckets, run_offsets, numbers, sorted_buckets;
  std::vector<std::int64_t> row_starts, key_starts;

  void visit(OpVisitor& v) {
    v.tensor("offsets", Access::In, offsets);
    v.tensor("keys", Access::In, keys);
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("buckets", Access::In, buckets);
    v.tensor("run_offsets", Access::Out, run_offsets);
    v.tensor("numbers", Access::Out, numbers);
    v.tensor("sorted_buckets", Access::Out, sorted_buckets);
    v.attribute("row_starts", row_starts);
    v.attribute("key_starts", key_starts);
  }
  void check() const;
};

/// own_offsets[i] = row_offsets[i] - row_offsets[0]: a part of a batch on its own. Both (m + 1)
/// uint32.
struct HCTR_API RebaseOffsets {
  static constexpr const char* kName = "rebase_offsets";
  static constexpr const char* kSeveralName = "several_rebase_offsets";
  TensorRef row_offsets, own_offsets;

  void visit(OpVisitor& v) {
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("own_offsets", Access::Out, own_offsets);
  }
  void check() const;
};

}  // namespace hugectr
