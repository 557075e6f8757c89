// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/cached_plans.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "core/cpp/embedding/storage/no_room.hpp"
#include "core/cpp/embedding/table/row_staging.hpp"
#include "core/cpp/ops/row_cache.hpp"
#include "core/cpp/ops/scatter_rows.hpp"

namespace hugectr {
namespace {

TensorRef first_of(const TensorBag2& bag, std::size_t n) {
  TensorRef ref = bag.ref();
  ref.shape = {n};
  return ref;
}

TensorRef flat(const GrowableTensor& tensor, std::size_t n) {
  TensorRef ref = tensor.ref(0, n);
  ref.shape = {n};
  ref.row_stride = 1;
  return ref;
}

}  // namespace

CachedPlans::CachedPlans(GPUResource& gpu, std::unique_ptr<RowBacking> home,
                         const std::string& table, const std::string& owner, const RowParts& parts,
                         std::size_t places, std::size_t max_rows, std::size_t least_ranked)
    : gpu_(gpu),
      home_(std::move(home)),
      table_(table),
      owner_(owner),
      parts_(parts),
      row_bytes_(parts.row_bytes()),
      most_places_(std::min(places, max_rows)),
      memory_(gpu.memory_resource()),
      cache_(*memory_, gpu.device(), owner + " cached", parts, most_places_),
      swaps_(home_->swaps()),
      maps_(*memory_, owner, most_places_, max_rows, swaps_),
      ranking_(least_ranked),
      report_(gpu, owner_) {
  gpu_.move_stream();  // made while one thread has the device
}

CachedPlans::~CachedPlans() {
  try {
    gpu_.move_stream().synchronize();  // it uses the members
  } catch (const std::exception&) {    // whoever waited for it has been told
  }
}

void CachedPlans::grow_to(std::size_t rows) {
  const std::lock_guard lock(mutex_);
  if (rows <= rows_) return;
  home_->grow_to(rows);
  const std::size_t places = std::min(rows, most_places_);
  cache_.grow_to(places);
  maps_.grow_to(rows, places);
  rows_ = rows;
  places_ = places;
}

bool CachedPlans::prepare(const OpContext& context, std::size_t plan, const PlanRows& numbers,
                          StagingOps& ops) {
  const std::lock_guard lock(mutex_);
  const PlanPins::Pins pins = pins_.begin(*context.stream, ops.awaited, plan, numbers.train);
  if (plan >= places_of_plans_.size()) {
    places_of_plans_.resize(plan + 1);
    beside_.resize(plan + 1);
  }
  beside_[plan].reset();
  last_lists_ = 1 - last_lists_;
  CacheRank rank = ranking_.next(places_, numbers.train, !release_ended(pins.ended, ops));
  make_lists(places_of_plans_[plan], numbers);
  ops.awaited.await(*context.stream, lists().moved);
  ops.finds.push_back({.distinct = numbers.distinct,
                       .count = numbers.count,
                       .place_of = place_of(),
                       .marks = marks(),
                       .missing = lists().missing.ref(),
                       .report = report_.on_device.ref(),
                       .plan = pins.bit,
                       .now = ranking_.now(),
                       .train = numbers.train});
  rank.marks = marks(), rank.report = report_.on_device.ref(), rank.told = told(),
  rank.live = pins.live;
  ops.ranks.push_back(rank);
  return true;
}

void CachedPlans::take(const OpContext& context, std::size_t plan, const PlanRows& numbers,
                       StagingOps& ops) {
  const std::lock_guard lock(mutex_);
  replaced_.clear();
  const std::size_t missing = lists().count = report_.told(CacheReport::kMissing);
  places_of_plans_[plan].rows = report_.told(CacheReport::kRows);
  ranking_.passed(report_.told(CacheReport::kRanked), places_);
  if (const std::size_t free = report_.told(CacheReport::kFree); missing > free) {
    throw too_few_places(table_, gpu_.device(), places_ - free + missing, numbers.of_keys.size(),
                         most_places_, row_bytes_);
  }
  counts_.hits += report_.told(CacheReport::kRows) - missing;
  counts_.misses += missing;
  counts_.bytes_fetched = report_.told(CacheReport::kFetched) * row_bytes_;
  counts_.bytes_written_back = (report_.told(CacheReport::kSent) + sent_by_readers_) * row_bytes_;
  if (missing > 0) bring(context, plan, numbers, ops);
}

void CachedPlans::moving(std::size_t, const std::shared_ptr<Event>& moved) {
  const std::lock_guard lock(mutex_);
  if (lists().count > 0) lists().moved = moved;
}

StagedRows CachedPlans::stage(std::size_t plan, std::size_t, const PlanRows& numbers,
                              StagingOps& ops) {
  const std::lock_guard lock(mutex_);
  // It holds no places: nothing of it is to be waited for or kept there.
  if (beside_.at(plan)) return beside_[plan]->staged();
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

void CachedPlans::release(std::size_t plan, const std::shared_ptr<Event>& released) {
  const std::lock_guard lock(mutex_);
  if (plan < beside_.size() && beside_[plan]) beside_[plan]->release(released);
  if (pins_.release(plan, released)) unsent_ = unsent_ || pins_.trains(plan);
}

void CachedPlans::forget(const OpContext& context, const TensorRef& rows) {
  const std::lock_guard lock(mutex_);
  const std::size_t n = rows.size();
  if (n == 0) return;
  await_steps(*context.stream);
  const FoundPlaces list(memory_, owner_, n);
  const TensorRef places = first_of(list.places, n), zero = first_of(list.rows, n);
  context.stream->fill_zero(zero.data, zero.size_in_bytes());
  run(context, CachePlaces{.rows = rows, .place_of = place_of(), .places = places});
  // No row, no pin: what lay there goes nowhere, and the place is the first to be given.
  run(context, ScatterRows{.rows = places, .values = zero, .target = marks()});
  run(context, ScatterRows{.rows = rows, .values = zero, .target = place_of()});
  std::vector<std::uint32_t> numbers(n);
  context.stream->copy(numbers.data(), rows.data, rows.size_in_bytes());
  context.stream->synchronize();
  home_->forget(numbers);
}

void CachedPlans::clear(const OpContext& context) {
  const std::lock_guard lock(mutex_);
  await_steps(*context.stream);
  for (const TensorRef& map : {marks(), place_of()}) {
    if (map.size() > 0) context.stream->fill_zero(map.data, map.size_in_bytes());
  }
  context.stream->synchronize();
  home_->clear();
  unsent_ = false;
}

std::size_t CachedPlans::staging_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const MoveLists& lists : lists_) bytes += lists.arena ? lists.arena->size_in_bytes() : 0;
  for (const PlanPlaces& plan : places_of_plans_) {
    bytes += plan.arena ? plan.arena->size_in_bytes() : 0;
  }
  return bytes;
}

TierCounts CachedPlans::counts() const {
  const DiskTierCounts disk = home_->disk_counts();
  const std::lock_guard lock(mutex_);
  TierCounts counts = counts_;
  counts.disk = disk;
  return counts;
}

TensorRef CachedPlans::place_of() const { return flat(maps_.place_of, rows_); }
TensorRef CachedPlans::rows_at_places() const { return flat(maps_.numbers, places_); }
TensorRef CachedPlans::marks() const { return flat(maps_.marks, places_); }
TensorRef CachedPlans::shifts() const { return swaps_ ? flat(maps_.shifts, rows_) : TensorRef{}; }

/// Where ops of the device write the report for the host.
TensorRef CachedPlans::told() const {
  TensorRef ref = report_.on_host.ref();
  ref.device = gpu_.device();
  return ref;
}

/// What comes on the plan stream from here on finds the rows of all plans at their places.
void CachedPlans::await_moves(Stream& plan_stream) {
  for (const MoveLists& lists : lists_) {
    if (lists.moved) plan_stream.wait(*lists.moved);
  }
}

void CachedPlans::await_steps(Stream& plan_stream) {
  pins_.wait_for_released(plan_stream);
  await_moves(plan_stream);
}

/// Takes the pins of plans that are over from their places. False: the ranking of all places has to
/// do it.
bool CachedPlans::release_ended(const std::vector<PlanPins::Ended>& ended, StagingOps& ops) {
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
void CachedPlans::make_lists(PlanPlaces& own, const PlanRows& numbers) {
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

void CachedPlans::bring(const OpContext& context, std::size_t plan, const PlanRows& numbers,
                        StagingOps& ops) {
  MoveLists& own = lists();
  try {
    home_->ready(context, first_of(own.missing, own.count), own.count, numbers.fresh_from,
                 own.count);
  } catch (const NoRoom&) {
    if (numbers.train) throw;
    return copy_beside(context, plan, numbers);
  }
  ops.takes.push_back({.missing = first_of(own.missing, own.count),
                       .place_of = place_of(),
                       .numbers = rows_at_places(),
                       .marks = marks(),
                       .places = own.places.ref(),
                       .leaving = own.leaving.ref(),
                       .coming = own.coming.ref(),
                       .report = report_.on_device.ref(),
                       .shifts = shifts(),
                       .plan = pins_.bit(plan),
                       .now = ranking_.now(),
                       .first = ranking_.first(),
                       .ranked = report_.on_host.get_ptr()[CacheReport::kRanked],
                       .bound = report_.on_host.get_ptr()[CacheReport::kBound],
                       .below = report_.on_host.get_ptr()[CacheReport::kBelow],
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

/// For a plan that changes no row, when none can leave its place. Steps have been waited for by the
/// plan stream: that of a training plan is under way for the next one alone.
void CachedPlans::copy_beside(const OpContext& context, std::size_t plan, const PlanRows& numbers) {
  lists().count = 0;  // none comes
  await_steps(*context.stream);
  const PlanPlaces& own = places_of_plans_[plan];
  auto copies = std::make_unique<RowCopies>(gpu_, *home_, owner_, parts_, own.rows);
  beside_[plan] =
      std::make_unique<RowsBeside>(context, std::move(copies), at_places(), numbers, own.rows, own);
}

}  // namespace hugectr
