// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/cpp/embedding/sharded_embedding.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

/// Rows in and out of a table: dump, load, reset, statistics.
namespace hugectr {
namespace {

template <class T>
std::vector<T> to_host(Stream& stream, const TensorRef& ref) {
  std::vector<T> host(ref.size());
  stream.copy(host.data(), ref.data, ref.size_in_bytes());
  return host;
}

}  // namespace

template <class Key>
std::vector<typename ShardedEmbedding<Key>::Share> ShardedEmbedding<Key>::split(
    const RowView& rows) const {
  const std::size_t n = rows.size;
  const std::string& name = params_.name;
  const bool slots = params_.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  HCTR_CHECK(rows.vec_size == params_.embedding_vec_size, "embedding '", name, "' has vectors of ",
             params_.embedding_vec_size, ", the rows to load have ", rows.vec_size);
  HCTR_CHECK(!slots || n == 0 || rows.slot_ids, "embedding '", name,
             "' is Localized: the rows to load need a slot id a key, got none for ", n, " keys");
  const std::vector<std::size_t> widths = state_widths(params_.opt_params, rows.vec_size);
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

  std::vector<Share> shares(devices_.size());
  const bool alone = resources_->get_global_gpu_count() == 1;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t device = owner(rows.keys[i], slots ? rows.slot_ids[i] : 0);
    if (resources_->get_process_id_from_gpu_global_id(device) == resources_->get_process_id()) {
      Share& share = shares[resources_->get_gpu_local_id_from_global_id(device)];
      ++share.size;
      if (!alone) share.source.push_back(i);
    }
  }
  return shares;
}

template <class Key>
void ShardedEmbedding<Key>::insert_share(Data& data, const RowView& rows, Share& share) {
  const std::size_t n = share.size;
  share.arena = DeviceBuffer2::create(data.owner + " rows to load", DeviceAllocator(data.memory));
  share.keys = share.arena->reserve({n}, ScalarTypeOf<Key>::value, "keys");
  share.slots = share.arena->reserve({n}, TensorScalarType::UInt32, "slots");
  share.rows = share.arena->reserve({n}, TensorScalarType::UInt32, "rows");
  share.arena->allocate();
  std::vector<Key> keys(n);
  std::vector<std::uint32_t> slots(n);
  for (std::size_t i = 0; i < n; ++i) {
    keys[i] = static_cast<Key>(rows.keys[share.place(i)]);
    if (rows.slot_ids) slots[i] = static_cast<std::uint32_t>(rows.slot_ids[share.place(i)]);
  }
  const OpContext context = data.gpu.plan_context();
  context.stream->copy(share.keys.get_ptr(), keys.data(), n * sizeof(Key));
  context.stream->copy(share.slots.get_ptr(), slots.data(), n * sizeof(std::uint32_t));
  // A slot is its own bucket here: slot = 0 + bucket % slot_num * 1.
  const bool localized = params_.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  const SlotOfBucket slot_of{localized ? static_cast<std::uint32_t>(params_.slot_num) : 0, 1, 0};
  const auto result = data.table.get_insert(context, share.keys.ref(), share.slots.ref(), slot_of,
                                            share.rows.ref());
  if (result.rows > data.max_rows) throw_over_budget(data, result.rows);
  data.grow_rows(data.table.size());
}

template <class Key>
void ShardedEmbedding<Key>::prepare_share(Data& data, Share& share) {
  const OpContext context = data.gpu.plan_context();
  // A key named twice takes its last row: the earlier ones are passed over. Rows of a part of a
  // large table lie near each other, so that what is kept here is as large as the part.
  std::vector<std::uint32_t>& targets = share.targets;
  targets = to_host<std::uint32_t>(*context.stream, share.rows.ref());
  context.stream->synchronize();
  const auto [low, high] = std::minmax_element(targets.begin(), targets.end());
  const std::uint32_t lowest = share.size > 0 ? *low : 0;
  std::vector<bool> written(share.size > 0 ? *high - lowest + std::size_t{1} : 0, false);
  for (std::size_t i = share.size; i-- > 0;) {
    const std::size_t place = targets[i] - lowest;
    if (written[place]) {
      targets[i] = kNoRow;
    } else {
      written[place] = true;
    }
  }
  share.transfer =
      std::make_unique<RowTransfer>(data.gpu, context, data.owner, targets, share.source,
                                    widest_row(), context.device.type != DeviceType::Cpu);
}

template <class Key>
void ShardedEmbedding<Key>::write_share(Data& data, const RowView& rows, Share& share) {
  const std::size_t last = data.table.size();
  const OpContext context = data.gpu.plan_context();
  data.init_rows(context, params_, resources_->seed(), share.rows_before, last, false);
  share.transfer->write(rows.vectors, data.weights.ref(0, last));
  const std::vector<TensorRef> states = data.state_rows(last);
  for (std::size_t s = 0; s < rows.states.size(); ++s) {
    share.transfer->write(rows.states[s], states[s]);
  }
  const TensorRef last_step = data.last_step_rows(last);
  if (!last_step.empty() && rows.last_step) share.transfer->write(rows.last_step, last_step);
  context.stream->synchronize();
}

template <class Key>
std::vector<std::vector<float>> ShardedEmbedding<Key>::copy_own_rows(RowView& rows) const {
  std::vector<std::vector<float>> copies;
  const std::vector<std::size_t> widths =
      state_widths(params_.opt_params, params_.embedding_vec_size);
  const auto overlap = [&](const float* values, std::size_t count, const GrowableTensor& tensor) {
    const auto begin = reinterpret_cast<std::uintptr_t>(values);
    const auto table = reinterpret_cast<std::uintptr_t>(tensor.ref(0, 0).data);
    return begin < table + tensor.size_in_bytes() && table < begin + count * sizeof(float);
  };
  const auto keep = [&](const float*& values, std::size_t count) {
    const bool own = std::any_of(devices_.begin(), devices_.end(), [&](const auto& data) {
      return overlap(values, count, data->weights) ||
             std::any_of(
                 data->states.begin(), data->states.end(),
                 [&](const GrowableTensor& state) { return overlap(values, count, state); });
    });
    if (own) values = copies.emplace_back(values, values + count).data();
  };
  if (rows.size == 0) return copies;
  keep(rows.vectors, rows.size * params_.embedding_vec_size);
  for (std::size_t s = 0; s < rows.states.size(); ++s) {
    keep(rows.states[s], rows.size * widths[s]);
  }
  return copies;
}

template <class Key>
void ShardedEmbedding<Key>::load(const RowView& given) {
  require_no_plan("load");
  std::vector<Share> shares = split(given);
  // On a CPU what is loaded may be a view of the table.
  for (auto& data : devices_) data->gpu.compute_stream().synchronize();
  RowView rows = given;
  const std::vector<std::vector<float>> copies = copy_own_rows(rows);
  for (std::size_t id = 0; id < devices_.size(); ++id) {
    shares[id].rows_before = devices_[id]->table.size();
  }
  try {
    for (std::size_t id = 0; id < devices_.size(); ++id) {
      insert_share(*devices_[id], rows, shares[id]);
    }
    for (std::size_t id = 0; id < devices_.size(); ++id) prepare_share(*devices_[id], shares[id]);
  } catch (...) {
    for (std::size_t id = 0; id < devices_.size(); ++id) {
      const OpContext context = devices_[id]->gpu.plan_context();
      devices_[id]->table.truncate(context, shares[id].rows_before);
      context.stream->synchronize();
    }
    throw;
  }
  for (std::size_t id = 0; id < devices_.size(); ++id) {
    write_share(*devices_[id], rows, shares[id]);
    if (now_ > 0) {
      const Data& data = *devices_[id];
      stamp(data.gpu.compute_context(), data.stamp_rows(data.table.size()), shares[id].rows.ref(),
            {}, 0);
      data.gpu.compute_stream().synchronize();
    }
    devices_[id]->trained_rows.store(devices_[id]->table.size());
  }
}

template <class Key>
void ShardedEmbedding<Key>::require_no_plan(const char* what) const {
  for (const auto& data : devices_) {
    for (const LookupPlan& plan : data->plans) {
      HCTR_CHECK(!(plan.train && plan.state == LookupPlan::State::Planned), "embedding '",
                 params_.name, "': ", what,
                 " while a training batch is planned; drop_plan() first");
    }
  }
}

template <class Key>
void ShardedEmbedding<Key>::reset() {
  require_no_plan("reset");
  for (auto& data : devices_) {
    data->gpu.compute_stream().synchronize();
    const OpContext context = data->gpu.plan_context();
    data->table.clear(context);
    context.stream->synchronize();
    data->trained_rows.store(0);
    for (LookupPlan& plan : data->plans) plan.state = LookupPlan::State::Empty;
  }
  forgotten_ = now_;
}

template <class Key>
void ShardedEmbedding<Key>::reset_optimizer() {
  all_touched_.store(now_);
  for (auto& data : devices_) {
    // Rows of a plan that has not trained have their first states already.
    const OpContext context = data->gpu.compute_context();
    data->init_rows(context, params_, resources_->seed(), 0, data->trained_rows.load(), false);
    context.stream->synchronize();
  }
}

template <class Key>
TableRows ShardedEmbedding<Key>::rows(std::size_t local_id) const {
  const Data& data = *devices_.at(local_id);
  const std::size_t n = data.trained_rows.load();
  return {data.table.row_keys(n), data.table.row_slots(n), data.weights.ref(0, n),
          data.state_rows(n)};
}

template <class Key>
TableStats ShardedEmbedding<Key>::stats() const {
  TableStats stats;
  for (const auto& data : devices_) {
    stats.rows += data->trained_rows.load();
    stats.max_rows += data->has_budget ? data->max_rows : 0;
    stats.index_slots += data->table.capacity();
    stats.bytes += data->size_in_bytes();
  }
  const auto& exchange = devices_.front()->unique;  // all devices choose the same
  if (exchange) stats.unique_plans = exchange->plans();
  return stats;
}

template <class Key>
std::vector<MemoryReportEntry> ShardedEmbedding<Key>::memory_report() const {
  std::vector<MemoryReportEntry> report;
  for (const auto& data : devices_) {
    report.push_back({data->owner, "hash table", 0, data->table.size_in_bytes()});
    report.push_back({data->owner, "weights", 0, data->weights.size_in_bytes()});
    std::size_t bytes = data->last_step.size_in_bytes();
    for (const GrowableTensor& state : data->states) bytes += state.size_in_bytes();
    if (bytes > 0) report.push_back({data->owner, "optimizer states", 0, bytes});
    const auto append = [&](const std::shared_ptr<DeviceBuffer2>& arena) {
      if (!arena) return;
      report.insert(report.end(), arena->report().begin(), arena->report().end());
    };
    append(data->exchange_arena);
    if (data->unique) {
      for (const MemoryReportEntry& entry : data->unique->memory_report()) report.push_back(entry);
    }
    for (const LookupPlan& plan : data->plans) {
      append(plan.filter_arena);
      append(plan.arena);
      append(plan.unique.owner_arena);
      append(plan.unique.asker_arena);
    }
  }
  return report;
}

// Members of this file; sharded_embedding.cpp instantiates the class with all the others.
template void ShardedEmbedding<std::uint32_t>::load(const RowView&);
template void ShardedEmbedding<std::uint32_t>::reset();
template void ShardedEmbedding<std::uint32_t>::reset_optimizer();
template TableRows ShardedEmbedding<std::uint32_t>::rows(std::size_t) const;
template TableStats ShardedEmbedding<std::uint32_t>::stats() const;
template std::vector<MemoryReportEntry> ShardedEmbedding<std::uint32_t>::memory_report() const;
template void ShardedEmbedding<std::int64_t>::load(const RowView&);
template void ShardedEmbedding<std::int64_t>::reset();
template void ShardedEmbedding<std::int64_t>::reset_optimizer();
template TableRows ShardedEmbedding<std::int64_t>::rows(std::size_t) const;
template TableStats ShardedEmbedding<std::int64_t>::stats() const;
template std::vector<MemoryReportEntry> ShardedEmbedding<std::int64_t>::memory_report() const;

}  // namespace hugectr
