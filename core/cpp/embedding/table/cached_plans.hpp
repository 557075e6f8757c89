// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/table/cache_memory.hpp"
#include "core/cpp/embedding/table/place_ranking.hpp"
#include "core/cpp/embedding/table/plan_pins.hpp"
#include "core/cpp/embedding/table/row_backing.hpp"
#include "core/cpp/embedding/table/rows_beside.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// Places of a device as a cache of the rows of a table, as plans use them (cached_rows.hpp): which
/// of their rows are there, which leave, which come. How rows that no plan names are looked at
/// depends on their home, and is said by who derives from it.
class CachedPlans : public RowStore {
 public:
  CachedPlans(GPUResource& gpu, std::unique_ptr<RowBacking> home, const std::string& table,
              const std::string& owner, const RowParts& parts, std::size_t places,
              std::size_t max_rows, std::size_t least_ranked);
  ~CachedPlans() override;

  void grow_to(std::size_t rows) override;
  bool wants_distinct_rows() const override { return true; }
  bool prepare(const OpContext& context, std::size_t plan, const PlanRows& numbers,
               StagingOps& ops) override;
  void take(const OpContext& context, std::size_t plan, const PlanRows& numbers,
            StagingOps& ops) override;
  bool moves() const override { return true; }
  void moving(std::size_t plan, const std::shared_ptr<Event>& moved) override;
  StagedRows stage(std::size_t plan, std::size_t rows, const PlanRows& numbers,
                   StagingOps& ops) override;
  void release(std::size_t plan, const std::shared_ptr<Event>& released) override;

  void forget(const OpContext& context, const TensorRef& rows) override;
  void clear(const OpContext& context) override;
  void check_undamaged() const override { home_->check_undamaged(); }
  bool is_whole() const override { return home_->is_whole(); }
  bool visited_on_host() const override { return true; }
  bool in_place() const override { return false; }

  bool overlaps(const void* begin, std::size_t bytes) const override {
    return home_->overlaps(begin, bytes);
  }
  std::size_t vector_bytes() const override { return cache_.vector_bytes(); }
  std::size_t size_in_bytes() const override {
    return cache_.size_in_bytes() + maps_.size_in_bytes();
  }
  std::size_t host_bytes() const override { return home_->host_bytes(); }
  std::size_t staging_bytes() const override;
  TierCounts counts() const override;

 protected:
  TensorRef place_of() const;
  TensorRef rows_at_places() const;
  TensorRef marks() const;
  TensorRef shifts() const;  ///< empty where homes are not swapped
  RowsAtPlaces at_places() const { return {cache_.arrays(places_), place_of()}; }
  /// What comes on the plan stream from here on finds at the places what steps and moves have left
  /// there.
  void await_steps(Stream& plan_stream);

  GPUResource& gpu_;
  const std::unique_ptr<RowBacking> home_;
  const std::string table_, owner_;
  const RowParts parts_;
  const std::size_t row_bytes_, most_places_;
  const std::shared_ptr<MemoryResource> memory_;
  GrowableRows cache_;
  const bool swaps_;                   ///< whether rows swap homes
  std::size_t rows_ = 0, places_ = 0;  ///< that there is memory for

  mutable std::mutex mutex_;  ///< plans are made and released by different threads
  PlanPins pins_;
  bool unsent_ = false;   ///< whether places may have changed since all of that was home
  bool swapped_ = false;  ///< whether homes may be others than numbers
  std::uint64_t sent_by_readers_ = 0;
  TierCounts counts_;  ///< bytes: but for those of the last plan

 private:
  TensorRef told() const;
  MoveLists& lists() { return lists_[last_lists_]; }
  void await_moves(Stream& plan_stream);
  bool release_ended(const std::vector<PlanPins::Ended>& ended, StagingOps& ops);
  void make_lists(PlanPlaces& own, const PlanRows& numbers);
  void bring(const OpContext& context, std::size_t plan, const PlanRows& numbers, StagingOps& ops);
  void copy_beside(const OpContext& context, std::size_t plan, const PlanRows& numbers);

  PlaceMaps maps_;
  PlaceRanking ranking_;
  std::deque<PlanPlaces> places_of_plans_;
  std::deque<std::unique_ptr<RowsBeside>> beside_;  ///< of plans whose rows have no places
  /// Lists that were too short, which the ops of this staging may read.
  std::vector<std::shared_ptr<DeviceBuffer2>> replaced_;
  MoveLists lists_[2];  ///< of the plan that is being made, and of the one whose rows may be moving
  std::size_t last_lists_ = 0;
  CacheReportMemory report_;
};

}  // namespace hugectr
