// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_copies.hpp"

#include <algorithm>
#include <cstddef>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/move_rows.hpp"
#include "core/cpp/ops/row_cache.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kCopiedBytes = std::size_t{8} << 20;

}  // namespace

RowCopies::RowCopies(GPUResource& gpu, RowBacking& home, const std::string& owner,
                     const RowParts& parts, std::size_t most)
    : gpu_(gpu),
      home_(home),
      rows_(*gpu.staging_resource(), gpu.device(), owner + " copied", parts,
            std::max<std::size_t>(most, 1)) {
  const std::size_t room = std::max<std::size_t>(most, 1);
  rows_.grow_to(room);
  const auto arena =
      DeviceBuffer2::create(owner + " copied", DeviceAllocator(gpu.staging_resource()));
  copies_ = arena->reserve({room}, TensorScalarType::UInt32, "copies");
  places_ = arena->reserve({room}, TensorScalarType::UInt32, "places");
  arena->allocate();
}

std::size_t RowCopies::most(const RowParts& parts) {
  return std::max<std::size_t>(kCopiedBytes / parts.row_bytes(), 1);
}

TensorRef RowCopies::first(const TensorBag2& list, std::size_t n) const {
  TensorRef ref = list.ref();
  ref.shape = {n};
  ref.device = gpu_.device();
  return ref;
}

void RowCopies::read(const OpContext& context, const RowsAtPlaces& there,
                     const std::vector<std::uint32_t>& numbers) {
  const std::size_t n = numbers.size();
  numbers_ = numbers;
  in_copies_.resize(n);
  placed_ = 0;
  if (n == 0) return;
  auto* const copies = static_cast<std::uint32_t*>(copies_.get_ptr());
  auto* const places = static_cast<std::uint32_t*>(places_.get_ptr());
  std::copy(numbers.begin(), numbers.end(), copies);
  run(context,
      CachePlaces{
          .rows = first(copies_, n), .place_of = there.place_of, .places = first(places_, n)});
  context.stream->synchronize();
  std::vector<std::uint32_t> at_home = numbers;
  for (std::size_t i = 0; i < n; ++i) {
    in_copies_[i] = numbers[i] == kNoRow ? kNoRow : static_cast<std::uint32_t>(i);
    if (places[i] == kNoRow) continue;
    at_home[i] = kNoRow;
    copies[placed_] = static_cast<std::uint32_t>(i);
    places[placed_++] = places[i];
  }
  home_.read(at_home, arrays());
  move(context, there, false);
}

void RowCopies::write(const OpContext& context, const RowsAtPlaces& there) {
  home_.write(numbers_, arrays());
  move(context, there, true);
}

void RowCopies::move(const OpContext& context, const RowsAtPlaces& there, bool to_places) const {
  if (placed_ == 0) return;
  const TensorRef copies = first(copies_, placed_);
  run(context, MoveRows{.places = first(places_, placed_),
                        .leaving = to_places ? TensorRef{} : copies,
                        .coming = to_places ? copies : TensorRef{},
                        .cache = parts_of(there.arrays),
                        .home = parts_of(arrays()),
                        .count = static_cast<std::int64_t>(placed_)});
  context.stream->synchronize();
}

}  // namespace hugectr
