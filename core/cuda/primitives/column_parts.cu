// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cuda/primitives/column_parts.hpp"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr::cuda {
namespace {

constexpr std::size_t kParts = 16;  // of one launch: they travel in its parameters

template <class T>
struct LaunchPart {
  ColumnPartOf<T> part;
  FastDivide per_segment, outer;  // units of a segment, segments of a row
  std::size_t units = 0;
  int unit = 1;  // elements of a unit: kPack, where the last of a segment may be shorter, 2 or 1
};

template <class T>
struct LaunchParts {
  LaunchPart<T> items[kParts];
};
static_assert(sizeof(LaunchParts<float>) <= 4096, "must fit the parameters of a launch");

/// All loads of a unit are under way at once.
template <int V, class T>
__device__ void run_part(const LaunchPart<T>& item) {
  constexpr int kSources = ColumnPartOf<T>::kSources;
  using Elements = RowWords<V, T>;
  const ColumnPartOf<T>& part = item.part;
  const auto count = static_cast<unsigned>(part.count);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < item.units; u += step) {
    std::size_t unit, segment;
    const std::size_t row = item.outer.divide(item.per_segment.divide(u, unit), segment);
    const unsigned column = static_cast<unsigned>(unit) * V;
    T* to = part.to + row * part.to_row + segment * part.to_segment + column;
    Elements loaded[kSources];
#pragma unroll
    for (int i = 0; i < kSources; ++i) {
      if (i >= part.source_count) continue;
      const auto& s = part.sources[i];
      loaded[i] =
          Elements::load_row(s.from + s.row * row + s.segment * segment + column, column, count);
    }
    if (part.source_count == 1 && !part.accumulate) {
      loaded[0].store(to, column, count);
      continue;
    }
    Pack<float, V> sum{};
    if (part.accumulate) {
      sum = Elements::load_row(to, column, count).widened();
    } else if (part.source_count > 0) {
      sum = loaded[0].widened();
    }
#pragma unroll
    for (int i = 0; i < kSources; ++i) {
      if (i >= part.source_count || (i == 0 && !part.accumulate)) continue;
      const Pack<float, V> more = loaded[i].widened();
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += more.v[k];
    }
    Elements::narrowed(sum).store(to, column, count);
  }
}

/// Moves every element of the sources and of the target once: a copy, at the speed of the memory.
template <class T>
__global__ void column_parts_kernel(const __grid_constant__ LaunchParts<T> parts) {
  const LaunchPart<T>& item = parts.items[blockIdx.y];
  if (item.unit == kPack<T>) {
    run_part<kPack<T>>(item);
  } else if (item.unit == 2) {
    run_part<2>(item);
  } else {
    run_part<1>(item);
  }
}

/// Whether all segments begin where units of v elements may.
template <class T>
bool begin_at_units_of(const ColumnPartOf<T>& part, int unit) {
  const auto v = static_cast<std::size_t>(unit);
  bool fits = packs_fit(part.to, part.to_row, v) && (part.outer == 1 || part.to_segment % v == 0);
  for (int i = 0; i < part.source_count; ++i) {
    const auto& source = part.sources[i];
    fits = fits && packs_fit(source.from, source.row, v) &&
           (part.outer == 1 || source.segment % v == 0);
  }
  return fits;
}

template <class T>
int unit_of(const ColumnPartOf<T>& part) {
  if (part.count >= kPack<T> && begin_at_units_of(part, kPack<T>)) return kPack<T>;
  return part.count % 2 == 0 && begin_at_units_of(part, 2) ? 2 : 1;
}

template <class T>
LaunchPart<T> launch_part(const ColumnPartOf<T>& part, std::size_t rows) {
  LaunchPart<T> item;
  item.part = part;
  item.unit = unit_of(part);
  const std::size_t per_segment = packs_of(part.count, static_cast<std::size_t>(item.unit));
  item.per_segment = FastDivide(per_segment);
  item.outer = FastDivide(part.outer);
  item.units = rows * part.outer * per_segment;
  return item;
}

template <class T>
bool continues(const ColumnPartOf<T>& last, const ColumnPartOf<T>& part) {
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

template <class T>
void append_part(std::vector<ColumnPartOf<T>>& parts, const ColumnPartOf<T>& part) {
  if (part.count == 0 || part.outer == 0) return;
  if (!parts.empty() && continues(parts.back(), part)) {
    parts.back().count += part.count;
  } else {
    parts.push_back(part);
  }
}

template <class T>
void run_column_parts(const OpContext& context, const char* name, std::size_t rows,
                      const std::vector<ColumnPartOf<T>>& parts) {
  if (rows == 0) return;
  for (std::size_t begin = 0; begin < parts.size(); begin += kParts) {
    const std::size_t count = std::min(kParts, parts.size() - begin);
    LaunchParts<T> batch;
    std::size_t most = 0;
    for (std::size_t i = 0; i < count; ++i) {
      batch.items[i] = launch_part(parts[begin + i], rows);
      most = std::max(most, batch.items[i].units);
    }
    if (most == 0) continue;
    launch(context, name, dim3(grid_for(most, kThreads), static_cast<unsigned>(count)),
           dim3(kThreads), 0, &column_parts_kernel<T>, batch);
  }
}

template <class T>
void sum_column_ranges(const OpContext& context, const char* name, std::size_t rows,
                       std::size_t columns, T* to, std::size_t to_row,
                       const std::vector<ColumnRange<T>>& ranges) {
  std::vector<std::size_t> cuts{0, columns};
  for (const ColumnRange<T>& range : ranges) {
    cuts.push_back(range.first);
    cuts.push_back(range.first + range.count);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  // Stage k adds sources 4k .. 4k + 3 of every piece between two cuts.
  std::vector<std::vector<ColumnPartOf<T>>> stages(1);
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    ColumnPartOf<T> part;
    part.to = to + cuts[c];
    part.to_row = to_row;
    part.count = cuts[c + 1] - cuts[c];
    std::size_t stage = 0;
    for (const ColumnRange<T>& range : ranges) {
      if (range.first > cuts[c] || cuts[c + 1] > range.first + range.count) continue;
      if (part.source_count == ColumnPartOf<T>::kSources) {
        append_part(stages[stage], part);
        if (++stage == stages.size()) stages.emplace_back();
        part.source_count = 0;
        part.accumulate = true;
      }
      part.sources[part.source_count++] = {range.from + (cuts[c] - range.first), range.row, 0};
    }
    append_part(stages[stage], part);
  }
  for (const auto& parts : stages) run_column_parts(context, name, rows, parts);
}

template void append_part(std::vector<ColumnPartOf<float>>&, const ColumnPartOf<float>&);
template void append_part(std::vector<ColumnPartOf<Float16>>&, const ColumnPartOf<Float16>&);
template void append_part(std::vector<ColumnPartOf<BFloat16>>&, const ColumnPartOf<BFloat16>&);
template void run_column_parts(const OpContext&, const char*, std::size_t,
                               const std::vector<ColumnPartOf<float>>&);
template void run_column_parts(const OpContext&, const char*, std::size_t,
                               const std::vector<ColumnPartOf<Float16>>&);
template void run_column_parts(const OpContext&, const char*, std::size_t,
                               const std::vector<ColumnPartOf<BFloat16>>&);
template void sum_column_ranges(const OpContext&, const char*, std::size_t, std::size_t, float*,
                                std::size_t, const std::vector<ColumnRange<float>>&);
template void sum_column_ranges(const OpContext&, const char*, std::size_t, std::size_t, Float16*,
                                std::size_t, const std::vector<ColumnRange<Float16>>&);
template void sum_column_ranges(const OpContext&, const char*, std::size_t, std::size_t, BFloat16*,
                                std::size_t, const std::vector<ColumnRange<BFloat16>>&);

}  // namespace hugectr::cuda
