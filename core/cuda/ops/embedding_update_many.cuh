// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cuda/ops/embedding_update.cuh"
#include "core/cuda/primitives/many_row_updates.cuh"

/// Updates of several tables at once.
namespace hugectr::cuda {

// What is found ready by the kernels over several tables (prepare()).
template <class Rule>
struct Ready {
  const float* lr;
  const std::int64_t* step;
  Rule rule;
  LongRunCounters* counters;
  float* rate;
};

template <class Rule>
__global__ void prepare_many_kernel(const __grid_constant__ Many<Ready<Rule>> many) {
  const Ready<Rule>& a = many.mine();
  *a.counters = {};
  *a.rate = rate_of(a.rule, *a.lr, *a.step);
}

template <class Rule>
struct CatchUp {
  Runs runs;
  const float* lr;
  const std::int64_t* step;
  const float* unscale;
  Rule rule;
  std::int64_t* last_step;
  void* rows;  // CaughtUp<Rule>, of a rule that has it
  std::uint32_t max_runs;
};

template <class Rule>
__global__ void catch_up_many_kernel(const __grid_constant__ Many<CatchUp<Rule>> many) {
  const CatchUp<Rule>& a = many.mine();
  catch_up(a.runs, a.lr, a.step, a.unscale, a.rule, a.last_step,
           static_cast<CaughtUp<Rule>*>(a.rows));
}

// Tables of one rule and one type of gradients: as many launches as there are vector sizes.
template <class T, class Weight, class Rule>
void update_alike(const OpContext& context, const std::vector<const EmbeddingUpdate*>& ops) {
  using Args = TableRuns<T, DeviceRowRule<Rule>, Weight>;
  struct Places {
    LongRunMemory memory;
    std::size_t rate_at, adjustment_at, rows_at, streams_at;
  };
  ScratchParts parts;
  std::vector<Places> places;
  for (const EmbeddingUpdate* op : ops) {
    const LongRunMemory memory(parts, in_long_runs(*op), op->weights.shape[1]);
    const std::size_t rate_at = parts.add<float>(1);
    const std::size_t adjustment_at = parts.add<StepAdjustment>(1);
    std::size_t rows_at = op->unique_rows.size();  // how many, then where
    if constexpr (KeepsLastStep<Rule>) rows_at = parts.add<CaughtUp<Rule>>(rows_at);
    places.push_back({memory, rate_at, adjustment_at, rows_at, add_streams<Weight>(parts, *op)});
  }
  const Scratch scratch(context, parts.bytes());

  const bool prepares = HasRate<Rule> || any_long_runs(places);  // else the given rate is the rate
  std::vector<Ready<Rule>> ready;
  std::map<std::pair<std::size_t, bool>, std::vector<Args>> alike;  // by vector size, and if W = 4
  [[maybe_unused]] std::vector<CatchUp<Rule>> behind;
  [[maybe_unused]] std::vector<DrawStreams> streams;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const EmbeddingUpdate& op = *ops[i];
    const Places& place = places[i];
    const std::size_t d = op.weights.shape[1];
    Rule rule;
    rule.take(op.params);
    auto* rate = part<float>(scratch, place.rate_at);
    Args args{
        .runs = {op.unique_rows.ptr<std::uint32_t>(), op.run_offsets.ptr<std::uint32_t>(),
                 op.run_count.ptr<std::int64_t>()},
        .gradients = bucket_gradients<T>(op.sorted_buckets, op.gradient, op.scale),
        .table = table_of<Weight>(op),
        .long_runs = place.memory.in(scratch),
        .rule = {},
        .unscale = unscale_of(op.unscale),
        .max_runs = static_cast<std::uint32_t>(std::min(op.unique_rows.size(), op.weights.rows())),
        .max_long_runs = static_cast<std::uint32_t>(place.memory.max_runs),
        .max_chunks = static_cast<std::uint32_t>(place.memory.max_chunks)};
    args.table.adjustment = prepare_adjustment(context, op, scratch, place.adjustment_at);
    if constexpr (!std::is_same_v<Weight, float>) {
      static_cast<RoundedBy<Weight>&>(args.table) =
          rounded_by<Weight>(scratch, place.streams_at, op.rounding);
      streams.push_back(streams_of(op, part<std::uint64_t>(scratch, place.streams_at)));
    }
    ready.push_back(
        {op.lr.ptr<float>(), op.step.ptr<std::int64_t>(), rule, args.long_runs.counters, rate});
    if constexpr (KeepsLastStep<Rule>) {
      auto* rows = part<CaughtUp<Rule>>(scratch, place.rows_at);
      behind.push_back({args.runs, op.lr.ptr<float>(), op.step.ptr<std::int64_t>(), args.unscale,
                        rule, op.last_step.ptr<std::int64_t>(), rows, args.max_runs});
      args.rule = {rows, rule};
    } else {
      args.rule = {prepares ? rate : op.lr.ptr<float>(), rule};
    }
    const bool wide = row_packs_fit(4, d, op.gradient.row_stride, args.gradients.gradient) &&
                      row_packs_fit(4, d, d, args.table.weights, args.table.s0, args.table.s1);
    alike[{d, wide}].push_back(args);
  }
  const char* name = EmbeddingUpdate::kSeveralName;
  if (!prepares) ready.clear();
  launch_many<Ready<Rule>>(context, name, ready, dim3(1), &prepare_many_kernel<Rule>,
                           [](const Ready<Rule>&) { return 1u; });
  if constexpr (!std::is_same_v<Weight, float>) draw_streams(context, streams);
  if constexpr (KeepsLastStep<Rule>) {
    launch_many<CatchUp<Rule>>(
        context, name, behind, dim3(kThreads), &catch_up_many_kernel<Rule>,
        [](const CatchUp<Rule>& a) { return grid_for(a.max_runs, kThreads); });
  }
  struct Piece {  // tables of one vector size, as many as a launch takes
    std::size_t d;
    bool wide;
    std::span<const Args> tables;
  };
  std::vector<Piece> pieces;
  for (const auto& [key, some] : alike) {
    const std::span<const Args> all = some;
    for (std::size_t at = 0; at < all.size(); at += Many<Args>::kMost) {
      pieces.push_back(
          {key.first, key.second, all.subspan(at, std::min(Many<Args>::kMost, all.size() - at))});
    }
  }
  // Three launches that wait for each other take longer than their work where tables are small.
  Branches branches(context, any_long_runs(places) ? pieces.size() : 1);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& [piece_d, wide, tables] = pieces[i];
    if (wide) {
      update_many<4, T, DeviceRowRule<Rule>, Weight>(branches.context(i), name, tables, piece_d);
    } else {
      update_many<1, T, DeviceRowRule<Rule>, Weight>(branches.context(i), name, tables, piece_d);
    }
  }
  branches.join();
}

/// Of weights of one type, whatever their rules and gradients.
template <class Weight>
void update_several(const OpContext& context, const std::vector<const EmbeddingUpdate*>& several) {
  std::map<std::tuple<TensorScalarType, Optimizer, Update>, std::vector<const EmbeddingUpdate*>>
      alike;
  for (const EmbeddingUpdate* op : several) {
    alike[{op->gradient.dtype, op->params.optimizer, op->params.update_type}].push_back(op);
  }
  for (const auto& [key, ops] : alike) {
    with_real_type(std::get<0>(key), [&]<class T>(T) {
      with_row_rule(ops.front()->params, [&]<class Rule>(const Rule& rule) {
        if constexpr (RowWise<Rule>) {
          for (const EmbeddingUpdate* op : ops) {
            Rule own = rule;
            own.take(op->params);
            update_all<T, Weight>(context, *op, own);
          }
        } else {
          update_alike<T, Weight, Rule>(context, ops);
        }
      });
    });
  }
}

}  // namespace hugectr::cuda
