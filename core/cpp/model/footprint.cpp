// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/footprint.hpp"

#include <algorithm>

#include "core/cpp/data/batch_slots.hpp"
#include "core/cpp/device/device_map.hpp"
#include "core/cpp/embedding/lookup/lookup_size.hpp"
#include "core/cpp/embedding/sharded_table.hpp"
#include "core/cpp/embedding/table/cache_memory.hpp"
#include "core/cpp/embedding/table/row_tiers.hpp"
#include "core/cpp/embedding/table/table_size.hpp"
#include "core/cpp/memory/counting_resource.hpp"
#include "core/cpp/model/build.hpp"
#include "core/cpp/model/model_check.hpp"
#include "core/cpp/model/network_arrays.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

/// Everything of one device.
class DeviceFootprint {
 public:
  DeviceFootprint(std::size_t process, DeviceId device, std::vector<FootprintEntry>& entries)
      : process_(process),
        device_(device),
        memory_(make_counting_resource(device)),
        entries_(entries) {}

  void add(const std::string& owner, const std::string& part, std::size_t bytes) {
    if (bytes > 0) entries_.push_back({process_, to_string(device_), owner, part, bytes});
  }

  void add_network(const NetworkGraph& graph) {
    auto arena = DeviceBuffer2::create("network", DeviceAllocator(memory_));
    for (const NetworkArray& array : network_arrays(graph)) {
      arena->reserve(array.shape, array.dtype, array.name);
    }
    for (const MemoryReportEntry& entry : arena->report()) add("network", entry.name, entry.bytes);
    const auto activations = [](const StepSchedule& schedule) {
      return plan_memory(schedule, fusion_enabled()).bytes;
    };
    if (graph.trains()) {
      add("network", "training activations and gradients", activations(graph.train_schedule()));
    }
    if (graph.has_eval()) {
      add("network", "evaluation activations", activations(graph.eval_schedule()));
    }
  }

  void add_table(const SparseEmbeddingHashParams& params, const Placement& placement,
                 std::size_t rank, const BatchKeys& keys, std::size_t rows) {
    TableSpec spec = table_spec(params, 0, 1);
    spec.vec_size = placement.columns(rank, params.embedding_vec_size).count;
    spec.direct = direct_slots(params, placement, rank);
    const std::size_t max_rows = row_budget(params, placement, rank).rows;
    const bool trains = params.batch_size > 0;
    const std::size_t batch_keys = trains ? own_keys(placement, rank, keys, params.batch_size) : 0;
    const TableSize size = size_of_table(spec, max_rows, rows, batch_keys, memory_);
    add(params.name, "index", size.index);
    add(params.name, "vectors", size.vectors);
    add(params.name, "optimizer states", size.states);
    add(params.name, "places of rows", size.places);
    if (size.host > 0) {
      entries_.push_back({process_, "host", params.name, "rows in host memory", size.host});
    }
    const LookupSize lookup = size_of_lookup(params, placement, rank, keys, memory_);
    add(params.name, "training plans", lookup.train_plans);
    add(params.name, "evaluation plan", lookup.eval_plan);
    add(params.name, "exchange", lookup.exchange);
    add(params.name, "staging of rows", lookup.staging);
  }

  void add_batches(const std::string& part, const InputLayout& layout, std::size_t batch_size,
                   std::size_t devices, std::size_t batches) {
    const BatchSlot::DeviceArrays arrays(layout, batch_size, devices, memory_);
    add("batches", part, batches * arrays.bytes());
  }

 private:
  std::size_t process_;
  DeviceId device_;
  std::shared_ptr<MemoryResource> memory_;
  std::vector<FootprintEntry>& entries_;
};

/// Says that a device has too few places for two batches, when it has `rows` rows (0: not known).
void say_few_places(const SparseEmbeddingHashParams& params, const Placement& placement,
                    std::size_t rank, const BatchKeys& keys, std::size_t rows,
                    std::vector<std::string>& lacking) {
  if (params.memory.device.value_or(0) == 0 || params.batch_size == 0) return;
  const std::size_t columns = placement.columns(rank, params.embedding_vec_size).count;
  const RowParts parts = parts_of_row(columns, params.vector_type, params.opt_params);
  const std::size_t places = places_of_budget(params.memory, parts);
  const std::size_t own = own_keys(placement, rank, keys, params.batch_size);
  const std::size_t needed = rows > 0 ? std::min(2 * own, rows) : 2 * own;
  if (places >= needed) return;
  lacking.push_back(concat("table '", params.name, "': Memory(device=) has places for ", places,
                           " rows on a device, and two batches of ", own,
                           " keys there may have as many as ", needed, ": give it at least ",
                           needed * (parts.row_bytes() + kBytesBesidePlace),
                           " bytes, or use a smaller batch or more devices"));
}

bool holds_rows(const Placement& placement, std::size_t rank) {
  return placement.slots_of(rank) > 0;
}

/// Devices of a process that have rows, at most: they share its budgets.
std::size_t holders_of_process(const Placement& placement, std::size_t devices_of_process) {
  std::size_t holders = 0;
  for (std::size_t rank = 0; rank < placement.device_count(); ++rank) {
    holders += holds_rows(placement, rank);
  }
  return std::clamp(holders, std::size_t{1}, devices_of_process);
}

/// Says that a device is asked for more rows than it may have.
void say_few_rows(const SparseEmbeddingHashParams& params, const Placement& placement,
                  std::size_t rank, std::size_t devices_of_process, std::size_t asked,
                  std::vector<std::string>& lacking) {
  const RowBudget budget = row_budget(params, placement, rank);
  if (budget.rows == 0 || asked <= budget.rows) return;
  std::string least;
  if (const std::size_t bytes = least_memory(params, placement, rank, asked); bytes > 0) {
    least = concat("; ", params.memory.disk ? "Memory(disk=)" : "Memory(host=)",
                   " of this table has to be at least ",
                   bytes * holders_of_process(placement, devices_of_process), " bytes for them");
  }
  lacking.push_back(concat("table '", params.name, "': ", asked,
                           " rows were asked for on a device, which may have ", budget.rows,
                           budget.way_out, least));
}

/// Rows of a table on each device when it has so many, or all that it may have: at most that. Of a
/// hybrid those that are not frequent.
std::vector<std::size_t> rows_by_device(const SparseEmbeddingHashParams& params,
                                        const Placement& placement,
                                        const std::optional<std::size_t>& rows,
                                        std::size_t devices_of_process,
                                        std::vector<std::string>& lacking) {
  const std::size_t devices = placement.device_count();
  std::vector<std::size_t> budgets, shares;
  // Of whole buckets a device has as large a part of the rows as of the slots.
  for (std::size_t rank = 0; rank < devices; ++rank) {
    budgets.push_back(holds_rows(placement, rank) ? row_budget(params, placement, rank).rows : 0);
    const std::size_t whole = placement.whole_buckets() ? placement.slot_num() : devices;
    const std::size_t part = placement.whole_buckets() ? placement.slots_of(rank) : 1;
    const std::size_t all = rows.value_or(0);  // may be near the largest number there is
    shares.push_back(all / whole * part + (all % whole * part + whole - 1) / whole);
  }
  if (!rows) return budgets;
  const std::size_t most = std::ranges::max_element(shares) - shares.begin();
  say_few_rows(params, placement, most, devices_of_process, shares[most], lacking);
  for (std::size_t rank = 0; rank < devices; ++rank) {
    if (budgets[rank] > 0) shares[rank] = std::min(shares[rank], budgets[rank]);
  }
  return shares;
}

BatchKeys keys_of(const TableInput& table, const InputSpec& inputs,
                  const SparseEmbeddingHashParams& params, bool evaluates) {
  BatchKeys keys{{}, evaluates, table.joins()};
  if (!params.pooled()) {
    keys.of_slot.assign(params.buckets_per_sample(), 1);
    return keys;
  }
  for (const TableInput::Part& part : table.parts) {
    const std::vector<int>& most = inputs.sparse[part.input].nnz_per_slot;
    for (std::size_t slot = 0; slot < part.slots; ++slot) {
      const int nnz = most.empty() ? 1 : most[std::min(slot, most.size() - 1)];
      keys.of_slot.push_back(static_cast<std::size_t>(nnz));
    }
  }
  return keys;
}

std::size_t row_bytes(const SparseEmbeddingHashParams& params) {
  const RowParts parts =
      parts_of_row(params.embedding_vec_size, params.vector_type, params.opt_params);
  const std::size_t slot = params.identity() == Identity::SlotAndKey ? sizeof(std::uint32_t) : 0;
  return size_of(params.key_type()) + slot + parts.row_bytes();
}

}  // namespace

Footprint footprint(const SolverSpec& solver, const std::optional<ReaderSpec>& reader,
                    const ModelSpec& model, const std::vector<std::optional<std::size_t>>& rows) {
  check_solver(solver);
  check_model(model);
  check_parts(solver, reader, model);
  HCTR_CHECK(rows.empty() || rows.size() == model.embeddings.size(), "footprint: rows of ",
             rows.size(), " tables were given, the model has ", model.embeddings.size());
  const std::size_t devices = DeviceMap(solver.vvgpu, 0, solver.device_layout).size();
  const bool evaluates = !reader || has_eval_data(*reader);
  const auto graph = make_graph(solver, model, devices, 1, evaluates);
  // Nobody plans a batch of a model that neither trains nor reads: a Predictor looks up by itself.
  const bool plans_evaluation = evaluates && (reader || graph->trains());
  const auto params = table_params(solver, model, *graph);
  const auto inputs = table_inputs(model);
  const InputLayout layout = input_layout(solver, model);

  std::vector<std::size_t> process_of_device(devices);
  for (std::size_t process = 0; process < solver.vvgpu.size(); ++process) {
    const DeviceMap map(solver.vvgpu, process, solver.device_layout);
    for (std::size_t id = 0; id < map.get_local_size(); ++id) {
      process_of_device[map.get_global_id(id)] = process;
    }
  }
  std::size_t most_of_process = 1;
  for (const auto& own : solver.vvgpu) most_of_process = std::max(most_of_process, own.size());
  Footprint result;
  if (graph->trains()) result.work = work_of(graph->train_schedule());
  std::vector<std::unique_ptr<Placement>> placements;
  std::vector<std::vector<std::size_t>> counted;
  std::vector<std::size_t> frequent_rows;  // that each device has
  for (std::size_t t = 0; t < params.size(); ++t) {
    placements.push_back(table_placement(params[t], process_of_device));
    std::optional<std::size_t> given = rows.empty() ? std::nullopt : rows[t];
    std::size_t& frequent = frequent_rows.emplace_back(0);
    if (frequent_placement(params[t], devices)) {
      frequent = params[t].frequent.size();
      if (given) *given -= frequent = std::min(frequent, *given);
    }
    counted.push_back(
        rows_by_device(params[t], *placements[t], given, most_of_process, result.lacking));
    TableFootprint& table = result.tables.emplace_back();
    table.name = params[t].name;
    table.row_bytes = row_bytes(params[t]);
    if (given) table.rows = frequent;
    for (std::size_t rank = 0; rank < devices; ++rank) {
      if (!placements[t]->reads_out(rank) || !holds_rows(*placements[t], rank)) continue;
      table.rows += counted[t][rank];
      table.max_rows += row_budget(params[t], *placements[t], rank).rows;
    }
    const BatchKeys keys = keys_of(inputs[t], model.input, params[t], plans_evaluation);
    const std::size_t said = result.lacking.size();  // one device speaks for all
    for (std::size_t rank = 0; rank < devices && result.lacking.size() == said; ++rank) {
      say_few_places(params[t], *placements[t], rank, keys, counted[t][rank], result.lacking);
    }
  }
  for (std::size_t process = 0; process < solver.vvgpu.size(); ++process) {
    const DeviceMap map(solver.vvgpu, process, solver.device_layout);
    for (std::size_t id = 0; id < map.get_local_size(); ++id) {
      const std::size_t rank = map.get_global_id(id);
      DeviceFootprint device(process, {solver.device, map.get_device_list()[id]}, result.entries);
      device.add_network(*graph);
      for (std::size_t t = 0; t < params.size(); ++t) {
        const BatchKeys keys = keys_of(inputs[t], model.input, params[t], plans_evaluation);
        device.add_table(params[t], *placements[t], rank, keys, counted[t][rank]);
        const auto frequent = frequent_placement(params[t], devices);
        if (frequent) device.add_table(params[t], *frequent, rank, keys, frequent_rows[t]);
      }
      if (!reader) continue;
      if (graph->trains()) {
        const std::size_t batches =
            reader->resident_batches > 0 ? reader->resident_batches : IDataReader::kSlots;
        device.add_batches("training", layout, solver.batchsize, devices, batches);
      }
      if (graph->has_eval()) {
        device.add_batches("evaluation", layout, solver.batchsize_eval, devices,
                           IDataReader::kSlots);
      }
    }
  }
  return result;
}

}  // namespace hugectr
