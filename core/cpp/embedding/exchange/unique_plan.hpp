// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/embedding/exchange/row_hop.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

class RowRoom;

/// What a device that hands rows on inside its node (RowRelay) needs to know of a training batch.
///
///   forward   the rows that its node asks of owners at its place come, each once; it copies them
///             in the order in which the devices of the node ask
///   backward  the gradients of these come, and are summed for each row that came
struct RelayPlan {
  /// n keys of rows that come.
  void reserve(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
               std::size_t n);
  bool fits(std::size_t n) const { return arena && n <= keys; }
  RowsOfPart came_in(MicroBatch part) const { return rows_of_part(came, part); }
  RowsOfPart handed_in(MicroBatch part) const { return rows_of_part(handed, part); }
  std::size_t came_rows() const;
  std::size_t handed_rows() const;

  // Buffers, once a plan slot.
  std::shared_ptr<DeviceBuffer2> arena;
  std::size_t keys = 0;
  TensorBag2 rows;                ///< (>= handed) which of the rows that came each one is
  TensorBag2 places;              ///< (>= handed + 1) 0, 1, 2, ...
  TensorBag2 order, run_offsets;  ///< places of handed rows, by the row that came

  // The present plan: rows from owner r, and to device r, in micro-batch m: number m * N + r.
  std::vector<std::size_t> came, handed;
  std::shared_ptr<const RowRoom> room;  ///< asked: handed ones, given: those that came
};

/// What the `unique` exchange of a training batch needs to know on one device, which is an owner of
/// rows and asks other owners for rows. Part of a TablePlan: made on the plan stream, read on the
/// compute stream.
///
///   forward   owner: the distinct rows that each device asks for -> device: place them, pool them
///   backward  device: gradient of each row it was given, summed -> owner: sum over devices, update
///
/// Vectors travel in the order of the micro-batch, of the device that asks, then of the row's
/// number on its owner. A row that two micro-batches of a device use travels twice. By node, who
/// asks an owner is a node, and who gives to a device is the relay of an owner's place.
struct UniquePlan {
  RowsOfPart asked_in(MicroBatch part) const { return rows_of_part(asked, part); }
  RowsOfPart given_in(MicroBatch part) const { return rows_of_part(given, part); }

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
  FlatBuffer rows;          ///< owner: (>= asked_rows) rows in the order they travel
  FlatBuffer places;        ///< owner: (>= asked_rows + 1) 0, 1, 2, ...: a bucket for each of them
  FlatBuffer given_places;  ///< asker: (>= n) place of each key's row in what came
  FlatBuffer row_offsets, scale;  ///< asker: (m + 1), (m): its buckets' keys, counted from 0
  FlatBuffer sorted_buckets, run_offsets;  ///< asker: buckets of each row that came

  // The present plan.
  bool used = false;
  /// Rows of this device that device r asks for in micro-batch m: number m * N + r.
  std::vector<std::size_t> asked;
  /// Rows of device r that this device asks for in micro-batch m, likewise.
  std::vector<std::size_t> given;
  std::size_t keys = 0;                 ///< asker: n
  std::shared_ptr<const RowRoom> room;  ///< for its vectors; null: the route's memory does
  RelayPlan relay;                      ///< where rows go by node

 private:
  static std::size_t total(const std::vector<std::size_t>& counts);
};

}  // namespace hugectr
