// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/table_collection.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "core/cpp/base/log.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/collection/array_part.hpp"
#include "core/cpp/embedding/collection/caller_order.hpp"
#include "core/cpp/ops/copy_blocks.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {
namespace {

/// Batches alive at once: each pins its rows (CacheMark::kPins), as do a lookup that does not train
/// and an update.
constexpr std::size_t kMostOverTiers = 8;

/// Whether forward() waits for keys: on the CPU, where nothing is gained, and whoever asks for it.
bool waits_for_keys(DeviceType type) {
  const char* const text = std::getenv("HUGECTR_WAIT_FOR_KEYS");
  return text && *text ? *text != '0' : type == DeviceType::Cpu;
}

std::vector<SparseEmbeddingHashParams> checked(std::vector<SparseEmbeddingHashParams> tables) {
  for (SparseEmbeddingHashParams& params : tables) {
    params.tables_of_model = tables.size();
    HCTR_CHECK(params.slot_num == 1 && params.pooled(), "table '", params.name,
               "' of a collection takes one list of buckets: slot_num 1, combiner sum or mean");
    HCTR_CHECK(params.i64_keys, "table '", params.name, "' of a collection has int64 keys");
  }
  return tables;
}

}  // namespace

class TableCollection::Access final : public TableAccess {
 public:
  Access(ShardedTable& table, TableCollection& collection)
      : TableAccess(table), collection_(collection) {}

  TableStats stats() const override {
    collection_.settle_begun();
    return TableAccess::stats();
  }

 protected:
  void settle() override {
    collection_.finish_begun();
    collection_.insertions_.settle();
  }

 private:
  TableCollection& collection_;
};

TableCollection::TableCollection(const std::vector<SparseEmbeddingHashParams>& tables,
                                 DeviceId device, std::uint64_t seed)
    : resources_(ResourceManager::create({{device.index}}, seed, device.type)),
      gpu_(resources_->get_local_gpu(kLocal)),
      group_(checked(tables), resources_),
      gradients_(group_, gpu_),
      insertions_(
          group_, gpu_, [this] { finish_begun(); },
          [this](std::size_t table) { return rows_alive(table); }),
      without_gradients_(group_.size()),
      waits_(waits_for_keys(device.type)) {
  for (const SparseEmbeddingHashParams& params : tables) {
    tiered_ = tiered_ || params.memory.tiered();
    sweeps_ = sweeps_ || sweeps_untouched_rows(params.opt_params);
  }
  for (std::size_t t = 0; t < group_.size(); ++t) {
    access_.push_back(std::make_unique<Access>(group_.table(t), *this));
  }
  scalars_arena_ =
      DeviceBuffer2::create("scalars of an update", DeviceAllocator(gpu_.memory_resource()));
  scalars_arena_->reserve({tables.size()}, &rates_, "rates");
  scalars_arena_->allocate();
  staging_arena_ =
      DeviceBuffer2::create("bags of a batch", DeviceAllocator(gpu_.staging_resource()));
  staging_arena_->reserve({1}, &wrong_, "wrong");
  staging_arena_->allocate();
}

TableCollection::~TableCollection() {
  try {
    settle_begun();
    resources_->synchronize();
  } catch (const std::exception& e) {
    log(LogLevel::Warning, concat("a collection of tables: ", e.what()));
  }
}

TableCollection::Batch TableCollection::take_batch() {
  if (!idle_.empty()) {
    Batch batch = std::move(idle_.back());
    idle_.pop_back();
    return batch;
  }
  Batch batch;
  auto staging =
      DeviceBuffer2::create("distinct rows of a batch", DeviceAllocator(gpu_.staging_resource()));
  staging->reserve({group_.size()}, &batch.row_counts, "rows of each table");
  staging->reserve({1}, &batch.wrong, "wrong");
  staging->allocate();
  batch.counted = gpu_.create_event();
  batch.slot = group_.add_slot();
  return batch;
}

TableCollection::Batch& TableCollection::alive(Token token) {
  const auto found = alive_.find(token);
  HCTR_CHECK(found != alive_.end(), "a collection has no batch ", token,
             ": it was released, as all are when rows are written from outside, or is of another "
             "collection");
  return found->second;
}

TableCollection::Batch& TableCollection::batch_of(Token token) {
  if (token == begun_) finish_begun();
  Batch& batch = alive(token);
  if (batch.failure) {
    batch.given = false;
    std::rethrow_exception(batch.failure);
  }
  return batch;
}

void TableCollection::tell() {
  if (untold_) std::rethrow_exception(std::exchange(untold_, nullptr));
}

void TableCollection::make_bags(const OpContext& context, std::vector<BagOffsets> bags,
                                Tensor2<std::int64_t>& wrong) {
  *wrong.get_ptr() = 0;
  for (BagOffsets& op : bags) op.wrong = make_ref(wrong.get_ptr(), {1}, context.device);
  run_several(context, std::move(bags));
}

void TableCollection::check_bags(const Tensor2<std::int64_t>& wrong) {
  HCTR_CHECK(*wrong.get_ptr() == 0,
             "a batch: offsets must ascend from 0 to the number of keys, and each feature's must "
             "begin where its keys do");
}

TableCollection::Token TableCollection::plan(std::span<const SparseTensor> batch,
                                             std::uintptr_t stream, std::vector<BagOffsets> bags) {
  const Token token = begin(batch, stream, std::move(bags));
  finish_begun();
  const std::exception_ptr failure = alive_.at(token).failure;
  if (failure) {
    release(token);
    std::rethrow_exception(failure);
  }
  return token;
}

TableCollection::Token TableCollection::begin(std::span<const SparseTensor> batch,
                                              std::uintptr_t stream, std::vector<BagOffsets> bags,
                                              bool beside) {
  finish_begun();
  tell();
  HCTR_CHECK(!tiered_ || alive_.size() < kMostOverTiers, "a collection with tables over tiers has ",
             alive_.size(),
             " batches whose rows are held on the device: let go of the vectors of "
             "some, or take memory off the tables");
  const SettledOnError settled(gpu_.plan_stream());
  follow_caller(gpu_.plan_stream(), stream);
  const Token token = ++last_;
  Batch& own = alive_.emplace(token, take_batch()).first->second;
  begun_ = token;
  try {
    own.keys.assign(batch.begin(), batch.end());
    if (beside) {
      beside_.begin([this, &own, bags = std::move(bags)]() mutable {
        try {
          look_up_begun(own, own.keys, std::move(bags), !waits_);
        } catch (const std::exception&) {
          own.failure = std::current_exception();
        }
      });
    } else {
      look_up_begun(own, batch, std::move(bags), false);
    }
  } catch (...) {
    begun_ = 0;
    idle_.push_back(std::move(own));
    alive_.erase(token);
    throw;
  }
  return token;
}

void TableCollection::look_up_begun(Batch& own, std::span<const SparseTensor> keys,
                                    std::vector<BagOffsets> bags, bool ahead) {
  const SettledOnError settled(gpu_.plan_stream());
  make_bags(gpu_.plan_context(), std::move(bags), own.wrong);
  group_.begin_plan(kLocal, keys, own.slot, true);
  if (ahead && group_.has_room(kLocal, own.slot)) submit_rest(own);
}

void TableCollection::submit_rest(Batch& own) {
  group_.submit_plan(kLocal, own.slot);
  count_rows(own);
  submitted_ = true;
}

void TableCollection::finish_begun() {
  const Token token = std::exchange(begun_, 0);
  if (token == 0) return;
  settle_begun();
  Batch& batch = alive_.at(token);
  try {
    if (!batch.failure) finish_in_room(token, batch);
  } catch (...) {
    batch.failure = std::current_exception();
  }
  batch.keys.clear();
}

void TableCollection::finish_in_room(Token token, Batch& own) {
  try {
    return finish(token, own);
  } catch (const OutOfMemory&) {
    own.failure = std::current_exception();
  }
  if (!insertions_.relieve()) std::rethrow_exception(own.failure);
  own.failure = nullptr;
  look_up_begun(own, own.keys, {}, false);
  finish(token, own);
}

std::vector<std::uint32_t> TableCollection::rows_alive(std::size_t table) {
  std::vector<std::uint32_t> rows;
  for (auto& [token, batch] : alive_) {
    if (batch.failure) continue;  // it has no plan
    const std::vector<std::uint32_t> own = planned_rows_of(batch, table);
    rows.insert(rows.end(), own.begin(), own.end());
  }
  return rows;
}

void TableCollection::finish(Token token, Batch& own) {
  const auto check = [&] { check_bags(own.wrong); };
  if (std::exchange(submitted_, false)) {
    group_.confirm_plan(kLocal, own.slot, check);
  } else {
    group_.finish_plan(kLocal, own.slot, check);
    count_rows(own);
    if (!waits_) group_.make_room_for_next(kLocal, own.slot);
  }
  insertions_.add(token, group_.planned_rows(kLocal, own.slot));
}

void TableCollection::submit_begun() {
  Batch& own = alive_.at(begun_);
  try {
    submit_rest(own);
  } catch (...) {
    begun_ = 0;
    own.failure = std::current_exception();
  }
}

void TableCollection::count_rows(Batch& own) {
  const std::vector<PlannedRows> tables = group_.planned_rows(kLocal, own.slot);
  std::vector<CopyBlocks> counts;  // the device writes staging memory as its own
  counts.reserve(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    counts.push_back({.in = array_part(tables[t].count, 0, {1}),
                      .out = make_ref(own.row_counts.get_ptr() + t, {1}, device()),
                      .whole = true});
  }
  run_several(gpu_.plan_context(), std::move(counts));
  gpu_.plan_stream().record(*own.counted);
}

void TableCollection::forward(Token token, std::span<const TensorRef> outputs,
                              std::uintptr_t stream) {
  const bool begun = token == begun_;
  if (begun) {
    settle_begun();
    const Batch& own = alive(token);
    if (!submitted_ && !waits_ && !own.failure && group_.has_room(kLocal, own.slot)) submit_begun();
  }
  const bool submitted = begun && submitted_;  // else nobody but its thread knows of it yet
  Batch& batch = submitted ? alive(token) : batch_of(token);
  if (submitted) batch.given = true;
  const PlanSlot slot = batch.slot;
  const SettledOnError settled(gpu_.compute_stream());
  follow_caller(gpu_.compute_stream(), stream);
  group_.forward(kLocal, slot, outputs);
  precede_caller(gpu_.compute_stream(), stream);
}

void TableCollection::look_up(std::span<const SparseTensor> batch,
                              std::span<const TensorRef> outputs, std::uintptr_t stream,
                              std::vector<BagOffsets> bags) {
  finish_begun();
  tell();
  const SettledOnError settled(gpu_.plan_stream()), vectors(gpu_.compute_stream());
  follow_caller(gpu_.plan_stream(), stream);
  make_bags(gpu_.plan_context(), std::move(bags), wrong_);
  group_.begin_plan(kLocal, batch, PlanSlot::Eval, false);
  group_.finish_plan(kLocal, PlanSlot::Eval, [this] { check_bags(wrong_); });
  follow_caller(gpu_.compute_stream(), stream);
  group_.forward(kLocal, PlanSlot::Eval, outputs);
  precede_caller(gpu_.compute_stream(), stream);
}

void TableCollection::make_room_for_gradients(Token token) {
  settle_begun();
  Batch& batch = batch_of(token);
  batch.counted->synchronize();
  for (std::size_t t = 0; t < group_.size(); ++t) {
    if (!group_.table(t).is_trainable()) continue;
    gradients_.reserve(t, static_cast<std::size_t>(batch.row_counts.get_ptr()[t]));
  }
}

void TableCollection::release(Token token) {
  settle_begun();
  if (token == begun_) finish_begun();
  Batch batch = std::move(alive(token));
  alive_.erase(token);
  const bool given = std::exchange(batch.given, false);
  if (const std::exception_ptr failure = std::exchange(batch.failure, nullptr)) {
    if (given) untold_ = failure;
    idle_.push_back(std::move(batch));
    return;
  }
  group_.end_plan(kLocal, batch.slot);
  idle_.push_back(std::move(batch));
  insertions_.end(token);
}

void TableCollection::set_steps(std::int64_t steps) {
  HCTR_CHECK(steps >= 0, "a collection can not have done ", steps, " steps");
  steps_ = steps;
}

std::vector<MemoryReportEntry> TableCollection::memory_report() const {
  settle_begun();
  std::vector<MemoryReportEntry> report = group_.memory_report();
  gradients_.report_memory(report);
  return report;
}

}  // namespace hugectr
