// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/embedding/row_sort.hpp"
#include "core/cpp/embedding/row_transfer.hpp"
#include "core/cpp/embedding/sharded_embedding.hpp"
#include "core/cpp/ops/loops/row_update_rules.hpp"

/// Rows out of a table, in the order of (slot, key) whatever device they lie on.
namespace hugectr {
namespace {

constexpr std::size_t kGrain = std::size_t{1} << 15;  // rows of a piece of a loop

/// Rows that one device has among a part of an order.
struct DeviceRows {
  std::vector<std::uint32_t> rows;
  std::vector<std::size_t> targets;  ///< places in the part; empty: i goes to i
};

std::vector<DeviceRows> by_device(const RowOrder& order, std::size_t begin, std::size_t end,
                                  std::size_t device_count) {
  std::vector<DeviceRows> parts(device_count);
  if (order.devices.empty()) {
    parts[0].rows.assign(order.rows.begin() + static_cast<std::ptrdiff_t>(begin),
                         order.rows.begin() + static_cast<std::ptrdiff_t>(end));
    return parts;
  }
  for (std::size_t i = begin; i < end; ++i) {
    parts[order.devices[i]].rows.push_back(order.rows[i]);
    parts[order.devices[i]].targets.push_back(i - begin);
  }
  return parts;
}

}  // namespace

template <class Key>
std::size_t ShardedEmbedding<Key>::state_count() const {
  return num_states(params_.opt_params.optimizer);
}

template <class Key>
bool ShardedEmbedding<Key>::has_last_step() const {
  return keeps_last_step(params_.opt_params);
}

template <class Key>
RowOrder ShardedEmbedding<Key>::order(RowMark since) {
  HCTR_CHECK(since == 0 || knows_since(since), "embedding '", params_.name,
             "' did not note which rows were touched since mark ", since, ": ask for all rows");
  const bool all = since == 0 || all_touched_.load() >= since;
  HCTR_CHECK(devices_.size() <= std::size_t{1} << RowPlace::kDeviceBits &&
                 params_.slot_num <= std::size_t{1} << RowPlace::kSlotBits,
             "embedding '", params_.name, "' has ", devices_.size(), " devices and ",
             params_.slot_num, " slots, more than its rows can be sorted by");
  ThreadPool& pool = resources_->pool();
  std::size_t total = 0, n = 0;
  for (const auto& data : devices_) total += data->trained_rows.load();
  // Large pages, and written first by the threads that fill them: a vector has neither.
  const auto arena = DeviceBuffer2::create(params_.name + " rows to sort",
                                           DeviceAllocator(make_host_memory_resource()));
  TensorBag2 first = arena->reserve({total, 2}, TensorScalarType::UInt64, "rows");
  TensorBag2 second = arena->reserve({total, 2}, TensorScalarType::UInt64, "rows again");
  arena->allocate();
  auto* places = static_cast<RowPlace*>(first.get_ptr());
  for (std::size_t id = 0; id < devices_.size(); ++id) {
    Data& data = *devices_[id];
    const std::size_t rows = data.trained_rows.load();
    std::vector<Key> keys;
    std::vector<std::uint32_t> slots, stamps(all ? 0 : rows);
    data.table.dump(data.gpu.plan_context(), rows, keys, slots);
    const auto place = [&](std::size_t row) {
      return RowPlace::of(static_cast<std::int64_t>(keys[row]), slots.empty() ? 0 : slots[row],
                          static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(row));
    };
    if (all) {
      parallel_for(pool, rows, kGrain, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) places[n + row] = place(row);
      });
      n += rows;
      continue;
    }
    Stream& stream = data.gpu.compute_stream();
    stream.copy(stamps.data(), data.stamps.ref(0, rows).data, rows * sizeof(std::uint32_t));
    stream.synchronize();
    for (std::size_t row = 0; row < rows; ++row) {
      if (stamps[row] >= since) places[n++] = place(row);
    }
  }
  places = sort_rows(pool, places, static_cast<RowPlace*>(second.get_ptr()), n);

  RowOrder order;
  order.table = number_;
  const bool localized = params_.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  order.keys.resize(n);
  order.rows.resize(n);
  order.slot_ids.resize(localized ? n : 0);
  order.devices.resize(devices_.size() > 1 ? n : 0);
  parallel_for(pool, n, kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      order.keys[i] = places[i].key;
      order.rows[i] = places[i].row();
      if (localized) order.slot_ids[i] = places[i].slot();
      if (devices_.size() > 1) order.devices[i] = places[i].device();
    }
  });
  return order;
}

template <class Key>
void ShardedEmbedding<Key>::read(const RowOrder& order, std::size_t begin, std::size_t end,
                                 const RowValues& values) {
  HCTR_CHECK(order.table == number_, "embedding '", params_.name,
             "': rows are to be read by the order of another table: ask this one for its order");
  HCTR_CHECK(begin <= end && end <= order.size(), "embedding '", params_.name, "': rows ", begin,
             " to ", end, " of an order of ", order.size());
  const std::vector<DeviceRows> parts = by_device(order, begin, end, devices_.size());
  for (std::size_t id = 0; id < devices_.size(); ++id) {
    Data& data = *devices_[id];
    if (parts[id].rows.empty()) continue;
    const std::size_t rows = data.trained_rows.load();
    const std::uint32_t last = *std::max_element(parts[id].rows.begin(), parts[id].rows.end());
    HCTR_CHECK(last < rows, "embedding '", params_.name, "' has ", rows, " rows on ", data.where(),
               " and the order names row ", last, ": it is of an earlier state of the table");
    RowTransfer transfer(data.gpu, data.gpu.compute_context(), data.owner, parts[id].rows,
                         parts[id].targets, widest_row(),
                         data.gpu.device().type != DeviceType::Cpu);
    if (values.vectors) transfer.read(data.weights.ref(0, rows), values.vectors);
    const std::vector<TensorRef> states = data.state_rows(rows);
    for (std::size_t s = 0; s < values.states.size(); ++s) {
      transfer.read(states.at(s), values.states[s]);
    }
    const TensorRef last_step = data.last_step_rows(rows);
    if (values.last_step && !last_step.empty()) transfer.read(last_step, values.last_step);
  }
}

template <class Key>
BufferBag ShardedEmbedding<Key>::dump(bool with_states) {
  RowOrder rows = order(0);
  const std::size_t n = rows.size(), d = params_.embedding_vec_size;
  BufferBag bag;
  bag.vec_size = d;
  bag.vectors.resize(n * d);
  RowValues values{.vectors = bag.vectors.data()};
  if (with_states) {
    bag.states.resize(state_count());
    for (auto& state : bag.states) {
      state.resize(n * d);
      values.states.push_back(state.data());
    }
    if (has_last_step()) bag.last_step.resize(n);
    values.last_step = bag.last_step.data();
  }
  read(rows, 0, n, values);
  bag.keys = std::move(rows.keys);
  bag.slot_ids = std::move(rows.slot_ids);
  return bag;
}

// Members of this file; sharded_embedding.cpp instantiates the class with all the others.
template std::size_t ShardedEmbedding<std::uint32_t>::state_count() const;
template bool ShardedEmbedding<std::uint32_t>::has_last_step() const;
template RowOrder ShardedEmbedding<std::uint32_t>::order(RowMark);
template void ShardedEmbedding<std::uint32_t>::read(const RowOrder&, std::size_t, std::size_t,
                                                    const RowValues&);
template BufferBag ShardedEmbedding<std::uint32_t>::dump(bool);
template std::size_t ShardedEmbedding<std::int64_t>::state_count() const;
template bool ShardedEmbedding<std::int64_t>::has_last_step() const;
template RowOrder ShardedEmbedding<std::int64_t>::order(RowMark);
template void ShardedEmbedding<std::int64_t>::read(const RowOrder&, std::size_t, std::size_t,
                                                   const RowValues&);
template BufferBag ShardedEmbedding<std::int64_t>::dump(bool);

}  // namespace hugectr
