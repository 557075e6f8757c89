// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_transfer.hpp"

#include <algorithm>

#include "core/cpp/ops/gather_rows.hpp"
#include "core/cpp/ops/loops/copy_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/loops/rounded_rows.hpp"
#include "core/cpp/ops/scatter_rows.hpp"

namespace hugectr {
namespace {

std::size_t bytes_of_row(const TensorRef& table) { return table.row_size() * size_of(table.dtype); }

/// Of the same row on the host.
std::size_t bytes_on_host(const TensorRef& table) {
  const bool widened = table.dtype == TensorScalarType::BFloat16;
  return table.row_size() * size_of(widened ? TensorScalarType::Float32 : table.dtype);
}

/// Rows as a table keeps them become rows of the host, and back.
template <class To, class From>
void rows_to_host(ThreadPool& pool, const TensorRef& table, std::size_t n, std::size_t grain,
                  const To& host, const From& from) {
  const std::size_t bytes = bytes_of_row(table), d = table.row_size();
  if (table.dtype != TensorScalarType::BFloat16)
    return copy_rows(pool, n, grain, bytes, host, from);
  copy_rows_by(pool, n, grain, bytes, host, from, [d](char* row, const char* source) {
    widen_row(reinterpret_cast<const BFloat16*>(source), d, reinterpret_cast<float*>(row));
  });
}
template <class To, class From>
void rows_of_host(ThreadPool& pool, const TensorRef& table, std::size_t n, std::size_t grain,
                  const To& to, const From& host) {
  const std::size_t bytes = bytes_of_row(table), d = table.row_size();
  if (table.dtype != TensorScalarType::BFloat16) return copy_rows(pool, n, grain, bytes, to, host);
  copy_rows_by(pool, n, grain, bytes, to, host, [d](char* row, const char* source) {
    const auto* const values = reinterpret_cast<const float*>(source);
    std::transform(values, values + d, reinterpret_cast<BFloat16*>(row),
                   [](float value) { return to_bfloat16(value); });
  });
}

/// Rows of a thread's part of a copy.
std::size_t grain_of(std::size_t row_bytes) {
  return std::max<std::size_t>(1, (std::size_t{256} << 10) / row_bytes);
}

/// Rows of the host's array in the order of the transfer, from its `first` on.
template <class Byte>
auto host_rows(Byte* host, const std::vector<std::size_t>& places, std::size_t first,
               std::size_t bytes) {
  const std::size_t* const place = places.empty() ? nullptr : places.data() + first;
  return [=](std::size_t i) { return host + (place ? place[i] : first + i) * bytes; };
}

}  // namespace

RowTransfer::RowTransfer(GPUResource& gpu, const OpContext& context, const std::string& owner,
                         const std::vector<std::uint32_t>& rows,
                         const std::vector<std::size_t>& places, std::size_t row_bytes, bool staged)
    : context_(context), rows_(rows), places_(places) {
  if (!staged || rows.empty()) return;
  pieces_ = &gpu.staging_pieces();
  arena_ =
      DeviceBuffer2::create(owner + " rows on their way", DeviceAllocator(gpu.memory_resource()));
  ids_ = arena_->reserve({rows.size()}, TensorScalarType::UInt32, "rows");
  const bool in_one_piece = rows.size() <= StagingPieces::kBytes / row_bytes;
  arena_->reserve(
      {in_one_piece ? rows.size() * row_bytes : StagingPieces::kCount * StagingPieces::kBytes},
      &staged_, "values");
  arena_->allocate();
  context_.stream->copy(ids_.get_ptr(), rows.data(), rows.size() * sizeof(std::uint32_t));
}

TensorRef RowTransfer::rows(std::size_t begin, std::size_t end) const {
  TensorRef ids = ids_.ref();
  ids.data = ids.ptr<std::uint32_t>() + begin;
  ids.shape = {end - begin};
  return ids;
}

TensorRef RowTransfer::values(const TensorRef& like, std::size_t piece, std::size_t count) const {
  TensorRef values = like;
  values.data =
      staged_.ref().ptr<std::uint8_t>() + piece % StagingPieces::kCount * StagingPieces::kBytes;
  values.shape[0] = count;
  return values;
}

void RowTransfer::gather_on_host(const TensorRef& source, void* host) {
  TensorRef ids = source, values = source;
  ids.data = const_cast<std::uint32_t*>(rows_.data());
  ids.dtype = TensorScalarType::UInt32;
  ids.shape = {rows_.size()};
  ids.row_stride = ids.row_size();
  values.data = host;
  values.shape[0] = rows_.size();
  run(context_, GatherRows{.rows = ids, .source = source, .values = values});
  context_.stream->synchronize();
}

void RowTransfer::copy_on_host(const TensorRef& table, void* host, bool to_host) {
  context_.stream->synchronize();
  const std::size_t bytes = bytes_of_row(table);
  const auto in_table = [bytes, data = static_cast<char*>(table.data),
                         rows = rows_.data()](std::size_t i) {
    return rows[i] == kNoRow ? nullptr : data + rows[i] * bytes;
  };
  const auto in_host = host_rows(static_cast<char*>(host), places_, 0, bytes_on_host(table));
  if (to_host) {
    rows_to_host(*context_.pool, table, rows_.size(), grain_of(bytes), in_host, in_table);
  } else {
    rows_of_host(*context_.pool, table, rows_.size(), grain_of(bytes), in_table, in_host);
  }
}

void RowTransfer::take_piece(const TensorRef& source, void* host, std::size_t piece,
                             std::size_t begin, std::size_t end) {
  const std::size_t bytes = bytes_of_row(source);
  pieces_->copied(piece).synchronize();
  const char* const from = pieces_->data(piece);
  rows_to_host(*context_.pool, source, end - begin, grain_of(bytes),
               host_rows(static_cast<char*>(host), places_, begin, bytes_on_host(source)),
               [from, bytes](std::size_t i) { return from + i * bytes; });
}

void RowTransfer::read(const TensorRef& source, void* host) {
  if (rows_.empty()) return;
  const bool as_it_is =
      context_.device.type == DeviceType::Cpu && bytes_on_host(source) == bytes_of_row(source);
  if (!pieces_ && places_.empty() && as_it_is) return gather_on_host(source, host);
  if (!pieces_) return copy_on_host(source, host, true);
  const std::size_t bytes = bytes_of_row(source), step = StagingPieces::kBytes / bytes;
  std::size_t piece = 0, before = 0;
  for (std::size_t begin = 0; begin < rows_.size(); begin += step, ++piece) {
    const std::size_t end = std::min(begin + step, rows_.size());
    const TensorRef values = this->values(source, piece, end - begin);
    run(context_, GatherRows{.rows = rows(begin, end), .source = source, .values = values});
    context_.stream->copy(pieces_->data(piece), values.data, (end - begin) * bytes);
    context_.stream->record(pieces_->copied(piece));
    if (piece > 0) take_piece(source, host, piece - 1, before, begin);
    before = begin;
  }
  take_piece(source, host, piece - 1, before, rows_.size());
}

void RowTransfer::write(const void* host, const TensorRef& target) {
  if (rows_.empty()) return;
  if (!pieces_) return copy_on_host(target, const_cast<void*>(host), false);
  const std::size_t bytes = bytes_of_row(target), step = StagingPieces::kBytes / bytes;
  const char* const from = static_cast<const char*>(host);
  std::size_t piece = 0;
  for (std::size_t begin = 0; begin < rows_.size(); begin += step, ++piece) {
    const std::size_t end = std::min(begin + step, rows_.size());
    pieces_->copied(piece).synchronize();
    char* const to = pieces_->data(piece);
    rows_of_host(
        *context_.pool, target, end - begin, grain_of(bytes),
        [to, bytes](std::size_t i) { return to + i * bytes; },
        host_rows(from, places_, begin, bytes_on_host(target)));
    const TensorRef values = this->values(target, piece, end - begin);
    context_.stream->copy(values.data, to, (end - begin) * bytes);
    context_.stream->record(pieces_->copied(piece));
    run(context_, ScatterRows{.rows = rows(begin, end), .values = values, .target = target});
  }
  context_.stream->synchronize();  // the rows' numbers and values may go now
}

}  // namespace hugectr
