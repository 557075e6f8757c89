// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/device_lookup.hpp"
#include "core/cpp/ops/copy_blocks.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/ops/row_requests.hpp"

/// Which keys of a batch a device looks up.
namespace hugectr {
namespace {

/// The first n elements.
TensorRef some_of(TensorRef ref, std::size_t n) {
  ref.shape = {n};
  return ref;
}

}  // namespace

bool DeviceLookup::filters(const Part& part) {
  const Route& route = part.route;
  return part.holds && (route.of_own_samples() || !route.placement().takes_all(route.rank()));
}

void DeviceLookup::filter(LookupPlan& plan, std::span<const SparseTensor> batch) {
  const OpContext context = gpu_.plan_context();
  std::vector<FilterKeys> chosen;
  chosen.reserve(parts_.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Part& part = parts_[t];
    const Route& route = part.route;
    const SparseTensor& csr = batch[t];
    TablePlan& own = plan.tables[t];
    const std::string& name = part.table.params().name;
    TensorRef keys = csr.keys;
    keys.shape = {csr.nnz};
    keys.row_stride = 1;
    HCTR_CHECK(csr.nnz <= csr.keys.size(), "embedding '", name, "': nnz ", csr.nnz,
               " is more than the ", csr.keys.size(), " keys of the batch");
    HCTR_CHECK(keys.dtype == part.rows.spec().key_type, "embedding '", name, "' has ",
               to_string(part.rows.spec().key_type), " keys, the batch has ", to_string(keys.dtype),
               ": set i64_input_key to match the data");
    const std::size_t buckets = csr.row_offsets.size() - 1;
    if (route.of_own_samples() && !own.replica.offsets_fit(buckets / route.device_count())) {
      context.stream->synchronize();
      plan.released->synchronize();
      own.replica.reserve_offsets(gpu_.memory_resource(), part.rows.owner() + " own samples",
                                  buckets / route.device_count());
    }
    if (route.placement().takes_all(route.rank())) {
      own.own = {keys, csr.row_offsets, {}};
      continue;
    }
    if (!part.holds) {
      own.own = {some_of(keys, 0), some_of(csr.row_offsets, 1), {}};
      continue;
    }
    const std::size_t own_buckets = own.samples * route.own_slots();
    const bool with_places = plan.train && part.may_send_rows;
    if (!own.filter_fits(csr.nnz, own_buckets)) {
      context.stream->synchronize();
      plan.released->synchronize();
      own.allocate_filter(gpu_.memory_resource(), part.rows.owner() + " own keys", keys.dtype,
                          csr.nnz, own_buckets, with_places);
    }
    own.own = {own.own_keys.first(csr.nnz), own.own_row_offsets.first(own_buckets + 1), {}};
    if (with_places) own.own.places = own.own_places.first(csr.nnz);
    if (part.frequent) {
      own.own.held = plan.tables[part.number].rare.held.first(csr.nnz);
    }
    chosen.push_back(
        route.placement().filter(route.rank(), {keys, csr.row_offsets, csr.nnz}, own.own));
  }
  run_several(context, std::move(chosen));
  take_own_keys(plan);
}

void DeviceLookup::take_own_keys(LookupPlan& plan) {
  const OpContext context = gpu_.plan_context();
  /// Buckets whose keys a device looks up, of those that have been filtered: the last, or two ends.
  const auto ends_of = [](const Route& route, const TensorRef& offsets) {
    const auto all = static_cast<std::int64_t>(offsets.size() - 1);
    const auto part = all / static_cast<std::int64_t>(route.device_count());
    const auto rank = static_cast<std::int64_t>(route.rank());
    return route.of_own_samples() ? std::pair{rank * part, (rank + 1) * part}
                                  : std::pair{std::int64_t{0}, all};
  };
  std::vector<CopyBlocks> ends;  // the device writes staging memory as its own
  ends.reserve(parts_.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Route& route = parts_[t].route;
    if (!filters(parts_[t])) continue;
    const TensorRef& offsets = plan.tables[t].own.row_offsets;
    const auto [first, last] = ends_of(route, offsets);
    TensorRef to = offsets;
    to.data = own_ends_.get_ptr() + 2 * t;
    to.shape = {2};
    ends.push_back(
        {.in = offsets, .out = to, .from = {first, last}, .to = {0, 1}, .sizes = {1, 1}});
  }
  if (ends.empty()) return;
  run_several(context, std::move(ends));
  context.stream->synchronize();
  std::vector<RebaseOffsets> rebased;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Route& route = parts_[t].route;
    if (!filters(parts_[t])) continue;
    FilterKeyStorage& own = plan.tables[t].own;
    const std::uint32_t* const ends = own_ends_.get_ptr() + 2 * t;
    const std::size_t count = ends[1] - ends[0];
    own.keys.data = static_cast<char*>(own.keys.data) + ends[0] * size_of(own.keys.dtype);
    own.keys.shape = {count};
    if (!own.places.empty()) own.places.shape = {count};
    if (!route.of_own_samples()) continue;
    const auto [first, last] = ends_of(route, own.row_offsets);
    TensorRef part = own.row_offsets;
    part.data = part.ptr<std::uint32_t>() + first;
    part.shape = {static_cast<std::size_t>(last - first + 1)};
    own.row_offsets = plan.tables[t].replica.row_offsets.first(part.size());
    rebased.push_back({.row_offsets = part, .own_offsets = own.row_offsets});
  }
  run_several(context, std::move(rebased));
}

}  // namespace hugectr
