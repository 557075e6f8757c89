// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/device/op.hpp"

/// What devices tell one another so that each distinct row of a batch travels once (the `unique`
/// exchange, embedding/unique_exchange.hpp). A device owns rows; all devices ask for those that
/// their samples use. A request is a pair of asking device and row, in one number:
///
///   request = device * row_count + row      device_count * row_count <= 2^32 - 1
///
/// Sorted requests lie together by the device that asks. All ops overwrite and are deterministic.
namespace hugectr {

/// On the owner, for its keys of the global batch in sample order:
///   requests[i] = buckets[i] / buckets_per_device * row_count + rows[i];  places[i] = i
/// rows (n) below row_count, buckets (n), requests (n), places (n + 1): uint32.
struct HCTR_API RequestRows {
  static constexpr const char* kName = "request_rows";
  TensorRef rows, buckets, requests, places;
  std::int64_t row_count = 0, buckets_per_device = 1;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("buckets", Access::In, buckets);
    v.tensor("requests", Access::Out, requests);
    v.tensor("places", Access::Out, places);
    v.attribute("row_count", row_count);
    v.attribute("buckets_per_device", buckets_per_device);
  }
  void check() const;
};

/// What is asked for, by device:
///   rows[u] = requests[u] % row_count;  counts[0, r] = requests of device r;
///   counts[1, r] = keys that they stand for
/// requests (>= U) uint32, ascending and distinct; run_offsets (>= U + 1) uint32: where the keys of
/// a request begin; run_count (1) int64 holds U; rows (>= U) uint32; counts (2, N) int64.
struct HCTR_API CountRequests {
  static constexpr const char* kName = "count_requests";
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

/// The number of the vector that each key gets, where the device that asked will have it:
///   numbers[places[j]] = u + shifts[requests[u] / row_count], run_offsets[u] <= j <
///                        run_offsets[u + 1]
/// requests (U), run_offsets (U + 1), places (n) sorted by request, numbers (n): uint32; shifts:
/// one a device.
struct HCTR_API NumberRequests {
  static constexpr const char* kName = "number_requests";
  TensorRef requests, run_offsets, places, numbers;
  std::int64_t row_count = 0;
  std::vector<std::int64_t> shifts;

  void visit(OpVisitor& v) {
    v.tensor("requests", Access::In, requests);
    v.tensor("run_offsets", Access::In, run_offsets);
    v.tensor("places", Access::In, places);
    v.tensor("numbers", Access::Out, numbers);
    v.attribute("row_count", row_count);
    v.attribute("shifts", shifts);
  }
  void check() const;
};

/// On the device that asks, for the keys of its own samples:
///   own_offsets[b] = row_offsets[b] - row_offsets[0];  for key i of bucket b (counted from the
///   first): buckets[i] = b, owners[i] = its device, places[i] = i
/// keys: of the global batch, uint32 or int64; row_offsets (m + 1): those of the device's buckets;
/// own_offsets (m + 1), buckets (n), owners (n), places (n): uint32. Owner by key or slot as in
/// filter_keys.hpp; bucket = sample * slot_num + slot.
struct HCTR_API OwnersOfKeys {
  static constexpr const char* kName = "owners_of_keys";
  TensorRef keys, row_offsets, own_offsets, buckets, owners, places;
  std::int64_t slot_num = 1, device_count = 1;
  bool by_slot = false;

  void visit(OpVisitor& v) {
    v.tensor("keys", Access::In, keys);
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("own_offsets", Access::Out, own_offsets);
    v.tensor("buckets", Access::Out, buckets);
    v.tensor("owners", Access::Out, owners);
    v.tensor("places", Access::Out, places);
    v.attribute("slot_num", slot_num);
    v.attribute("device_count", device_count);
    v.attribute("by_slot", by_slot);
  }
  void check() const;
};

}  // namespace hugectr
