// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cuda/device/branches.hpp"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/ops/embedding_gradient.cuh"

namespace hugectr::cuda {
namespace {

// Neighbouring runs of a worker where they are short: eight loads under way where each run has one
// occurrence. Of keys of a power law (alpha 1.2, 65,536 samples of 26) a tile has 17 occurrences,
// one in 100 has 69: of smaller tiles fewer loads are under way, larger ones end later.
constexpr unsigned kTile = 8;

// One where they are long, as those of a table of few rows: a run of 40 occurrences keeps a worker
// busy by itself, and eight of them one after the other kept the GPU waiting for a few workers (100
// tables of 100 to 10,000 rows on an H100: 163 us, four times a step).
bool takes_one_run(const EmbeddingGradient& op) {
  return op.sorted_buckets.size() > 12 * op.sums.shape[0];
}

// Of so many runs, long ones and medium ones are listed by a kernel of their own (some 5 us), so
// that they are summed beside the short ones, whose last blocks would wait for them. Where a run
// has hardly more than one occurrence there is nothing to list, and the launches cost 4 to 7 %; of
// more runs the last blocks are a small part, and sums of medium ones, which are written and read
// again, cost 2 to 8 %.
constexpr std::size_t kFewestListed = std::size_t{1} << 16, kMostListed = std::size_t{1} << 20;
constexpr std::size_t kFewOccurrences = 2;

bool lists_first(const EmbeddingGradient& op) {
  const std::size_t runs = op.sums.shape[0], occurrences = op.sorted_buckets.size();
  return runs >= kFewestListed && runs <= kMostListed && occurrences > kFewOccurrences * runs &&
         !takes_one_run(op);
}

unsigned blocks_for(std::size_t workers, unsigned of_block) {
  return static_cast<unsigned>((workers + of_block - 1) / of_block);
}

template <unsigned kRuns, class T, class Sum>
unsigned tile_blocks(const Gradient<T, Sum>& a, unsigned of_block) {
  return blocks_for((std::size_t{a.runs} + kRuns - 1) / kRuns, of_block);
}

/// Of a worker: how many runs, and how many occurrences one that it sums has at most.
template <unsigned kRuns, unsigned kMost>
struct Workload {
  static constexpr unsigned runs = kRuns, most = kMost;
};
enum class Work { OneRun, Tile, TileOfMany };
Work work_of(const EmbeddingGradient& op) {
  if (takes_one_run(op)) return Work::OneRun;
  return lists_first(op) ? Work::TileOfMany : Work::Tile;
}
/// Calls f(Workload).
template <class F>
void with_workload(Work work, const F& f) {
  switch (work) {
    case Work::OneRun:
      return f(Workload<1, kChunk>{});
    case Work::Tile:
      return f(Workload<kTile, kChunk>{});
    case Work::TileOfMany:
      return f(Workload<kTile, kMediumRun>{});
  }
}

// In 16 bits a worker for each chunk: shares of two, of the chunks that a power law makes, would
// leave half of the workers that fit without any.
template <class T>
unsigned chunk_blocks(std::size_t max_chunks, unsigned of_block) {
  return sizeof(T) == 2 ? blocks_for(max_chunks, of_block) : grid_for(max_chunks, of_block);
}

// Scratch memory of an op, and its arguments.
struct Memory {
  Memory(ScratchParts& parts, const EmbeddingGradient& op)
      : listed(parts, op.sorted_buckets.size(), op.sums.shape[1], shortest(op)),
        listed_again(parts, lists_first(op) ? op.sorted_buckets.size() : 0, 0, shortest(op)) {}
  static std::size_t shortest(const EmbeddingGradient& op) {
    return (lists_first(op) ? kMediumRun : kChunk) + 1;
  }
  LongRunMemory listed, listed_again;
};

/// Short runs are summed with `short_runs`, long ones with `long_runs`: the same, but for where the
/// kernel of the short ones lists long ones that have been listed first.
template <class T, class Sum>
struct Sums {
  Sums(const EmbeddingGradient& op, const Memory& memory, const Scratch& scratch)
      : long_runs{bucket_gradients<T>(op.sorted_buckets, op.gradient, op.scale),
                  op.run_offsets.ptr<std::uint32_t>(),
                  memory.listed.in(scratch),
                  op.sums.ptr<Sum>(),
                  static_cast<std::uint32_t>(op.sums.shape[0]),
                  static_cast<float>(op.factor),
                  static_cast<std::uint32_t>(memory.listed.max_runs),
                  static_cast<std::uint32_t>(memory.listed.max_chunks)},
        short_runs(long_runs),
        work(work_of(op)),
        first(lists_first(op)) {
    if (first) short_runs.long_runs = memory.listed_again.in(scratch);
  }
  Listing listing() const { return {long_runs.offsets, long_runs.runs, long_runs.long_runs}; }

  Gradient<T, Sum> long_runs, short_runs;
  Work work;
  bool first;
};

/// Clears counters of long runs, and lists those that are listed first.
template <class T, class Sum>
void begin(const OpContext& context, const char* name, std::span<const Sums<T, Sum>> all) {
  std::vector<LongRunCounters*> counters;
  std::vector<Listing> listings;
  for (const Sums<T, Sum>& sums : all) {
    counters.push_back(sums.long_runs.long_runs.counters);
    if (!sums.first) continue;
    counters.push_back(sums.short_runs.long_runs.counters);
    listings.push_back(sums.listing());
  }
  launch_many<LongRunCounters*>(context, name, counters, dim3(1), &clear_counters_kernel,
                                [](LongRunCounters*) { return 1u; });
  launch_many<Listing>(context, name, listings, dim3(kThreads), &list_long_runs_kernel,
                       [](const Listing& a) { return grid_for(a.runs, kThreads); });
}

/// Calls f(std::integral_constant<int, W>) with what the vectors of an op can be read by.
template <class T, class Sum, class F>
void with_width_of(const Gradient<T, Sum>& args, const F& f) {
  const std::size_t d = args.gradients.d;
  const auto fits = [&](std::size_t w) {
    return row_packs_fit(w, d, args.gradients.row_stride, args.gradients.gradient) &&
           row_packs_fit(w, d, d, args.sums);
  };
  with_row_width<kWidest<T, Sum>>(fits, f);
}

template <class T, class Sum>
void sum_runs(const OpContext& context, const EmbeddingGradient& op) {
  const char* name = EmbeddingGradient::kName;
  const std::size_t d = op.sums.shape[1];
  ScratchParts parts;
  const Memory memory(parts, op);
  const Scratch scratch(context, parts.bytes());
  const Sums<T, Sum> sums(op, memory, scratch);
  const Gradient<T, Sum>& args = sums.long_runs;
  if (sums.first) {
    begin<T, Sum>(context, name, {&sums, 1});
  } else {
    HCTR_TRY(cudaMemsetAsync(args.long_runs.counters, 0, sizeof(LongRunCounters),
                             native_stream(context)));
  }
  Branches branches(context, sums.first ? 2 : 1);
  with_width_of(args, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    constexpr int kLongWidth = std::min(kWidth, 4);  // sums of chunks are float32
    const dim3 block = row_block<kWidth>(d);
    const dim3 fold_block = row_block<kLongWidth>(d, kFoldThreads<kLongWidth>);
    const auto sum_long = [&] {
      if (args.max_long_runs == 0) return;
      const OpContext beside = branches.context(1);
      launch(beside, name, dim3(chunk_blocks<T>(args.max_chunks, block.y)), block, 0,
             &sum_chunks_kernel<kWidth, T, sizeof(T) == 2>, args.long_runs, args.gradients);
      launch(beside, name, dim3(grid_for(args.max_long_runs, fold_block.y)), fold_block, 0,
             &sum_long_runs_kernel<kLongWidth, T, Sum>, args);
    };
    if (sums.first) sum_long();
    with_workload(sums.work, [&](auto work) {
      launch(context, name, dim3(tile_blocks<work.runs>(args, block.y)), block, 0,
             &sum_short_runs_kernel<kWidth, work.runs, work.most, T, Sum>, sums.short_runs);
    });
    if (!sums.first) sum_long();
  });
  branches.join();
}

/// Tables of one vector size and width, which go together.
template <class T, class Sum>
struct Alike {
  std::vector<Gradient<T, Sum>> all;  // of their long runs
  std::map<Work, std::vector<Gradient<T, Sum>>> by_work;
  bool first = true;  // whether all list long ones first
};

/// `beside`: where sums of long runs go if they are listed first.
template <class T, class Sum>
void sum_alike(const OpContext& context, const OpContext& beside, std::size_t d,
               const Alike<T, Sum>& some) {
  using Args = Gradient<T, Sum>;
  const char* name = EmbeddingGradient::kSeveralName;
  with_width_of(some.all.front(), [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    constexpr int kLongWidth = std::min(kWidth, 4);
    const dim3 block = row_block<kWidth>(d);
    const dim3 fold_block = row_block<kLongWidth>(d, kFoldThreads<kLongWidth>);
    const auto sum_long = [&](const OpContext& where) {
      launch_many<Args>(where, name, some.all, block, &sum_many_chunks_kernel<kWidth, T, Sum>,
                        [&](const Args& a) { return chunk_blocks<T>(a.max_chunks, block.y); });
      launch_many<Args>(where, name, some.all, fold_block,
                        &sum_many_long_runs_kernel<kLongWidth, T, Sum>,
                        [&](const Args& a) { return grid_for(a.max_long_runs, fold_block.y); });
    };
    if (some.first) sum_long(beside);
    for (const auto& [which, tables] : some.by_work) {
      with_workload(which, [&](auto work) {
        launch_many<Args>(context, name, tables, block,
                          &sum_many_short_runs_kernel<kWidth, work.runs, work.most, T, Sum>,
                          [&](const Args& a) { return tile_blocks<work.runs>(a, block.y); });
      });
    }
    if (!some.first) sum_long(context);
  });
}

/// Of one type of gradients and sums.
template <class T, class Sum>
void sum_of_types(const OpContext& context, const std::vector<const EmbeddingGradient*>& ops) {
  ScratchParts parts;
  std::vector<Memory> memories;
  for (const EmbeddingGradient* op : ops) memories.emplace_back(parts, *op);
  const Scratch scratch(context, parts.bytes());
  std::vector<Sums<T, Sum>> all;
  std::map<std::pair<std::size_t, int>, Alike<T, Sum>> pieces;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Sums<T, Sum>& sums = all.emplace_back(*ops[i], memories[i], scratch);
    with_width_of(sums.long_runs, [&](auto width) {
      Alike<T, Sum>& some = pieces[{sums.long_runs.gradients.d, width()}];
      some.all.push_back(sums.long_runs);
      some.by_work[sums.work].push_back(sums.short_runs);
      some.first = some.first && sums.first;
    });
  }
  begin<T, Sum>(context, EmbeddingGradient::kSeveralName, all);
  // A piece's launches wait for each other, and each for the run that takes longest: those of other
  // pieces fill the device meanwhile (100 tables of five sizes on two H200: 1.68 to .7 ms).
  const bool first = pieces.size() == 1 && pieces.begin()->second.first;
  Branches branches(context, first ? 2 : pieces.size());
  std::size_t at = 0;
  for (const auto& [key, some] : pieces) {
    sum_alike(branches.context(at), branches.context(at + (first ? 1 : 0)), key.first, some);
    ++at;
  }
  branches.join();
}

void embedding_gradient(const OpContext& context, const EmbeddingGradient& op) {
  if (op.sums.size() == 0) return;
  with_real_type(op.gradient.dtype, [&]<class T>(T) {
    with_real_type(op.sums.dtype, [&]<class Sum>(Sum) { sum_runs<T, Sum>(context, op); });
  });
}

void embedding_gradients(const OpContext& context, const Several<EmbeddingGradient>& several) {
  std::map<std::pair<TensorScalarType, TensorScalarType>, std::vector<const EmbeddingGradient*>>
      alike;
  for (const EmbeddingGradient& op : several.ops) {
    if (op.sums.size() > 0) alike[{op.gradient.dtype, op.sums.dtype}].push_back(&op);
  }
  for (const auto& [types, ops] : alike) {
    with_real_type(types.first, [&]<class T>(T) {
      with_real_type(types.second, [&]<class Sum>(Sum) { sum_of_types<T, Sum>(context, ops); });
    });
  }
}

const OpRegistration<EmbeddingGradient> embedding_gradient_cuda{DeviceType::Cuda,
                                                                &embedding_gradient};
const SeveralRegistration<EmbeddingGradient> several_embedding_gradient_cuda{DeviceType::Cuda,
                                                                             &embedding_gradients};

}  // namespace
}  // namespace hugectr::cuda
