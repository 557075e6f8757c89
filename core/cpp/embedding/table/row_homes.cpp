// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_homes.hpp"

#include <algorithm>
#include <cstddef>

#include "core/cpp/device/stream.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/loops/copy_rows.hpp"
#include "core/cpp/ops/row_cache.hpp"

namespace hugectr {
namespace {

/// Rows of a block take about this.
constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

/// Row i of a copy lies at place list[i].
struct RowsAt {
  char* data;
  std::size_t bytes;
  const std::uint32_t* list;
  char* operator()(std::size_t i) const { return data + list[i] * bytes; }
};

/// What moves so that the rows of a block lie at their numbers.
struct Block {
  explicit Block(std::size_t most) {
    for (auto* list : {&rows, &from, &others, &others_to}) list->reserve(most);
  }
  void clear() {
    for (auto* list : {&rows, &from, &others, &others_to}) list->clear();
  }

  std::vector<std::uint32_t> rows, from;  ///< rows of the block that lie elsewhere, and where
  std::vector<std::uint32_t> others, others_to;  ///< places of the block with other rows; theirs
};

void move_block(ThreadPool& pool, const Block& block, const TensorRef& part,
                std::vector<char>& scratch) {
  const std::size_t bytes = part.row_size() * size_of(part.dtype);
  const std::size_t grain = std::max<std::size_t>(1, (std::size_t{64} << 10) / bytes);
  char* const data = static_cast<char*>(part.data);
  const RowsInOrder kept{scratch.data(), bytes};
  copy_rows(pool, block.rows.size(), grain, bytes, kept, RowsAt{data, bytes, block.from.data()});
  copy_rows(pool, block.others.size(), grain, bytes, RowsAt{data, bytes, block.others_to.data()},
            RowsAt{data, bytes, block.others.data()});
  copy_rows(pool, block.rows.size(), grain, bytes, RowsAt{data, bytes, block.rows.data()}, kept);
}

}  // namespace

void rows_to_homes(const OpContext& context, const std::shared_ptr<MemoryResource>& memory,
                   const std::string& owner, const TensorRef& shifts,
                   std::vector<std::uint32_t>& rows) {
  if (rows.empty()) return;
  const auto arena = DeviceBuffer2::create(owner + " homes of rows", DeviceAllocator(memory));
  const TensorBag2 list = arena->reserve({rows.size()}, TensorScalarType::UInt32, "rows");
  arena->allocate();
  context.stream->copy(list.get_ptr(), rows.data(), list.get_size_in_bytes());
  run(context, CacheHomes{.rows = list.ref(), .shifts = shifts});
  context.stream->copy(rows.data(), list.get_ptr(), list.get_size_in_bytes());
  context.stream->synchronize();
}

void put_in_order(const OpContext& context, const RowArrays& arrays, const TensorRef& shifts) {
  std::vector<std::uint32_t> homes(shifts.size());
  context.stream->copy(homes.data(), shifts.data, shifts.size_in_bytes());
  context.stream->synchronize();
  for (std::size_t r = 0; r < homes.size(); ++r) homes[r] += static_cast<std::uint32_t>(r);
  put_in_order(*context.pool, arrays, homes);
  context.stream->fill_zero(shifts.data, shifts.size_in_bytes());
  context.stream->synchronize();
}

void put_in_order(ThreadPool& pool, const RowArrays& arrays, std::vector<std::uint32_t>& homes) {
  const std::size_t n = homes.size();
  const std::vector<TensorRef> parts = parts_of(arrays);
  std::size_t widest = 1;
  for (const TensorRef& part : parts) {
    widest = std::max(widest, part.row_size() * size_of(part.dtype));
  }
  const std::size_t size =
      std::clamp<std::size_t>(kBlockBytes / widest, 1, std::max<std::size_t>(n, 1));
  std::vector<std::uint32_t> row_at(n);
  for (std::size_t r = 0; r < n; ++r) row_at[homes[r]] = static_cast<std::uint32_t>(r);
  // Nothing fails half way, where nobody would know what lies where.
  std::vector<char> scratch(size * widest);
  Block block(size);
  for (std::size_t begin = 0; begin < n; begin += size) {
    const std::size_t end = std::min(n, begin + size);
    const auto inside = [&](std::uint32_t place) { return place >= begin && place < end; };
    block.clear();
    // Who lies where a row of the block belongs takes a place that a row of the block leaves. As
    // many are left outside of the block as there are others inside.
    for (std::size_t r = begin; r < end; ++r) {
      const auto row = static_cast<std::uint32_t>(r);
      if (!inside(row_at[r])) block.others.push_back(row);
      if (homes[r] == row) continue;
      block.rows.push_back(row);
      block.from.push_back(homes[r]);
      if (!inside(homes[r])) block.others_to.push_back(homes[r]);
    }
    if (block.rows.empty()) continue;
    for (const TensorRef& part : parts) move_block(pool, block, part, scratch);
    for (std::size_t i = 0; i < block.others.size(); ++i) {
      const std::uint32_t other = row_at[block.others[i]];
      homes[other] = block.others_to[i];
      row_at[block.others_to[i]] = other;
    }
    for (std::size_t r = begin; r < end; ++r) {
      homes[r] = row_at[r] = static_cast<std::uint32_t>(r);
    }
  }
}

}  // namespace hugectr
