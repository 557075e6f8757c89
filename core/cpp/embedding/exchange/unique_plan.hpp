// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/embedding/micro_batch.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

class RowRoom;

/// What the `unique` exchange of a training batch needs to know on one device, which is an owner of
/// rows and asks other owners for rows. Part of a TablePlan: made on the plan stream, read on the
/// compute stream.
///
///   forward   owner: the distinct rows that each device asks for -> device: place them, pool them
///   backward  device: gradient of each row it was given, summed -> owner: sum over devices, update
///
/// Vectors travel in the order of the micro-batch, of the device that asks, then of the row's
/// number on its owner. A row that two micro-batches of a device use travels twice.
struct UniquePlan {
  /// Rows of one micro-batch among all of a plan, and how many of them each device has or gets.
  struct Rows {
    std::size_t first = 0, count = 0;
    std::vector<std::size_t> of_device;
  };
  /// `counts`: of all micro-batches, as those of the plan.
  static Rows rows_in(const std::vector<std::size_t>& counts, MicroBatch part);
  Rows asked_in(MicroBatch part) const { return rows_in(asked, part); }
  Rows given_in(MicroBatch part) const { return rows_in(given, part); }

  /// As owner: n own keys of the global batch.
  void reserve_owner(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                     std::size_t n);
  /// As a device that asks: n keys of its samples, m buckets.
  void reserve_asker(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                     std::size_t n, std::size_t m);
  bool owner_fits(std::size_t n) const { return owner_arena && n <= owner_keys; }
  bool asker_fits(std::size_t n, std::size_t m) const {
    return asker_arena && n <= asker_keys && m <= asker_buckets;
  }
  std::size_t asked_rows() const { return total(asked); }
  std::size_t given_rows() const { return total(given); }

  // Buffers, once a plan slot.
  std::shared_ptr<DeviceBuffer2> owner_arena, asker_arena;
  std::size_t owner_keys = 0, asker_keys = 0, asker_buckets = 0;
  TensorBag2 rows;          ///< owner: (>= asked_rows) rows in the order they travel
  TensorBag2 places;        ///< owner: (>= asked_rows + 1) 0, 1, 2, ...: a bucket for each of them
  TensorBag2 given_places;  ///< asker: (>= n) place of each key's row in what came
  TensorBag2 row_offsets, scale;  ///< asker: (m + 1), (m): its buckets' keys, counted from 0
  TensorBag2 sorted_buckets, run_offsets;  ///< asker: buckets of each row that came

  // The present plan.
  bool used = false;
  /// Rows of this device that device r asks for in micro-batch m: number m * N + r.
  std::vector<std::size_t> asked;
  /// Rows of device r that this device asks for in micro-batch m, likewise.
  std::vector<std::size_t> given;
  std::size_t keys = 0;                 ///< asker: n
  std::shared_ptr<const RowRoom> room;  ///< for its vectors; null: the route's memory does

 private:
  static std::size_t total(const std::vector<std::size_t>& counts);
};

}  // namespace hugectr
