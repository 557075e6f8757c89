// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/cached_rows.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "core/cpp/embedding/table/cache_memory.hpp"
#include "core/cpp/embedding/table/place_ranking.hpp"
#include "core/cpp/embedding/table/plan_pins.hpp"
#include "core/cpp/embedding/table/row_homes.hpp"
#include "core/cpp/embedding/table/row_staging.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/row_cache.hpp"

namespace hugectr {
namespace {

TensorRef first_of(const TensorBag2& bag, std::size_t n) {
  TensorRef ref = bag.ref();
  ref.shape = {n};
  return ref;
}

class CachedRows final : public RowStore {
 public:
  CachedRows(GPUResource& gpu, std::unique_ptr<RowBacking> home, std::string table,
             const std::string& owner, const RowParts& parts, std::size_t places,
             std::size_t max_rows, std::size_t least_ranked)
      : gpu_(gpu),
        home_(std::move(home)),
        table_(std::move(table)),
        owner_(owner),
        row_bytes_(parts.row_bytes()),
        most_places_(std::min(places, max_rows)),
        memory_(gpu.memory_resource()),
        cache_(*memory_, gpu.device(), owner + " cached", parts, most_places_),
        swaps_(home_->swaps()),
        maps_(*memory_, owner, most_places_, max_rows, swaps_),
        ranking_(least_ranked) {
    const auto arena = DeviceBuffer2::create(owner_ + " cache report", DeviceAllocator(memory_));
    report_ = arena->reserve({CacheReport::kSize}, TensorScalarType::Int64, "report");
    readers_report_ = arena->reserve({CacheReport::kSize}, TensorScalarType::Int64, "of readers");
    arena->allocate();
    const auto staging =
        DeviceBuffer2::create(owner_ + " cache report", DeviceAllocator(gpu.staging_resource()));
    staging->reserve({CacheReport::kSize}, &on_host_, "report");
    staging->reserve({CacheReport::kSize}, &of_readers_, "of readers");
    staging->allocate();
    Stream& stream = gpu_.plan_stream();
    stream.fill_zero(report_.get_ptr(), report_.get_size_in_bytes());
    stream.fill_zero(readers_report_.get_ptr(), readers_report_.get_size_in_bytes());
    stream.synchronize();
    gpu_.move_stream();  // made while one thread has the device
  }
  ~CachedRows() override {
    try {
      gpu_.move_stream().synchronize();  // it uses the members
    } catch (const std::exception&) {    // whoever waited for it has been told
    }
  }

  void grow_to(std::size_t rows) override {
    const std::lock_guard lock(mutex_);
    if (rows <= rows_) return;
    home_->grow_to(rows);
    const std::size_t places = std::min(rows, most_places_);
    cache_.grow_to(places);
    maps_.grow_to(rows, places);
    rows_ = rows;
    places_ = places;
  }

  bool wants_distinct_rows() const override { return true; }

  bool prepare(const OpContext& context, std::size_t plan, const PlanRows& numbers,
               StagingOps& ops) override {
    const std::lock_guard lock(mutex_);
    const PlanPins::Pins pins = pins_.begin(*context.stream, ops.awaited, plan, numbers.train);
    if (plan >= places_of_plans_.size()) places_of_plans_.resize(plan + 1);
    last_lists_ = 1 - last_lists_;
    CacheRank rank = ranking_.next(places_, numbers.train, !release_ended(pins.ended, ops));
    make_lists(places_of_plans_[plan], numbers);
    ops.awaited.await(*context.stream, lists().moved);
    ops.finds.push_back({.distinct = numbers.distinct,
                         .count = numbers.count,
                         .place_of = place_of(),
                         .marks = marks(),
                         .missing = lists().missing.ref(),
                         .report = report_.ref(),
                         .plan = pins.bit,
                         .now = ranking_.now(),
                         .train = numbers.train});
    rank.marks = marks(), rank.report = report_.ref(), rank.told = told(), rank.live = pins.live;
    ops.ranks.push_back(rank);
    return true;
  }
  void take(const OpContext& context, std::size_t plan, const PlanRows& numbers,
            StagingOps& ops) override {
    const std::lock_guard lock(mutex_);
    replaced_.clear();
    const std::size_t missing = lists().count = reported(CacheReport::kMissing);
    places_of_plans_[plan].rows = reported(CacheReport::kRows);
    ranking_.passed(reported(CacheReport::kRanked), places_);
    if (const std::size_t free = reported(CacheReport::kFree); missing > free) {
      throw too_few_places(table_, gpu_.device(), places_ - free + missing, numbers.of_keys.size(),
                           most_places_, row_bytes_);
    }
    counts_.hits += reported(CacheReport::kRows) - missing;
    counts_.misses += missing;
    counts_.bytes_fetched = reported(CacheReport::kFetched) * row_bytes_;
    counts_.bytes_written_back = (reported(CacheReport::kSent) + sent_by_readers_) * row_bytes_;
    if (missing > 0) bring(context, plan, numbers, ops);
  }

  void moving(std::size_t, const std::shared_ptr<Event>& moved) override {
    const std::lock_guard lock(mutex_);
    if (lists().count > 0) lists().moved = moved;
  }

  StagedRows stage(std::size_t plan, std::size_t, const PlanRows& numbers,
                   StagingOps& ops) override {
    const std::lock_guard lock(mutex_);
    pins_.staged(plan);
    unsent_ = unsent_ || numbers.train;
    PlanPlaces& own = places_of_plans_.at(plan);
    const TensorRef places = place_of();
    const StagedRows staged{cache_.arrays(places_), first_of(own.of_keys, numbers.of_keys.size()),
                            first_of(own.distinct, numbers.distinct.size()), places};
    ops.places.push_back({.rows = numbers.of_keys, .place_of = places, .places = staged.of_keys});
    ops.places.push_back({.rows = numbers.distinct,
                          .count = numbers.count,
                          .place_of = places,
                          .places = staged.distinct});
    return staged;
  }

  bool moves() const override { return true; }
  void release(std::size_t plan, const std::shared_ptr<Event>& released) override {
    const std::lock_guard lock(mutex_);
    if (pins_.release(plan, released)) unsent_ = unsent_ || pins_.trains(plan);
  }

  void visit(const OpContext& context, std::size_t rows, const std::vector<std::uint32_t>& numbers,
             RowUse use, const RowVisit& f) override {
    send_home();
    if (swaps_) {
      std::vector<std::uint32_t> homes = numbers;
      find_homes(homes);
      home_->visit(context, rows_, homes, use,
                   [&](const VisitedRows& visited) { f({visited.arrays, &homes}); });
    } else {
      home_->visit(context, rows, numbers, use, f);
    }
    if (use == RowUse::Write) read_again();
  }
  std::size_t most_visited() const override { return home_->most_visited(); }
  void scan(const OpContext& context, std::size_t rows, RowUse use, const RowScan& f) override {
    send_home();
    put_home_in_order();
    home_->scan(context, rows, use, f);
    if (use == RowUse::Write) read_again();
  }
  RowArrays whole(std::size_t rows) override {
    send_home();
    put_home_in_order();
    return home_->whole(rows);
  }
  std::optional<StoredRows> stored(const std::vector<std::uint32_t>& numbers) override {
    return send_home(), home_->stored(numbers);
  }
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
  std::size_t staging_bytes() const override {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const MoveLists& lists : lists_) bytes += lists.arena ? lists.arena->size_in_bytes() : 0;
    for (const PlanPlaces& plan : places_of_plans_) {
      bytes += plan.arena ? plan.arena->size_in_bytes() : 0;
    }
    return bytes;
  }
  TierCounts counts() const override {
    const DiskTierCounts disk = home_->disk_counts();
    const std::lock_guard lock(mutex_);
    TierCounts counts = counts_;
    counts.disk = disk;
    return counts;
  }

 private:
  static TensorRef flat(const GrowableTensor& tensor, std::size_t n) {
    TensorRef ref = tensor.ref(0, n);
    ref.shape = {n};
    ref.row_stride = 1;
    return ref;
  }
  TensorRef place_of() const { return flat(maps_.place_of, rows_); }
  TensorRef rows_at_places() const { return flat(maps_.numbers, places_); }
  TensorRef marks() const { return flat(maps_.marks, places_); }
  TensorRef shifts() const { return swaps_ ? flat(maps_.shifts, rows_) : TensorRef{}; }
  std::size_t reported(std::size_t what) const {
    return static_cast<std::size_t>(on_host_.get_ptr()[what]);
  }

  /// Takes the pins of plans that are over from their places. False: the ranking of all places has
  /// to do it.
  bool release_ended(const std::vector<PlanPins::Ended>& ended, StagingOps& ops) {
    if (ranking_.ranks_all(places_)) return false;
    if (!std::ranges::all_of(ended, &PlanPins::Ended::staged)) return false;
    for (const PlanPins::Ended& plan : ended) {
      const PlanPlaces& places = places_of_plans_.at(plan.slot);
      if (places.rows == 0) continue;
      ops.releases.push_back(
          {.places = first_of(places.distinct, places.rows), .marks = marks(), .plan = plan.bit});
    }
    return true;
  }

  /// Lists that hold the plan. The plan stream has waited for who read the old ones.
  void make_lists(PlanPlaces& own, const PlanRows& numbers) {
    const std::size_t keys = numbers.of_keys.size(), rows = numbers.distinct.size();
    if (!own.hold(keys, rows)) {
      gpu_.plan_stream().synchronize();
      replaced_.push_back(own.arena);
      own.allocate(memory_, owner_, keys, rows);
    }
    if (lists().hold(rows)) return;
    gpu_.plan_stream().synchronize();
    gpu_.move_stream().synchronize();
    lists().allocate(memory_, owner_, rows);
  }

  void bring(const OpContext& context, std::size_t plan, const PlanRows& numbers, StagingOps& ops) {
    MoveLists& own = lists();
    home_->ready(context, first_of(own.missing, own.count), own.count, numbers.fresh_from,
                 own.count);
    ops.takes.push_back({.missing = first_of(own.missing, own.count),
                         .place_of = place_of(),
                         .numbers = rows_at_places(),
                         .marks = marks(),
                         .places = own.places.ref(),
                         .leaving = own.leaving.ref(),
                         .coming = own.coming.ref(),
                         .report = report_.ref(),
                         .shifts = shifts(),
                         .plan = pins_.bit(plan),
                         .now = ranking_.now(),
                         .first = ranking_.first(),
                         .ranked = on_host_.get_ptr()[CacheReport::kRanked],
                         .bound = on_host_.get_ptr()[CacheReport::kBound],
                         .below = on_host_.get_ptr()[CacheReport::kBelow],
                         .fresh_from = static_cast<std::int64_t>(numbers.fresh_from),
                         .train = numbers.train});
    swapped_ = swaps_;  // with a place that has changed: those were unsent before
    const RowArrays cache = cache_.arrays(places_);
    const RowMoves moves{own.places.ref(), own.leaving.ref(), own.coming.ref(), own.count};
    if (std::optional<MoveRows> op = home_->move_op(cache, moves)) {
      ops.moves.push_back(*std::move(op));
    } else {
      ops.host_moves.push_back(
          [this, cache, moves](const OpContext& moving) { home_->move(moving, cache, moves); });
    }
  }

  /// Where ops of the device write the report for the host.
  TensorRef told() const {
    TensorRef ref = on_host_.ref();
    ref.device = gpu_.device();
    return ref;
  }
  MoveLists& lists() { return lists_[last_lists_]; }
  /// What comes on the plan stream from here on finds the rows of all plans at their places.
  void await_moves(Stream& plan_stream) {
    for (const MoveLists& lists : lists_) {
      if (lists.moved) plan_stream.wait(*lists.moved);
    }
  }

  /// Lists the places that have changed, or all; for who reads or writes rows at home. Waits.
  FoundPlaces find_places(const OpContext& context, bool all) {
    FoundPlaces found(memory_, owner_, places_);
    run(context, CacheChanged{.numbers = rows_at_places(),
                              .marks = marks(),
                              .places = found.places.ref(),
                              .rows = found.rows.ref(),
                              .report = readers_report_.ref(),
                              .changing = pins_.changing(),
                              .all = all});
    context.stream->copy(of_readers_.get_ptr(), readers_report_.get_ptr(),
                         readers_report_.get_size_in_bytes());
    context.stream->synchronize();
    found.count = static_cast<std::size_t>(of_readers_.get_ptr()[CacheReport::kMissing]);
    if (swaps_) {
      run(context, CacheHomes{.rows = first_of(found.rows, found.count), .shifts = shifts()});
    }
    return found;
  }

  /// Numbers of rows become their homes. Waits.
  void find_homes(std::vector<std::uint32_t>& rows) {
    const std::lock_guard lock(mutex_);
    rows_to_homes(gpu_.plan_context(), memory_, owner_, shifts(), rows);
  }

  /// Each row is at home at its number when this returns, for who looks at all of them. What is
  /// there must have been sent home.
  void put_home_in_order() {
    const std::lock_guard lock(mutex_);
    if (!swapped_) return;
    const OpContext context = gpu_.plan_context();
    await_moves(*context.stream);
    put_in_order(context, home_->whole(rows_), shifts());
    swapped_ = false;
  }

  /// What steps have changed is at home when this returns. Rows of a plan that is staged count as
  /// changed until it is released.
  void send_home() {
    const std::lock_guard lock(mutex_);
    if (!unsent_ || places_ == 0) return;
    const OpContext context = gpu_.plan_context();
    pins_.wait_for_released(*context.stream);
    await_moves(*context.stream);
    home_->ready(context, {}, 0, 0, places_);
    const FoundPlaces changed = find_places(context, false);
    if (changed.count > 0) {
      home_->move(context, cache_.arrays(places_),
                  {changed.places.ref(), changed.rows.ref(), {}, changed.count});
      context.stream->synchronize();
    }
    sent_by_readers_ += changed.count;
    counts_.bytes_written_back += changed.count * row_bytes_;
    unsent_ = false;
  }

  /// Rows have changed at home: those with a place are brought there anew.
  void read_again() {
    const std::lock_guard lock(mutex_);
    if (places_ == 0) return;
    const OpContext context = gpu_.plan_context();
    await_moves(*context.stream);
    const FoundPlaces taken = find_places(context, true);
    if (taken.count == 0) return;
    home_->move(context, cache_.arrays(places_),
                {taken.places.ref(), {}, taken.rows.ref(), taken.count});
    context.stream->synchronize();
  }

  GPUResource& gpu_;
  std::unique_ptr<RowBacking> home_;
  const std::string table_, owner_;
  const std::size_t row_bytes_, most_places_;
  std::shared_ptr<MemoryResource> memory_;
  GrowableRows cache_;
  const bool swaps_;  ///< whether rows swap homes
  PlaceMaps maps_;
  PlaceRanking ranking_;
  std::size_t rows_ = 0, places_ = 0;  ///< that there is memory for

  mutable std::mutex mutex_;  ///< plans are made and released by different threads
  PlanPins pins_;
  std::deque<PlanPlaces> places_of_plans_;
  /// Lists that were too short, which the ops of this staging may read.
  std::vector<std::shared_ptr<DeviceBuffer2>> replaced_;
  bool unsent_ = false;   ///< whether places may have changed since send_home()
  bool swapped_ = false;  ///< whether homes may be others than numbers

  MoveLists lists_[2];  ///< of the plan that is being made, and of the one whose rows may be moving
  std::size_t last_lists_ = 0;
  TensorBag2 report_, readers_report_;
  Tensor2<std::int64_t> on_host_, of_readers_;  ///< as they were told last
  std::uint64_t sent_by_readers_ = 0;
  TierCounts counts_;  ///< bytes: but for those of the last plan
};

}  // namespace

std::unique_ptr<RowStore> make_cached_rows(GPUResource& gpu, std::unique_ptr<RowBacking> home,
                                           const std::string& table, const std::string& owner,
                                           const RowParts& parts, std::size_t places,
                                           std::size_t max_rows, std::size_t least_ranked) {
  return std::make_unique<CachedRows>(gpu, std::move(home), table, owner, parts, places, max_rows,
                                      least_ranked);
}

}  // namespace hugectr
