// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/table/awaited_events.hpp"
#include "core/cpp/embedding/table/faster_way.hpp"
#include "core/cpp/embedding/table/moves_by_host.hpp"
#include "core/cpp/embedding/table/row_store.hpp"
#include "core/cpp/ops/move_rows.hpp"
#include "core/cpp/ops/row_cache.hpp"

namespace hugectr {

/// What the stores of a plan's tables want run, gathered so that it is run for all of them at once:
/// staging takes a few launches then, whatever the number of tables.
struct StagingOps {
  std::vector<CacheRelease> releases;
  std::vector<CacheFind> finds;
  std::vector<CacheRank> ranks;
  std::vector<CacheTake> takes;
  std::vector<MoveRows> moves;
  /// Moves in which the host has a part: they submit to the move stream and may wait for it.
  std::vector<std::function<void(const OpContext& moving)>> host_moves;
  std::vector<CachePlaces> places;
  AwaitedEvents awaited;  ///< by the plan stream
};

/// Rows of a plan of several tables on one device, brought to where the plan uses them. For one
/// thread at a time.
class RowStaging {
 public:
  explicit RowStaging(GPUResource& gpu);

  struct Rows {
    RowStore* store;
    std::size_t size;  ///< rows of the table: all numbers are below it
    PlanRows numbers;
  };
  /// On the plan stream; rows come on the move stream where their store moves() them. The host
  /// waits once. Throws OutOfMemory when a table has not places enough, before rows of any have
  /// moved: release() the plan in all stores then.
  std::vector<StagedRows> stage(std::size_t plan, std::span<const Rows> tables);

 private:
  /// By what rows travel between a device and the host.
  enum class Mover { Device, Host, Faster };

  static Mover mover_of(DeviceType type);
  void move(StagingOps& ops, std::size_t plan, std::span<const Rows> tables);
  bool is_for_host(std::span<const MoveRows> moves, bool train);

  GPUResource& gpu_;
  Mover mover_;
  FasterWay host_is_faster_;
  MovesByHost by_host_;
  std::unique_ptr<Event> taken_;  ///< plan stream: moves may begin
  /// Move stream: rows of a plan have come, of the last ones in turn. Stores ask for them again
  /// when they use the same lists, two plans later.
  std::array<std::shared_ptr<Event>, 2> moved_;
  std::size_t last_moved_ = 0;
};

}  // namespace hugectr
