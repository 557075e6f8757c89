// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/sharded_table.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/cpp/embedding/column_rows.hpp"
#include "core/cpp/embedding/table/row_find.hpp"
#include "core/cpp/embedding/table/row_load.hpp"
#include "core/cpp/embedding/table/row_transfer.hpp"
#include "core/cpp/embedding/table/row_visit.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/stamp_rows.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> count{0};
  return ++count;
}

std::vector<std::size_t> processes_of(const ResourceManager& resources) {
  std::vector<std::size_t> processes(resources.get_global_gpu_count());
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    processes[rank] = resources.get_process_id_from_gpu_global_id(rank);
  }
  return processes;
}

}  // namespace

ShardedTable::ShardedTable(const SparseEmbeddingHashParams& params,
                           std::shared_ptr<ResourceManager> resources)
    : number_(next_number()),
      params_(params),
      resources_(std::move(resources)),
      placement_(table_placement(params_, processes_of(*resources_))),
      spec_(table_spec(params_, resources_->seed(), resources_->get_local_gpu_count())) {
  frequent_placement_ = hugectr::frequent_placement(params_, resources_->get_global_gpu_count());
  for (std::size_t id = 0; id < resources_->get_local_gpu_count(); ++id) {
    add_part(*placement_, resources_->get_local_gpu(id));
  }
  if (!frequent_placement_) return;
  frequent_ = params_.frequent;
  std::ranges::sort(frequent_);
  for (const std::int64_t key : frequent_) owners(key, 0);  // refuses keys that can not be
  for (std::size_t id = 0; id < resources_->get_local_gpu_count(); ++id) {
    add_part(*frequent_placement_, resources_->get_local_gpu(id));
  }
}

void ShardedTable::add_part(const Placement& placement, GPUResource& gpu) {
  const std::size_t rank = gpu.get_global_id();
  const ColumnRange columns = placement.columns(rank, params_.embedding_vec_size);
  TableSpec spec = spec_;
  spec.vec_size = columns.count;
  spec.first_column = columns.first;
  spec.all_columns = params_.embedding_vec_size;
  spec.direct = direct_slots(params_, placement, rank);
  TableParts& parts = placement.reads_out(rank) ? parts_ : others_;
  const RowBudget budget = row_budget(params_, placement, rank);
  parts.push_back(std::make_unique<Table>(std::move(spec), budget, gpu));
  by_device_.push_back(parts.back().get());
}

bool ShardedTable::is_frequent(std::int64_t key) const {
  return std::ranges::binary_search(frequent_, key);
}

bool ShardedTable::reads_out(std::size_t part) const {
  const std::size_t rank = by_device_[part]->gpu().get_global_id();
  const bool frequent = part >= resources_->get_local_gpu_count();
  return (frequent ? *frequent_placement_ : *placement_).reads_out(rank);
}

std::vector<std::size_t> ShardedTable::state_widths() const {
  return hugectr::state_widths(params_.opt_params, params_.embedding_vec_size);
}
bool ShardedTable::has_last_step() const { return keeps_last_step(params_.opt_params); }

RowOrder ShardedTable::order(RowMark since) {
  HCTR_CHECK(since == 0 || knows_changes_since(since), "embedding '", params_.name,
             "' did not note which rows were touched since mark ", since, ": ask for all rows");
  RowOrder order;
  if (!parts_.empty()) {
    order = order_of(parts_, resources_->pool(), all_touched_.load() >= since ? 0 : since);
  }
  order.table = number_;
  return order;
}

void ShardedTable::read(const RowOrder& order, std::size_t begin, std::size_t end,
                        const RowValues& values) {
  HCTR_CHECK(order.table == number_, "embedding '", params_.name,
             "': rows are to be read by the order of another table: ask this one for its order");
  if (parts_.empty()) return;
  if (has_columns()) {
    read_columns(*parts_.front(), others_, order, begin, end, values);
  } else {
    read_rows(parts_, order, begin, end, values);
  }
}

StoredSplit ShardedTable::stored(RowOrder order) {
  HCTR_CHECK(order.table == number_, "embedding '", params_.name,
             "': rows are to be found by the order of another table: ask this one for its order");
  if (has_columns()) return {std::move(order), {}};
  return split_stored(parts_, std::move(order));
}

void ShardedTable::check_undamaged() const {
  for (const Table* table : by_device_) table->store().check_undamaged();
}

BufferBag ShardedTable::dump(bool with_states) {
  RowOrder rows = order(0);
  const std::size_t n = rows.size(), d = params_.embedding_vec_size;
  BufferBag bag;
  bag.vec_size = d;
  bag.vectors.resize(n * d);
  RowValues values{.vectors = bag.vectors.data()};
  if (with_states) {
    for (const std::size_t width : state_widths()) bag.states.emplace_back(n * width);
    for (auto& state : bag.states) values.states.push_back(state.data());
    if (has_last_step()) bag.last_step.resize(n);
    values.last_step = bag.last_step.data();
    if (keeps_scores()) bag.scores.resize(n);
    values.scores = bag.scores.data();
  }
  read(rows, 0, n, values);
  bag.keys = std::move(rows.keys);
  bag.slot_ids = std::move(rows.slot_ids);
  return bag;
}

RowMark ShardedTable::mark() {
  require_no_plan("mark");
  if (now_ == 0) {
    for (Table* table : by_device_) table->keep_stamps();
  }
  return ++now_;
}

void ShardedTable::note_touched(const OpContext& context, const TensorRef& stamps,
                                const TensorRef& rows, const TensorRef& count, std::size_t first,
                                bool all) {
  if (now_ == 0) return;
  if (rows.size() > 0) {
    run(context, StampRows{.rows = rows,
                           .count = count,
                           .stamps = stamps,
                           .first = static_cast<std::int64_t>(first),
                           .stamp = static_cast<std::int64_t>(now_)});
  }
  if (all) all_touched_.store(now_);
}

DeviceRange ShardedTable::owners(std::int64_t wide, std::size_t slot) const {
  const std::string& name = params_.name;
  HCTR_CHECK(slot < params_.slot_num, "embedding '", name, "' has ", params_.slot_num,
             " slots, and a row was named in slot ", slot);
  return with_key_type(spec_.key_type, [&]<class Key>(Key) {
    const Key key = static_cast<Key>(wide);
    HCTR_CHECK(static_cast<std::int64_t>(key) == wide && key != kEmptyKey<Key>, "embedding '", name,
               "': key ", wide, " is not one of ", to_string(spec_.key_type),
               " below the reserved ", kEmptyKey<Key>);
    return (is_frequent(wide) ? *frequent_placement_ : *placement_).owners(widen_key(key), slot);
  });
}

template <class F>
void ShardedTable::for_each_local_owner(std::int64_t key, std::size_t slot, const F& f) const {
  const DeviceRange range = owners(key, slot);
  const std::size_t first = is_frequent(key) ? resources_->get_local_gpu_count() : 0;
  for (std::size_t device = range.first; device < range.first + range.count; ++device) {
    if (resources_->get_process_id_from_gpu_global_id(device) == resources_->get_process_id()) {
      f(first + resources_->get_gpu_local_id_from_global_id(device));
    }
  }
}

std::vector<std::uint32_t> ShardedTable::row_processes(
    const std::vector<std::int64_t>& keys, const std::vector<std::uint64_t>& slot_ids) const {
  HCTR_CHECK(!has_slots() || slot_ids.size() == keys.size(), "embedding '", params_.name,
             "' has a row for each slot and key: its rows need a slot id a key, got ",
             slot_ids.size(), " for ", keys.size(), " keys");
  std::vector<std::uint32_t> processes(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t device = owners(keys[i], has_slots() ? slot_ids[i] : 0).first;
    processes[i] =
        placement_->replicated() || is_frequent(keys[i])
            ? kEveryProcess
            : static_cast<std::uint32_t>(resources_->get_process_id_from_gpu_global_id(device));
  }
  return processes;
}

std::vector<RowLoad> ShardedTable::split(const RowView& rows) {
  const std::size_t n = rows.size;
  const std::string& name = params_.name;
  HCTR_CHECK(rows.vec_size == params_.embedding_vec_size, "embedding '", name, "' has vectors of ",
             params_.embedding_vec_size, ", the rows to load have ", rows.vec_size);
  HCTR_CHECK(!has_slots() || n == 0 || rows.slot_ids, "embedding '", name,
             "' has a row for each slot and key: the rows to load need a slot id a key, got none "
             "for ",
             n, " keys");
  const std::vector<std::size_t> widths = state_widths();
  HCTR_CHECK(rows.states.empty() || rows.states.size() == widths.size(), "embedding '", name,
             "': its optimizer has ", widths.size(), " states, the rows to load have ",
             rows.states.size());
  for (std::size_t s = 0; n > 0 && s < rows.states.size(); ++s) {
    const std::size_t found = rows.state_widths.empty() ? rows.vec_size : rows.state_widths.at(s);
    HCTR_CHECK(found == widths[s], "embedding '", name, "': optimizer state ", s, " has ",
               widths[s], " numbers a row, that of the rows to load ", found);
  }
  for (std::size_t i = 0; rows.last_step && i < n; ++i) {
    HCTR_CHECK(rows.last_step[i] >= 1, "embedding '", name, "': last step ", rows.last_step[i],
               " must be at least 1");
  }

  std::vector<RowLoad> loads;
  for (Table* table : by_device_) loads.emplace_back(*table);
  const bool alone = resources_->get_global_gpu_count() == 1;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t slot = has_slots() ? rows.slot_ids[i] : 0;
    for_each_local_owner(rows.keys[i], slot, [&](std::size_t id) {
      if (!alone) loads[id].take(i);
    });
  }
  if (alone) loads.front().take_all(n);
  return loads;
}

std::vector<std::vector<float>> ShardedTable::copy_own_rows(RowView& rows) const {
  std::vector<std::vector<float>> copies;
  const auto keep = [&](const float*& values, std::size_t width) {
    const std::size_t count = rows.size * width;
    const bool own = std::ranges::any_of(by_device_, [&](const Table* table) {
      return table->store().overlaps(values, count * sizeof(float));
    });
    if (own) values = copies.emplace_back(values, values + count).data();
  };
  if (rows.size == 0) return copies;
  keep(rows.vectors, params_.embedding_vec_size);
  const std::vector<std::size_t> widths = state_widths();
  for (std::size_t s = 0; s < rows.states.size(); ++s) keep(rows.states[s], widths[s]);
  return copies;
}

void ShardedTable::load(const RowView& given, std::int64_t step) {
  require_no_plan("load");
  std::vector<RowLoad> loads = split(given);
  // On a CPU what is loaded may be a view of the table.
  for (Table* table : by_device_) table->gpu().compute_stream().synchronize();
  RowView rows = given;
  const std::vector<std::vector<float>> copies = copy_own_rows(rows);
  try {
    for (RowLoad& load : loads) load.insert(rows);
    for (RowLoad& load : loads) load.prepare();
  } catch (...) {
    for (RowLoad& load : loads) load.undo();
    throw;
  }
  for (std::size_t id = 0; id < loads.size(); ++id) {
    if (!has_columns()) {
      loads[id].write(rows, now_, step);
    } else if (placement_->slots_of(by_device_[id]->gpu().get_global_id()) > 0) {
      const ColumnsOfRows columns(rows, by_device_[id]->spec());
      loads[id].write(columns.view(), now_, step);
    }
  }
}

void ShardedTable::require_no_plan(const char* what) const {
  for (const Table* table : by_device_) {
    HCTR_CHECK(!table->is_pinned(), "embedding '", params_.name, "': ", what,
               " while a training batch is planned; drop_plan() first");
  }
}

std::vector<ShardedTable::Share> ShardedTable::shares(
    const std::vector<std::int64_t>& keys, const std::vector<std::uint64_t>& slot_ids) const {
  HCTR_CHECK(!has_slots() || slot_ids.size() == keys.size(), "embedding '", params_.name,
             "' has a row for each slot and key: its rows need a slot id a key, got ",
             slot_ids.size(), " for ", keys.size(), " keys");
  std::vector<Share> shares(by_device_.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t slot = has_slots() ? slot_ids[i] : 0;
    for_each_local_owner(keys[i], slot, [&](std::size_t id) {
      shares[id].keys.push_back(keys[i]);
      if (has_slots()) shares[id].slots.push_back(static_cast<std::uint32_t>(slot));
      shares[id].places.push_back(i);
    });
  }
  return shares;
}

std::vector<std::uint8_t> ShardedTable::lookup(const std::vector<std::int64_t>& keys,
                                               const std::vector<std::uint64_t>& slot_ids,
                                               float* vectors) {
  const std::vector<Share> shares = this->shares(keys, slot_ids);
  std::vector<std::uint8_t> there(keys.size(), 0);
  for (std::size_t id = 0; id < by_device_.size(); ++id) {
    Table& table = *by_device_[id];
    std::vector<std::uint32_t> rows;
    std::vector<std::size_t> places;
    const std::vector<std::uint32_t> found = find_rows(table, shares[id].keys, shares[id].slots);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] == kNoRow) continue;
      rows.push_back(found[i]);
      places.push_back(shares[id].places[i]);
      there[places.back()] = 1;
    }
    if (rows.empty()) continue;
    if (has_columns()) {
      look_up_columns(table, rows, places, vectors);
      continue;
    }
    const OpContext context = table.gpu().compute_context();
    visit_in_pieces(table.store(), context, table.visible().rows, rows, RowUse::Read,
                    [&](const VisitedPiece& piece) {
                      const std::vector<std::size_t> targets = piece.of(places);
                      RowTransfer transfer(table.gpu(), context, table.owner(), piece.rows, targets,
                                           widest_part(table.spec().vec_size),
                                           !table.store().visited_on_host());
                      transfer.read(piece.arrays.vectors, vectors);
                    });
  }
  return there;
}

Neighbours ShardedTable::nearest(std::span<const float> query, std::size_t k, Similarity similarity,
                                 const std::optional<RowName>& but) {
  HCTR_CHECK(!has_columns(), "embedding '", params_.name,
             "': rows near a vector are not found in a table that is placed by column; load its "
             "checkpoint into a model that places it by key");
  if (parts_.empty()) return {};
  return nearest_rows(parts_, resources_->pool(), query, k, similarity, but);
}

void ShardedTable::reset() {
  require_no_plan("reset");
  for (Table* table : by_device_) table->reset();
  forgotten_ = now_;
  gone_.clear();
}

void ShardedTable::reset_optimizer() {
  all_touched_.store(now_);
  for (Table* table : by_device_) {
    // Rows of a plan that has not trained have their first states already.
    table->reset_states(table->gpu().compute_context());
  }
}

void ShardedTable::refuse_reserved(std::size_t sample, std::size_t slot) const {
  const std::int64_t key = with_key_type(spec_.key_type, [](auto zero) {
    return static_cast<std::int64_t>(kEmptyKey<decltype(zero)>);
  });
  throw InvalidArgument(
      concat("embedding '", params_.name, "': sample ", sample, ", slot ", slot,
             " of the batch has the key ", key,
             ", which is reserved (it marks free places of the hash table): give this key another "
             "number"));
}

void ShardedTable::refuse_outside(std::int64_t key, std::size_t sample, std::size_t slot) const {
  throw InvalidArgument(concat("embedding '", params_.name, "': sample ", sample, ", slot ", slot,
                               " of the batch has the key ", key, ", which is none of ",
                               keys_of_slot(params_, slot)));
}

TableStats ShardedTable::stats() const {
  TableStats stats{.unique_plans = unique_plans_.load(),
                   .refused = refused_,
                   .evicted = evicted_,
                   .erased = gone_by_name_};
  for (const auto& table : parts_) {
    stats.rows += table->visible().live;
    stats.max_rows += table->has_budget() ? table->max_rows() : 0;
  }
  for (const Table* table : by_device_) {
    stats.index_slots += table->index_places();
    stats.bytes += table->size_in_bytes();
    stats.host_bytes += table->store().host_bytes();
    stats.tiers += table->store().counts();
    if (!table->keeps_scores()) continue;
    std::int64_t admitted = 0;
    Stream& stream = table->gpu().compute_stream();
    stream.copy(&admitted, table->admitted().data, sizeof admitted);
    stream.synchronize();
    stats.admitted += static_cast<std::size_t>(admitted);
  }
  return stats;
}

}  // namespace hugectr
