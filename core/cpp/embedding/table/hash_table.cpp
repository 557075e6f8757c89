// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/hash_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/cpp/device/stream.hpp"
#include "core/cpp/ops/hash_index.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kMinCapacity = 1024;
/// One place in so many may be dead.
constexpr std::size_t kDeadShare = 8;
constexpr std::size_t kDeadAt = 1 + kReportSize, kOutcomeSize = kDeadAt + 1;

/// Places for `rows` rows, of which `more` may come in one call: a load of three quarters at most
/// before the call, of fifteen sixteenths at most after it.
std::size_t capacity_for(std::size_t rows, std::size_t more) {
  const std::size_t after = rows + more;
  return std::bit_ceil(std::max({kMinCapacity, rows + rows / 3 + 1, after + after / 15 + 1}));
}

/// Elements at .. at + n - 1 of an array, or nothing of nothing.
TensorRef piece(TensorRef array, std::size_t at, std::size_t n) {
  if (array.empty()) return array;
  array.data = static_cast<char*>(array.data) + at * size_of(array.dtype);
  array.shape = {n};
  return array;
}

}  // namespace

HashTable::HashTable(std::shared_ptr<MemoryResource> memory, std::string name,
                     TensorScalarType key_type, std::size_t max_rows, bool with_slots,
                     std::shared_ptr<MemoryResource> staging, const std::vector<DirectSlot>& direct)
    : memory_(std::move(memory)),
      name_(std::move(name)),
      key_type_(key_type),
      with_slots_(with_slots),
      row_keys_(*memory_, key_type_, 1, max_rows, name_ + " row keys") {
  HCTR_CHECK(max_rows < kNoRow, "'", name_, "' can not have ", max_rows,
             " rows on a device: the largest number is ", kNoRow - 1);
  if (with_slots_) {
    row_slots_ =
        GrowableTensor(*memory_, TensorScalarType::UInt32, 1, max_rows, name_ + " row slots");
  }
  for (const DirectSlot& slot : direct) {
    direct_places_ += static_cast<std::size_t>(slot.places());
  }
  // A call may ask for more rows than there may be: they are counted in the index too.
  index_ = is_direct() ? GrowableTensor(*memory_, TensorScalarType::UInt32, 1, direct_places_,
                                        name_ + " index")
                       : GrowableTensor(*memory_, TensorScalarType::UInt64, 2,
                                        capacity_for(max_rows, kKeysAtOnce), name_ + " index");
  auto arena = DeviceBuffer2::create(name_ + " report", DeviceAllocator(memory_));
  arena->reserve({kOutcomeSize}, &outcome_, "report");
  if (is_direct()) {
    direct_ = arena->reserve({direct.size(), 3}, TensorScalarType::Int64, "slots");
  }
  arena->allocate();
  direct_slots_ = direct;
  auto host_arena = DeviceBuffer2::create(
      name_ + " report on the host",
      DeviceAllocator(staging ? std::move(staging) : make_host_memory_resource()));
  host_arena->reserve({kOutcomeSize}, &host_outcome_, "report");
  host_arena->allocate();
}

TensorRef HashTable::counter() const { return piece(outcome_.ref(), 0, 1); }

TensorRef HashTable::report() const { return piece(outcome_.ref(), 1, kReportSize); }

TensorRef HashTable::dead() const { return piece(outcome_.ref(), kDeadAt, 1); }

void HashTable::set_counter(const OpContext& context) {
  const auto rows = static_cast<std::int64_t>(live());
  context.stream->copy_scalars(outcome_.get_ptr(), &rows, sizeof rows);
}

void HashTable::rebuild(const OpContext& context) {
  run(context, HashClear{.index = index()});
  // All of it is read back, also what no op of this table writes.
  context.stream->fill_zero(outcome_.get_ptr(), outcome_.get_size_in_bytes());
  if (is_direct()) {
    static_assert(sizeof(DirectSlot) == 3 * sizeof(std::int64_t));
    context.stream->copy(direct_.ref().data, direct_slots_.data(), direct_.ref().size_in_bytes());
  }
  if (rows_ > 0) {
    run(context, HashInsert{.row_keys = row_keys(rows_),
                            .row_slots = row_slots(rows_),
                            .index = index(),
                            .direct = direct(),
                            .report = report()});
  }
  set_counter(context);
  dead_ = 0;
}

bool HashTable::make_places(std::size_t rows, std::size_t keys) {
  const std::size_t most = std::min(rows + keys, max_rows());
  row_keys_.grow_to(most);
  if (with_slots_) row_slots_.grow_to(most);
  // All keys may turn out to be new, even those that the budget then refuses.
  const std::size_t needed = is_direct() ? direct_places_ : capacity_for(rows, keys);
  if (needed <= capacity_) {
    return dead_ > 0 && capacity_for(live() + dead_, keys) > capacity_;
  }
  index_.grow_to(needed);
  capacity_ = needed;
  return true;
}

void HashTable::reserve(const OpContext& context, std::size_t keys) {
  if (make_places(rows_, keys)) rebuild(context);
}

void HashTable::read_outcome(const OpContext& context) {
  context.stream->copy(host_outcome_.get_ptr(), outcome_.get_ptr(), outcome_.get_size_in_bytes());
}

CopyBlocks HashTable::outcome_to_host() const {
  TensorRef to = host_outcome_.ref();
  to.device = outcome_.ref().device;
  return {.in = outcome_.ref(), .out = to, .whole = true};
}

HashTable::Result HashTable::outcome_on_host() const {
  const std::int64_t* outcome = host_outcome_.get_ptr();
  return {static_cast<std::size_t>(outcome[0]), outcome[1 + kReportedReserved],
          is_direct() ? outcome[1 + kReportedOutside] : -1};
}

HashGetInsert HashTable::piece_to_insert(const OpContext& context, const TensorRef& keys,
                                         const TensorRef& buckets, SlotOfBucket slot_of,
                                         const TensorRef& rows) {
  reserve(context, keys.size());
  const std::size_t limit = std::min(rows_ + keys.size(), max_rows());
  return {.keys = keys,
          .buckets = buckets,
          .index = index(),
          .direct = direct(),
          .counter = counter(),
          .free_rows = free_rows(),
          .row_keys = row_keys(limit),
          .row_slots = row_slots(limit),
          .rows = rows,
          .report = report(),
          .numbered = static_cast<std::int64_t>(rows_),
          .slot_num = slot_of.num,
          .slot_stride = slot_of.stride,
          .slot_first = slot_of.first};
}

HashGetInsert HashTable::to_get_insert(const OpContext& context, const TensorRef& keys,
                                       const TensorRef& buckets, SlotOfBucket slot_of,
                                       const TensorRef& rows) {
  const std::size_t n = keys.size();
  Begun begun;
  const auto next = [&] {
    begun.keys = std::min(kKeysAtOnce, n - begun.done);
    HashGetInsert op = piece_to_insert(context, piece(keys, begun.done, begun.keys),
                                       piece(buckets, begun.done, begun.keys), slot_of,
                                       piece(rows, begun.done, begun.keys));
    begun_ = begun;
    return op;
  };
  HashGetInsert op = next();
  while (begun.done + begun.keys < n) {
    run(context, std::move(op));
    read_outcome(context);
    context.stream->synchronize();
    const Result result = inserted(context);
    begun.first_reserved = result.first_reserved;
    begun.first_outside = result.first_outside;
    if (result.rows > max_rows()) {  // refused in any case: the rest need not be tried
      begun_ = Begun{begun.done + begun.keys, 0, begun.first_reserved, begun.first_outside};
      return piece_to_insert(context, piece(keys, 0, 0), piece(buckets, 0, 0), slot_of,
                             piece(rows, 0, 0));
    }
    begun.done += begun.keys;
    op = next();
  }
  return op;
}

HashTable::Result HashTable::inserted(const OpContext& context) {
  const Begun begun = *std::exchange(begun_, std::nullopt);
  Result result = outcome_on_host();
  if (const std::int64_t lost = host_outcome_.get_ptr()[1 + kReportedLost]; lost > 0) {
    take_keys(context, free_rows());
    rebuild(context);
    throw DeviceError(concat("'", name_, "': the index of ", capacity_,
                             " places had none left for ", lost, " of ", begun.keys, " keys; its ",
                             rows_,
                             " rows are as before. Use smaller batches, and report this: the table "
                             "makes its index large enough for every call"));
  }
  const std::size_t live = std::min(result.rows, max_rows());
  rows_ = std::max(rows_, live);
  free_ = rows_ - live;
  const auto first_of = [&](std::int64_t former, std::int64_t last) {
    return former >= 0 || last < 0 ? former : last + static_cast<std::int64_t>(begun.done);
  };
  result.first_reserved = first_of(begun.first_reserved, result.first_reserved);
  result.first_outside = first_of(begun.first_outside, result.first_outside);
  return result;
}

HashTable::Result HashTable::get_insert(const OpContext& context, const TensorRef& keys,
                                        const TensorRef& buckets, SlotOfBucket slot_of,
                                        const TensorRef& rows) {
  run(context, to_get_insert(context, keys, buckets, slot_of, rows));
  read_outcome(context);
  context.stream->synchronize();
  return inserted(context);
}

HashGet HashTable::to_get_mark(const OpContext& context, const TensorRef& keys,
                               const TensorRef& buckets, SlotOfBucket slot_of, const Limit& limit,
                               const TensorRef& rows) {
  make_index(context);
  return to_read(keys, buckets, slot_of, limit, rows, report());
}

HashGet HashTable::to_read(const TensorRef& keys, const TensorRef& buckets, SlotOfBucket slot_of,
                           const Limit& limit, const TensorRef& rows,
                           const TensorRef& report) const {
  return {.keys = keys,
          .buckets = buckets,
          .index = index(),
          .direct = direct(),
          .births = limit.births,
          .rows = rows,
          .report = report,
          .row_limit = static_cast<std::int64_t>(limit.rows),
          .birth_limit = limit.birth,
          .slot_num = slot_of.num,
          .slot_stride = slot_of.stride,
          .slot_first = slot_of.first};
}

HashTable::Result HashTable::get_mark(const OpContext& context, const TensorRef& keys,
                                      const TensorRef& buckets, SlotOfBucket slot_of,
                                      const Limit& limit, const TensorRef& rows) {
  run(context, to_get_mark(context, keys, buckets, slot_of, limit, rows));
  read_outcome(context);
  context.stream->synchronize();
  return marked();
}

void HashTable::get(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
                    SlotOfBucket slot_of, const TensorRef& rows) {
  get_mark(context, keys, buckets, slot_of, {.rows = rows_}, rows);
  std::vector<std::uint32_t> host(rows.size());
  context.stream->copy(host.data(), rows.data, rows.size_in_bytes());
  context.stream->synchronize();
  const auto missing = std::find(host.begin(), host.end(), kNoRow);
  HCTR_CHECK(missing == host.end(), "'", name_, "' has no row for key number ",
             missing - host.begin());
}

void HashTable::insert(const OpContext& context, const TensorRef& keys, const TensorRef& slots) {
  const std::size_t n = keys.size();
  if (n > max_rows() - rows_) {
    throw OutOfMemory(concat("'", name_, "' has ", rows_, " rows and may have ", max_rows(), ": ",
                             n, " more do not fit"));
  }
  HCTR_CHECK(keys.dtype == key_type_ && with_slots_ == !slots.empty() &&
                 (!with_slots_ || slots.size() == n),
             "'", name_, "': insert needs keys of its type and a slot a key if it keeps slots");
  if (n == 0) return;
  if (dead_ > 0) rebuild(context);  // a dead place may have one of the keys
  reserve(context, n);
  Stream& stream = *context.stream;
  const TensorRef new_keys = piece(row_keys(rows_ + n), rows_, n);
  const TensorRef new_slots = piece(row_slots(rows_ + n), rows_, n);
  stream.copy(new_keys.data, keys.data, n * size_of(key_type_));
  if (with_slots_) stream.copy(new_slots.data, slots.data, n * sizeof(std::uint32_t));
  run(context, HashInsert{.row_keys = new_keys,
                          .row_slots = new_slots,
                          .index = index(),
                          .direct = direct(),
                          .report = report(),
                          .first = static_cast<std::int64_t>(rows_)});
  rows_ += n;
  set_counter(context);
}

void HashTable::set(const OpContext& context, const TensorRef& keys, const TensorRef& slots) {
  clear(context);
  insert(context, keys, slots);
}

void HashTable::copy_rows_to(const OpContext& context, TensorScalarType type, std::size_t rows,
                             void* keys, std::uint32_t* slots) const {
  HCTR_CHECK(type == key_type_, "'", name_, "' has ", to_string(key_type_), " keys, asked for as ",
             to_string(type));
  context.stream->copy(keys, row_keys(rows).data, rows * size_of(type));
  if (with_slots_) {
    context.stream->copy(slots, row_slots(rows).data, rows * sizeof(std::uint32_t));
  }
  context.stream->synchronize();
}

void HashTable::take_keys(const OpContext& context, const TensorRef& rows) {
  if (rows.size() > 0) run(context, HashErase{.rows = rows, .row_keys = row_keys(rows_)});
}

void HashTable::take_back(const OpContext& context, const State& state) {
  // What was begun may have given keys to any of the free rows.
  if (std::exchange(begun_, std::nullopt)) take_keys(context, free_rows());
  HCTR_CHECK(state.rows <= rows_ && state.free >= free_ && state.free <= state.rows, "'", name_,
             "' has ", rows_, " rows, of which ", free_, " are free, and can not go back to ",
             state.rows, " and ", state.free);
  take_keys(context, reused_since(state));
  rows_ = state.rows;
  free_ = state.free;
  if (capacity() > 0) rebuild(context);
}

void HashTable::clear(const OpContext& context) {
  begun_.reset();
  rows_ = free_ = 0;
  if (capacity() > 0) rebuild(context);
}

void HashTable::erase(const OpContext& context, const TensorRef& rows) {
  const std::size_t n = rows.size();
  HCTR_CHECK(n <= live(), "'", name_, "' has ", live(), " rows, can not erase ", n);
  if (n == 0) return;
  if (free_rows_.max_rows() == 0) {
    free_rows_ =
        GrowableTensor(*memory_, TensorScalarType::UInt32, 1, max_rows(), name_ + " free rows");
  }
  free_rows_.grow_to(free_ + n);
  const TensorRef freed = vector(free_rows_, free_, n);
  context.stream->copy(freed.data, rows.data, rows.size_in_bytes());
  const TensorRef dead = this->dead();
  context.stream->fill_zero(dead.data, sizeof(std::int64_t));
  run(context, HashErase{.rows = freed,
                         .row_keys = row_keys(rows_),
                         .row_slots = row_slots(rows_),
                         // A direct index is built anew: it has no lines that could stay full.
                         .index = is_direct() ? TensorRef{} : index(),
                         .dead = dead});
  free_ += n;
  set_counter(context);
  read_outcome(context);
  context.stream->synchronize();
  dead_ += static_cast<std::size_t>(host_outcome_.get_ptr()[kDeadAt]);
  if (is_direct() || dead_ > capacity_ / kDeadShare) rebuild(context);
}

std::size_t HashTable::size_in_bytes() const {
  return row_keys_.size_in_bytes() + row_slots_.size_in_bytes() + index_.size_in_bytes() +
         free_rows_.size_in_bytes();
}

}  // namespace hugectr
