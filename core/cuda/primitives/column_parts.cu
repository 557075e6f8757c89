// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cuda/primitives/column_parts.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

constexpr std::size_t kParts = 16;  // of one launch: they travel in its parameters
constexpr int kWidth = 4;           // elements of a 16-byte access

struct LaunchPart {
  ColumnPart part;
  FastDivide per_segment, outer;  // units of a segment, segments of a row
  std::size_t units = 0;
  bool packs = false;
};

struct LaunchParts {
  LaunchPart items[kParts];
};
static_assert(sizeof(LaunchParts) <= 4096, "must fit the parameters of a launch");

template <int V>
__device__ void run_part(const LaunchPart& item) {
  const ColumnPart& part = item.part;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < item.units; u += step) {
    std::size_t column, segment;
    const std::size_t row = item.outer.divide(item.per_segment.divide(u, column), segment);
    column *= V;
    float* to = part.to + row * part.to_row + segment * part.to_segment + column;
    const auto source = [&](int i) {
      const ColumnPart::Source& s = part.sources[i];
      return load_pack<V>(s.from + row * s.row + segment * s.segment + column);
    };
    Pack<float, V> sum{};
    int next = 0;
    if (part.accumulate) {
      sum = load_pack<V>(to);
    } else if (part.source_count > 0) {
      sum = source(next++);
    }
    for (; next < part.source_count; ++next) {
      const Pack<float, V> more = source(next);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += more.v[k];
    }
    store_pack<V>(to, sum);
  }
}

/// Moves 8 bytes an element and source: a copy, at the speed of the memory.
__global__ void column_parts_kernel(const __grid_constant__ LaunchParts parts) {
  const LaunchPart& item = parts.items[blockIdx.y];
  if (item.packs) {
    run_part<kWidth>(item);
  } else {
    run_part<1>(item);
  }
}

bool part_fits_packs(const ColumnPart& part) {
  bool fits = part.count % kWidth == 0 && packs_fit(part.to, part.to_row, kWidth) &&
              part.to_segment % kWidth == 0;
  for (int i = 0; i < part.source_count; ++i) {
    const ColumnPart::Source& source = part.sources[i];
    fits = fits && packs_fit(source.from, source.row, kWidth) && source.segment % kWidth == 0;
  }
  return fits;
}

LaunchPart launch_part(const ColumnPart& part, std::size_t rows) {
  LaunchPart item;
  item.part = part;
  item.packs = part_fits_packs(part);
  const std::size_t per_segment = item.packs ? part.count / kWidth : part.count;
  item.per_segment = FastDivide(per_segment);
  item.outer = FastDivide(part.outer);
  item.units = rows * part.outer * per_segment;
  return item;
}

bool continues(const ColumnPart& last, const ColumnPart& part) {
  bool same = last.outer == 1 && part.outer == 1 && last.to_row == part.to_row &&
              last.to + last.count == part.to && last.source_count == part.source_count &&
              last.accumulate == part.accumulate;
  for (int i = 0; same && i < part.source_count; ++i) {
    same = last.sources[i].row == part.sources[i].row &&
           last.sources[i].from + last.count == part.sources[i].from;
  }
  return same;
}

}  // namespace

void append_part(std::vector<ColumnPart>& parts, const ColumnPart& part) {
  if (part.count == 0 || part.outer == 0) return;
  if (!parts.empty() && continues(parts.back(), part)) {
    parts.back().count += part.count;
  } else {
    parts.push_back(part);
  }
}

void run_column_parts(const OpContext& context, const char* name, std::size_t rows,
                      const std::vector<ColumnPart>& parts) {
  if (rows == 0) return;
  for (std::size_t begin = 0; begin < parts.size(); begin += kParts) {
    const std::size_t count = std::min(kParts, parts.size() - begin);
    LaunchParts batch;
    std::size_t most = 0;
    for (std::size_t i = 0; i < count; ++i) {
      batch.items[i] = launch_part(parts[begin + i], rows);
      most = std::max(most, batch.items[i].units);
    }
    if (most == 0) continue;
    launch(context, name, dim3(grid_for(most, kThreads), static_cast<unsigned>(count)),
           dim3(kThreads), 0, &column_parts_kernel, batch);
  }
}

void sum_column_ranges(const OpContext& context, const char* name, std::size_t rows,
                       std::size_t columns, float* to, std::size_t to_row,
                       const std::vector<ColumnRange>& ranges) {
  std::vector<std::size_t> cuts{0, columns};
  for (const ColumnRange& range : ranges) {
    cuts.push_back(range.first);
    cuts.push_back(range.first + range.count);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  // Stage k adds sources 4k .. 4k + 3 of every piece between two cuts.
  std::vector<std::vector<ColumnPart>> stages(1);
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    ColumnPart part;
    part.to = to + cuts[c];
    part.to_row = to_row;
    part.count = cuts[c + 1] - cuts[c];
    std::size_t stage = 0;
    for (const ColumnRange& range : ranges) {
      if (range.first > cuts[c] || cuts[c + 1] > range.first + range.count) continue;
      if (part.source_count == ColumnPart::kSources) {
        append_part(stages[stage], part);
        if (++stage == stages.size()) stages.emplace_back();
        part.source_count = 0;
        part.accumulate = true;
      }
      part.sources[part.source_count++] = {range.from + (cuts[c] - range.first), range.row, 0};
    }
    append_part(stages[stage], part);
  }
  for (const std::vector<ColumnPart>& parts : stages) run_column_parts(context, name, rows, parts);
}

}  // namespace hugectr::cuda
