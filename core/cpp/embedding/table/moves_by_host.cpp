// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/moves_by_host.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/loops/copy_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kAligned = 256;                           // stretches of a piece
constexpr std::size_t kBytesOfThread = std::size_t{128} << 10;  // of a thread at a time

std::size_t entries_of(std::span<const MoveRows> moves) {
  std::size_t entries = 0;
  for (const MoveRows& op : moves) entries += static_cast<std::size_t>(op.count);
  return entries;
}

std::size_t bytes_of_row(const TensorRef& rows) { return rows.row_size() * size_of(rows.dtype); }

std::uint32_t* list_of(const TensorBag2& list) {
  return static_cast<std::uint32_t*>(list.get_ptr());
}

TensorRef entries(const TensorRef& like, const std::uint32_t* list, std::size_t begin,
                  std::size_t end) {
  TensorRef ref = like;
  ref.data = const_cast<std::uint32_t*>(list) + begin;
  ref.shape = {end - begin};
  ref.row_stride = 1;
  return ref;
}

/// Bytes of a piece, up to the end of its last stretch.
std::size_t bytes_of(const auto& piece) {
  const auto& last = piece.back();
  return last.offset + (last.end - last.begin) * last.row_bytes;
}

/// Row list[i] of rows that lie one after another; null: there is none.
struct RowsOfList {
  char* data;
  const std::uint32_t* list;
  std::size_t bytes;
  char* operator()(std::size_t i) const {
    return list[i] == kNoRow ? nullptr : data + list[i] * bytes;
  }
};

}  // namespace

bool MovesByHost::takes(std::span<const MoveRows> moves) {
  return std::ranges::all_of(moves, [](const MoveRows& op) {
    return std::ranges::all_of(
        op.cache, [](const TensorRef& cache) { return bytes_of_row(cache) <= kPieceBytes; });
  });
}

MovesByHost::MovesByHost(GPUResource& gpu) : gpu_(gpu) {}

MovesByHost::~MovesByHost() {
  for (const auto& events : copied_) {
    for (const auto& event : events) {
      try {
        if (event) event->synchronize();
      } catch (const std::exception&) {  // a device that has failed copies no more
      }
    }
  }
}

void MovesByHost::make_room(std::span<const MoveRows> moves) {
  constexpr auto kNumbers = TensorScalarType::UInt32;
  const std::string owner = "rows that the host moves";
  if (!copied_[kIn][1]) {
    const auto device = DeviceBuffer2::create(owner, DeviceAllocator(gpu_.memory_resource()));
    const auto host = DeviceBuffer2::create(owner, DeviceAllocator(gpu_.staging_resource()));
    std::array<TensorBag2, kWays> on_device, on_host;
    for (const Way way : {kOut, kIn}) {
      on_device[way] = device->reserve({kInTurn * kPieceBytes}, TensorScalarType::UInt8, "pieces");
      on_host[way] = host->reserve({kInTurn * kPieceBytes}, TensorScalarType::UInt8, "pieces");
    }
    device->allocate();
    host->allocate();
    on_device_ = std::move(on_device);
    on_host_ = std::move(on_host);
    for (auto& events : copied_) {
      for (auto& event : events) event = gpu_.create_event();
    }
  }
  const std::size_t needed = entries_of(moves);
  if (needed <= listed_) return;
  const std::size_t room = needed + needed / 4;
  const auto device = DeviceBuffer2::create(owner, DeviceAllocator(gpu_.memory_resource()));
  const auto host = DeviceBuffer2::create(owner, DeviceAllocator(gpu_.staging_resource()));
  TensorBag2 to_on_device = device->reserve({room}, kNumbers, "where they come");
  TensorBag2 leaving = host->reserve({room}, kNumbers, "rows that leave");
  TensorBag2 coming = host->reserve({room}, kNumbers, "rows that come");
  TensorBag2 to = host->reserve({room}, kNumbers, "where they come");
  device->allocate();
  host->allocate();
  gpu_.move_stream().synchronize();  // it reads the old ones
  std::tie(leaving_, coming_, to_, to_on_device_) = std::tie(leaving, coming, to, to_on_device);
  listed_ = room;
}

void MovesByHost::read_lists(const OpContext& moving, std::span<const MoveRows> moves) {
  std::size_t at = 0;
  for (const MoveRows& op : moves) {
    const std::size_t n = static_cast<std::size_t>(op.count), bytes = n * sizeof(std::uint32_t);
    moving.stream->copy(list_of(to_) + at, op.places.data, bytes);
    if (!op.leaving.empty()) moving.stream->copy(list_of(leaving_) + at, op.leaving.data, bytes);
    if (!op.coming.empty()) moving.stream->copy(list_of(coming_) + at, op.coming.data, bytes);
    at += n;
  }
  moving.stream->synchronize();  // and homes are as the moves before have left them
  at = 0;
  for (const MoveRows& op : moves) {
    const std::size_t n = static_cast<std::size_t>(op.count);
    for (std::size_t i = at; i < at + n && !op.coming.empty(); ++i) {
      if (list_of(coming_)[i] == kNoRow) list_of(to_)[i] = kNoRow;
    }
    at += n;
  }
  moving.stream->copy(to_on_device_.get_ptr(), list_of(to_), at * sizeof(std::uint32_t));
}

std::vector<MovesByHost::Piece> MovesByHost::pieces_of(std::span<const MoveRows> moves) const {
  std::vector<Piece> pieces(1);
  std::size_t used = 0, first = 0;
  for (const MoveRows& op : moves) {
    const std::size_t n = static_cast<std::size_t>(op.count);
    for (std::size_t a = 0; a < op.cache.size(); ++a) {
      const TensorRef& cache = op.cache[a];
      const std::size_t row_bytes = bytes_of_row(cache);
      for (std::size_t begin = 0; begin < n;) {
        const std::size_t fit = used < kPieceBytes ? (kPieceBytes - used) / row_bytes : 0;
        if (fit == 0) {
          pieces.emplace_back();
          used = 0;
          continue;
        }
        const std::size_t end = std::min(n, begin + fit);
        pieces.back().push_back(
            {.cache = &cache,
             .home = &op.home[a],
             .leaving = op.leaving.empty() ? nullptr : list_of(leaving_) + first,
             .coming = op.coming.empty() ? nullptr : list_of(coming_) + first,
             .places = op.places.ptr<std::uint32_t>(),
             .to = list_of(to_on_device_) + first,
             .begin = begin,
             .end = end,
             .offset = used,
             .row_bytes = row_bytes});
        used += (end - begin) * row_bytes;
        used = (used + kAligned - 1) / kAligned * kAligned;
        begin = end;
      }
    }
    first += n;
  }
  return pieces;
}

char* MovesByHost::on_host(Way way, std::size_t number) const {
  return static_cast<char*>(on_host_[way].get_ptr()) + number % kInTurn * kPieceBytes;
}

TensorRef MovesByHost::values(const Stretch& stretch, Way way, std::size_t number) const {
  TensorRef values = *stretch.cache;
  values.data = static_cast<char*>(on_device_[way].get_ptr()) + number % kInTurn * kPieceBytes +
                stretch.offset;
  values.shape[0] = stretch.end - stretch.begin;
  return values;
}

/// Gathers what leaves, also of places that no row leaves, and copies it to the host.
void MovesByHost::send(const OpContext& moving, const Piece& piece, std::size_t number) {
  std::vector<GatherRows> gathers;
  for (const Stretch& each : piece) {
    if (!each.leaving) continue;
    TensorRef rows = to_on_device_.ref();
    gathers.push_back({.rows = entries(rows, each.places, each.begin, each.end),
                       .source = *each.cache,
                       .values = values(each, kOut, number)});
  }
  if (gathers.empty()) return;
  run_several(moving, std::move(gathers));
  moving.stream->copy(
      on_host(kOut, number),
      static_cast<char*>(on_device_[kOut].get_ptr()) + number % kInTurn * kPieceBytes,
      bytes_of(piece));
  moving.stream->record(copied(kOut, number));
}

void MovesByHost::bring_home(const OpContext& moving, const Piece& piece, std::size_t number) {
  copied(kOut, number).synchronize();
  for (const Stretch& each : piece) {
    if (!each.leaving) continue;
    copy_rows(
        *moving.pool, each.end - each.begin, kBytesOfThread / each.row_bytes, each.row_bytes,
        RowsOfList{static_cast<char*>(each.home->data), each.leaving + each.begin, each.row_bytes},
        RowsInOrder{on_host(kOut, number) + each.offset, each.row_bytes});
  }
}

/// Copies what comes to staging memory.
void MovesByHost::fetch(const OpContext& moving, const Piece& piece, std::size_t number) {
  copied(kIn, number).synchronize();
  for (const Stretch& each : piece) {
    if (!each.coming) continue;
    const RowsOfList home{static_cast<char*>(each.home->data), each.coming + each.begin,
                          each.row_bytes};
    const RowsInOrder staged{on_host(kIn, number) + each.offset, each.row_bytes};
    copy_rows(
        *moving.pool, each.end - each.begin, kBytesOfThread / each.row_bytes, each.row_bytes,
        [=](std::size_t i) { return home.list[i] == kNoRow ? nullptr : staged(i); }, home);
  }
}

/// Copies what has been fetched to the device and puts it where it belongs.
void MovesByHost::place(const OpContext& moving, const Piece& piece, std::size_t number) {
  std::vector<ScatterRows> scatters;
  for (const Stretch& each : piece) {
    if (!each.coming) continue;
    TensorRef rows = to_on_device_.ref();
    scatters.push_back({.rows = entries(rows, each.to, each.begin, each.end),
                        .values = values(each, kIn, number),
                        .target = *each.cache});
  }
  if (scatters.empty()) return;
  moving.stream->copy(
      static_cast<char*>(on_device_[kIn].get_ptr()) + number % kInTurn * kPieceBytes,
      on_host(kIn, number), bytes_of(piece));
  moving.stream->record(copied(kIn, number));
  run_several(moving, std::move(scatters));
}

void MovesByHost::move(const OpContext& moving, std::span<const MoveRows> moves) {
  read_lists(moving, moves);
  const std::vector<Piece> pieces = pieces_of(moves);
  if (pieces.front().empty()) return;
  send(moving, pieces[0], 0);
  for (std::size_t number = 0; number < pieces.size(); ++number) {
    // A row goes home where another comes from: that one has been fetched by then.
    fetch(moving, pieces[number], number);
    if (number + 1 < pieces.size()) send(moving, pieces[number + 1], number + 1);
    place(moving, pieces[number], number);
    bring_home(moving, pieces[number], number);
  }
}

}  // namespace hugectr
