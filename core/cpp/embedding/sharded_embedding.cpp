// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/sharded_embedding.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "core/cpp/base/log.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cpp/ops/embedding_update.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cpp/ops/loops/row_update_rules.hpp"

namespace hugectr {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> count{0};
  return ++count;
}

bool is_real(TensorScalarType type) {
  return type == TensorScalarType::Float32 || type == TensorScalarType::Float16 ||
         type == TensorScalarType::BFloat16;
}

void check_params(const SparseEmbeddingHashParams& params, std::size_t device_count) {
  const std::string& name = params.name;
  HCTR_CHECK(params.slot_num >= 1, "embedding '", name, "' needs at least one slot");
  HCTR_CHECK(params.embedding_vec_size >= 1 && params.embedding_vec_size <= 1024, "embedding '",
             name, "' has embedding_vec_size ", params.embedding_vec_size,
             ", allowed are 1 to 1024");
  HCTR_CHECK(params.slot_size_array.empty() || params.slot_size_array.size() == params.slot_num,
             "embedding '", name, "' has ", params.slot_num, " slots and a slot_size_array of ",
             params.slot_size_array.size(), ": give one size a slot, or none");
  HCTR_CHECK(is_real(params.output_type), "embedding '", name, "' has output_type ",
             to_string(params.output_type), ", allowed are float32, float16 and bfloat16");
  HCTR_CHECK(params.batch_size % device_count == 0 && params.batch_size_eval % device_count == 0,
             "embedding '", name, "': batch sizes ", params.batch_size, " and ",
             params.batch_size_eval, " must be multiples of the ", device_count, " devices");
}

}  // namespace

template <class Key>
ShardedEmbedding<Key>::ShardedEmbedding(const SparseEmbeddingHashParams& params,
                                        std::shared_ptr<ResourceManager> resources)
    : number_(next_number()), params_(params), resources_(std::move(resources)) {
  const std::size_t device_count = resources_->get_global_gpu_count();
  check_params(params_, device_count);
  for (std::size_t id = 0; id < resources_->get_local_gpu_count(); ++id) {
    devices_.push_back(
        std::make_unique<Data>(params_, resources_->get_local_gpu(id), device_count));
  }
}

template <class Key>
ShardedEmbedding<Key>::~ShardedEmbedding() {
  for (const auto& data : devices_) {
    try {
      data->gpu.plan_stream().synchronize();
    } catch (const std::exception& e) {
      log(LogLevel::Warning, concat(data->owner, ": ", e.what()));
    }
  }
}

template <class Key>
void ShardedEmbedding<Key>::plan(std::size_t local_id, const SparseTensor& csr, PlanSlot slot,
                                 bool train) {
  Data& data = *devices_.at(local_id);
  LookupPlan& plan = data.plan(slot);
  HCTR_CHECK(train == (slot != PlanSlot::Eval), "embedding '", params_.name,
             "': PlanSlot::Eval is for evaluation, the others are for training");
  HCTR_CHECK(csr.row_offsets.size() > 1 && (csr.row_offsets.size() - 1) % params_.slot_num == 0,
             "embedding '", params_.name, "': ", csr.row_offsets.size(), " row offsets do not fit ",
             params_.slot_num, " slots");
  plan.state = LookupPlan::State::Empty;
  plan.train = train;
  plan.samples = (csr.row_offsets.size() - 1) / params_.slot_num;
  plan.rows_before = data.table.size();
  try {
    make_plan(data, plan, csr, train);
  } catch (...) {
    const OpContext context = data.gpu.plan_context();
    if (train) data.table.truncate(context, plan.rows_before);
    context.stream->synchronize();  // the caller may free the batch
    throw;
  }
  plan.state = LookupPlan::State::Planned;
}

template <class Key>
void ShardedEmbedding<Key>::wait_for_slot(std::size_t local_id, PlanSlot slot) {
  Data& data = *devices_.at(local_id);
  data.gpu.plan_stream().wait(*data.plan(slot).released);
}

template <class Key>
void ShardedEmbedding<Key>::make_plan(Data& data, LookupPlan& plan, const SparseTensor& csr,
                                      bool train) {
  const OpContext context = data.gpu.plan_context();
  context.stream->wait(*plan.released);
  filter(data, plan, csr);
  const std::size_t n = plan.own.keys.size();
  const std::size_t buckets = plan.own.row_offsets.size() - 1;
  if (!plan.fits(n, buckets)) {
    context.stream->synchronize();
    plan.released->synchronize();
    plan.allocate(data.memory, data.owner + (train ? " training plan" : " evaluation plan"), n,
                  buckets, train);
  }
  run(context, ExpandBuckets{.row_offsets = plan.own.row_offsets,
                             .buckets = LookupPlan::first(plan.buckets, n)});
  if (params_.combiner == Combiner::Mean) {
    // The number of keys that count is that of the whole bucket: a Localized device has all of its
    // buckets, a Distributed one only its share.
    const bool whole = plan.own.row_offsets.size() != csr.row_offsets.size();
    run(context, BucketScale{.row_offsets = whole ? plan.own.row_offsets : csr.row_offsets,
                             .scale = LookupPlan::first(plan.scale, buckets)});
  }
  if (train) {
    insert_keys(data, plan, plan.own.keys);
    if (!data.unique || !data.unique->plan(plan, csr)) sort_lookups(data, plan);
  } else {
    plan.rows_after = data.trained_rows.load();
    const auto result = data.table.get_mark(
        context, plan.own.keys, LookupPlan::first(plan.buckets, n), data.distribution->row_slot(),
        plan.rows_after, LookupPlan::first(plan.rows, n));
    check_reserved(data, plan, result.first_reserved);
  }
  plan.weights = data.weights.ref(0, plan.rows_after);
  plan.states = data.state_rows(plan.rows_after);
  plan.last_step = data.last_step_rows(plan.rows_after);
  plan.stamps = data.stamp_rows(plan.rows_after);
  context.stream->record(*plan.ready);
}

template <class Key>
void ShardedEmbedding<Key>::filter(Data& data, LookupPlan& plan, const SparseTensor& csr) {
  TensorRef keys = csr.keys;
  keys.shape = {csr.nnz};
  keys.row_stride = 1;
  HCTR_CHECK(csr.nnz <= csr.keys.size(), "embedding '", params_.name, "': nnz ", csr.nnz,
             " is more than the ", csr.keys.size(), " keys of the batch");
  HCTR_CHECK(keys.dtype == ScalarTypeOf<Key>::value, "embedding '", params_.name, "' has ",
             to_string(ScalarTypeOf<Key>::value), " keys, the batch has ", to_string(keys.dtype),
             ": set i64_input_key to match the data");
  const SlotDistribution& distribution = *data.distribution;
  if (distribution.device_count() == 1) {
    plan.own = {keys, csr.row_offsets, {}};
    return;
  }
  const OpContext context = data.gpu.plan_context();
  const std::size_t buckets = plan.samples * distribution.local_slots();
  const bool with_places = plan.train && data.unique != nullptr;
  if (!plan.filter_fits(csr.nnz, buckets)) {
    context.stream->synchronize();
    plan.released->synchronize();
    plan.allocate_filter(data.memory, data.owner + " own keys", keys.dtype, csr.nnz, buckets,
                         with_places);
  }
  FilterKeyStorage own{LookupPlan::first(plan.own_keys, csr.nnz),
                       LookupPlan::first(plan.own_row_offsets, buckets + 1),
                       {}};
  if (with_places) own.places = LookupPlan::first(plan.own_places, csr.nnz);
  distribution.filter(context, {keys, csr.row_offsets, csr.nnz}, own);
  std::uint32_t* const count = data.own_count.get_ptr();
  context.stream->copy(count, own.row_offsets.ptr<std::uint32_t>() + buckets, sizeof *count);
  context.stream->synchronize();
  own.keys = LookupPlan::first(plan.own_keys, *count);
  if (with_places) own.places = LookupPlan::first(plan.own_places, *count);
  plan.own = own;
}

template <class Key>
void ShardedEmbedding<Key>::insert_keys(Data& data, LookupPlan& plan, const TensorRef& keys) {
  const OpContext context = data.gpu.plan_context();
  const std::size_t n = keys.size();
  const auto result =
      data.table.get_insert(context, keys, LookupPlan::first(plan.buckets, n),
                            data.distribution->row_slot(), LookupPlan::first(plan.rows, n));
  check_reserved(data, plan, result.first_reserved);
  if (result.rows > data.max_rows) throw_over_budget(data, result.rows);
  plan.rows_after = result.rows;
  data.grow_rows(plan.rows_after);
  data.init_rows(context, params_, resources_->seed(), plan.rows_before, plan.rows_after, true);
}

template <class Key>
void ShardedEmbedding<Key>::sort_lookups(Data& data, LookupPlan& plan) const {
  const std::size_t n = plan.own.keys.size();
  run(data.gpu.plan_context(), LookupSort{.rows = LookupPlan::first(plan.rows, n),
                                          .buckets = LookupPlan::first(plan.buckets, n),
                                          .sorted_buckets = plan.sorted_buckets.ref(),
                                          .unique_rows = plan.unique_rows.ref(),
                                          .run_offsets = plan.run_offsets.ref(),
                                          .run_count = plan.run_count.ref(),
                                          .scratch = plan.scratch.ref(),
                                          .row_count = static_cast<std::int64_t>(plan.rows_after)});
}

template <class Key>
void ShardedEmbedding<Key>::check_reserved(Data& data, const LookupPlan& plan,
                                           std::int64_t first_reserved) const {
  if (first_reserved < 0) return;
  Stream& stream = data.gpu.plan_stream();
  std::uint32_t bucket = 0;
  stream.copy(&bucket, plan.buckets.ref().ptr<std::uint32_t>() + first_reserved, sizeof bucket);
  stream.synchronize();
  const SlotDistribution& distribution = *data.distribution;
  throw InvalidArgument(
      concat("embedding '", params_.name, "': sample ", bucket / distribution.local_slots(),
             ", slot ", distribution.slot_of(bucket), " of the batch has the key ", kEmptyKey<Key>,
             ", which is reserved (it marks free places of the hash table): give this key another "
             "number"));
}

template <class Key>
void ShardedEmbedding<Key>::throw_over_budget(const Data& data, std::size_t rows) const {
  const bool by_slots = params_.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash &&
                        !params_.slot_size_array.empty();
  throw OutOfMemory(concat(
      "embedding '", params_.name, "' on ", data.where(), " needs ", rows, " rows and may have ",
      data.max_rows,
      !data.has_budget ? " in this machine's memory: use more devices or a smaller vector size"
      : by_slots
          ? " (the sum of slot_size_array over its slots): raise the sizes or use more devices"
          : ": raise workspace_size_per_gpu_in_mb or max_vocabulary_size_per_gpu, or use "
            "more devices"));
}

template <class Key>
void ShardedEmbedding<Key>::drop_plan(PlanSlot slot) {
  std::exception_ptr failed;
  for (auto& data : devices_) {
    const LookupPlan& dropped = data->plan(slot);
    if (dropped.state != LookupPlan::State::Planned || !dropped.train) continue;
    const std::size_t rows = dropped.rows_before;
    const OpContext context = data->gpu.plan_context();
    try {
      context.stream->synchronize();
    } catch (const std::exception&) {  // what failed the plan has been reported
    }
    if (rows < data->table.size()) data->table.truncate(context, rows);
    // A newer plan may use rows that are gone now: it goes too.
    for (LookupPlan& plan : data->plans) {
      const bool newer = plan.train && plan.rows_before >= rows;
      if (newer && plan.state == LookupPlan::State::Planned) plan.state = LookupPlan::State::Empty;
    }
    try {
      context.stream->synchronize();
    } catch (const std::exception&) {
      failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

template <class Key>
LookupPlan& ShardedEmbedding<Key>::planned(Data& data, PlanSlot slot,
                                           const TensorRef& vectors) const {
  LookupPlan& plan = data.plan(slot);
  HCTR_CHECK(plan.state != LookupPlan::State::Empty, "embedding '", params_.name,
             "': this batch has no plan");
  const Shape wanted{plan.samples / data.distribution->device_count(), params_.slot_num,
                     params_.embedding_vec_size};
  HCTR_CHECK(vectors.shape == wanted, "embedding '", params_.name, "': its vectors have shape ",
             to_string(wanted), ", got ", to_string(vectors.shape));
  HCTR_CHECK(is_real(vectors.dtype) && size_of(vectors.dtype) <= size_of(params_.output_type),
             "embedding '", params_.name, "': its vectors can not be ", to_string(vectors.dtype),
             ", its output_type is ", to_string(params_.output_type));
  return plan;
}

template <class Key>
void ShardedEmbedding<Key>::forward(std::size_t local_id, PlanSlot slot, TensorRef output) {
  Data& data = *devices_.at(local_id);
  LookupPlan& plan = planned(data, slot, output);
  const SlotDistribution& distribution = *data.distribution;
  const bool alone = distribution.device_count() == 1;
  const OpContext context = data.gpu.compute_context();
  context.stream->wait(*plan.ready);
  if (plan.unique.used) {
    data.unique->forward(context, plan, data.exchange(), output);
    context.stream->record(*plan.released);
    return;
  }
  if (distribution.local_slots() > 0) {
    TensorRef pooled = output;
    if (!alone) {
      pooled = distribution.vectors(data.pooled.ref(), output.dtype, plan.samples,
                                    distribution.local_slots());
    }
    run(context, EmbeddingLookup{
                     .rows = LookupPlan::first(plan.rows, plan.own.keys.size()),
                     .row_offsets = plan.own.row_offsets,
                     .weights = plan.weights,
                     .scale = params_.combiner == Combiner::Mean
                                  ? LookupPlan::first(plan.scale, plan.own.row_offsets.size() - 1)
                                  : TensorRef{},
                     .out = pooled});
  }
  if (!alone) distribution.exchange_forward(context, data.exchange(), output);
  context.stream->record(*plan.released);
}

template <class Key>
void ShardedEmbedding<Key>::backward_and_update(std::size_t local_id, PlanSlot slot,
                                                TensorRef gradient, TensorRef lr, TensorRef step,
                                                TensorRef unscale, bool beside) {
  Data& data = *devices_.at(local_id);
  LookupPlan& plan = planned(data, slot, gradient);
  HCTR_CHECK(plan.train, "embedding '", params_.name, "': an evaluation plan can not train");
  const SlotDistribution& distribution = *data.distribution;
  const OpContext context = beside ? data.gpu.exchange_context() : data.gpu.compute_context();
  context.stream->wait(*plan.ready);
  if (trainable_) {
    if (plan.unique.used) {
      gradient = data.unique->backward(context, plan, data.exchange(), gradient);
    } else if (distribution.device_count() > 1) {
      gradient = distribution.exchange_backward(context, data.exchange(), gradient);
    }
    if (distribution.local_slots() > 0) {
      run(context, EmbeddingUpdate{
                       .sorted_buckets = plan.sorted_buckets.ref(),
                       .unique_rows = plan.unique_rows.ref(),
                       .run_offsets = plan.run_offsets.ref(),
                       .run_count = plan.run_count.ref(),
                       .gradient = gradient,
                       .scale = params_.combiner == Combiner::Mean && !plan.unique.used
                                    ? LookupPlan::first(plan.scale, plan.own.row_offsets.size() - 1)
                                    : TensorRef{},
                       .weights = plan.weights,
                       .last_step = plan.last_step,
                       .lr = lr,
                       .step = step,
                       .unscale = unscale,
                       .states = plan.states,
                       .params = params_.opt_params});
      if (sweeps_untouched_rows(params_.opt_params)) {
        run(context, EmbeddingSweep{.unique_rows = plan.unique_rows.ref(),
                                    .run_count = plan.run_count.ref(),
                                    .weights = plan.weights,
                                    .lr = lr,
                                    .step = step,
                                    .unscale = unscale,
                                    .states = plan.states,
                                    .params = params_.opt_params});
      }
    }
  }
  if (now_ > 0) {
    // A frozen table changes by its new rows only.
    stamp(context, plan.stamps, plan.unique_rows.ref(), plan.run_count.ref(),
          trainable_ ? 0 : plan.rows_before);
    if (trainable_ && sweeps_untouched_rows(params_.opt_params)) all_touched_.store(now_);
  }
  context.stream->record(*plan.released);
  plan.state = LookupPlan::State::Trained;
  data.trained_rows.store(plan.rows_after);
}

template class ShardedEmbedding<std::uint32_t>;
template class ShardedEmbedding<std::int64_t>;

std::unique_ptr<IEmbedding> make_embedding(const SparseEmbeddingHashParams& params,
                                           std::shared_ptr<ResourceManager> resources) {
  if (params.i64_keys) {
    return std::make_unique<ShardedEmbedding<std::int64_t>>(params, std::move(resources));
  }
  return std::make_unique<ShardedEmbedding<std::uint32_t>>(params, std::move(resources));
}

}  // namespace hugectr
