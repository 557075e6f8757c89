// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/moves_by_host.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/gather_rows.hpp"
#include "core/cpp/ops/loops/copy_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/scatter_rows.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kAligned = 256;                          // stretches of a piece
constexpr std::size_t kBytesOfThread = std::size_t{64} << 10;  // of a thread at a time
constexpr int kTurnsAwake = 2000;                              // before others are let work

std::size_t entries_of(std::span<const MoveRows> moves) {
  std::size_t entries = 0;
  for (const MoveRows& op : moves) entries += static_cast<std::size_t>(op.count);
  return entries;
}

std::size_t row_bytes_of(const TensorRef& rows) { return rows.row_size() * size_of(rows.dtype); }

std::uint32_t* list_of(const TensorBag2& list) {
  return static_cast<std::uint32_t*>(list.get_ptr());
}

TensorRef part_of(const TensorBag2& list, std::size_t first, std::size_t count) {
  TensorRef ref = list.ref();
  ref.data = list_of(list) + first;
  ref.shape = {count};
  return ref;
}

bool any_row(const std::uint32_t* rows, std::size_t count) {
  return std::any_of(rows, rows + count, [](std::uint32_t row) { return row != kNoRow; });
}

/// Bytes of a piece, up to the end of its last stretch.
std::size_t used_bytes(const auto& piece) {
  const auto& last = piece.back();
  return last.offset + last.count * last.row_bytes;
}

/// Until done() holds: for what takes less time than falling asleep.
template <class Done>
void wait_awake(const Done& done) {
  for (int turns = 0; !done(); ++turns) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
    if (turns > kTurnsAwake) std::this_thread::yield();
  }
}

/// Row list[i] of rows that lie one after another; null: there is none.
struct Homes {
  char* data;
  const std::uint32_t* list;  ///< null: no rows
  std::size_t bytes;
  char* operator()(std::size_t i) const {
    return list && list[i] != kNoRow ? data + list[i] * bytes : nullptr;
  }
  void fetch(std::size_t i) const {
    const char* const row = (*this)(i);
    for (std::size_t byte = 0; row && byte < bytes; byte += 64) __builtin_prefetch(row + byte, 1);
  }
};

}  // namespace

bool MovesByHost::takes(std::span<const MoveRows> moves) {
  return std::ranges::all_of(moves, [](const MoveRows& op) {
    return std::ranges::all_of(
        op.cache, [](const TensorRef& cache) { return row_bytes_of(cache) <= kPieceBytes; });
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
  if (!copied_[kIn][0]) {
    const auto device = DeviceBuffer2::create(owner, DeviceAllocator(gpu_.memory_resource()));
    const auto host = DeviceBuffer2::create(owner, DeviceAllocator(gpu_.staging_resource()));
    std::array<TensorBag2, kWays> on_device, on_host;
    for (const Way way : {kOut, kIn}) {
      on_device[way] = device->reserve({kInTurn * kPieceBytes}, TensorScalarType::UInt8, "pieces");
      on_host[way] = host->reserve({kInTurn * kPieceBytes}, TensorScalarType::UInt8, "pieces");
    }
    device->allocate();
    host->allocate();
    for (const TensorBag2& pieces : on_device) {  // stretches do not fill them
      gpu_.move_stream().fill_zero(pieces.get_ptr(), pieces.get_size_in_bytes());
    }
    loop_.begin([] {});  // now, when a thread that can not be started harms nobody
    loop_.wait();
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
  TensorBag2 from_there = device->reserve({room}, kNumbers, "places that rows leave");
  TensorBag2 to_there = device->reserve({room}, kNumbers, "places that they come to");
  Lists lists;
  for (TensorBag2* list : {&lists.leaving, &lists.coming, &lists.from, &lists.to}) {
    *list = host->reserve({room}, kNumbers, "numbers");
  }
  device->allocate();
  host->allocate();
  gpu_.move_stream().synchronize();  // it reads the old ones
  lists_ = std::move(lists);
  from_there_ = std::move(from_there);
  to_there_ = std::move(to_there);
  listed_ = room;
}

void MovesByHost::read_lists(const OpContext& moving, std::span<const MoveRows> moves) {
  std::uint32_t *const leaving = list_of(lists_.leaving), *const coming = list_of(lists_.coming);
  std::uint32_t *const from = list_of(lists_.from), *const to = list_of(lists_.to);
  std::size_t end = 0;
  for (const MoveRows& op : moves) {
    const std::size_t n = static_cast<std::size_t>(op.count), bytes = n * sizeof(std::uint32_t);
    moving.stream->copy(to + end, op.places.data, bytes);
    if (!op.leaving.empty()) moving.stream->copy(leaving + end, op.leaving.data, bytes);
    if (!op.coming.empty()) moving.stream->copy(coming + end, op.coming.data, bytes);
    end += n;
  }
  moving.stream->synchronize();  // and homes are as the moves before have left them
  std::size_t first = 0;
  for (const MoveRows& op : moves) {
    const std::size_t behind = first + static_cast<std::size_t>(op.count);
    if (op.leaving.empty()) std::fill(leaving + first, leaving + behind, kNoRow);
    if (op.coming.empty()) std::fill(coming + first, coming + behind, kNoRow);
    const auto left = std::find_if(leaving + first, leaving + behind,
                                   [](std::uint32_t row) { return row != kNoRow; });
    const std::uint32_t any = left == leaving + behind ? 0 : to[left - leaving];
    for (std::size_t i = first; i < behind; ++i) {
      from[i] = leaving[i] == kNoRow ? any : to[i];
      if (coming[i] == kNoRow) to[i] = kNoRow;
    }
    first = behind;
  }
  moving.stream->copy(from_there_.get_ptr(), from, end * sizeof(std::uint32_t));
  moving.stream->copy(to_there_.get_ptr(), to, end * sizeof(std::uint32_t));
}

std::vector<MovesByHost::Piece> MovesByHost::pieces_of(std::span<const MoveRows> moves) const {
  std::vector<Piece> pieces(1);
  std::size_t used = 0, first = 0;
  for (const MoveRows& op : moves) {
    const std::size_t behind = first + static_cast<std::size_t>(op.count);
    for (std::size_t a = 0; a < op.cache.size(); ++a) {
      const std::size_t row_bytes = row_bytes_of(op.cache[a]);
      for (std::size_t begin = first; begin < behind;) {
        const std::size_t fit = used < kPieceBytes ? (kPieceBytes - used) / row_bytes : 0;
        if (fit == 0) {
          pieces.emplace_back();
          used = 0;
          continue;
        }
        const std::size_t count = std::min(behind - begin, fit);
        const std::uint32_t* const leaving = list_of(lists_.leaving) + begin;
        const std::uint32_t* const coming = list_of(lists_.coming) + begin;
        pieces.back().push_back({.cache = &op.cache[a],
                                 .home = &op.home[a],
                                 .leaving = any_row(leaving, count) ? leaving : nullptr,
                                 .coming = any_row(coming, count) ? coming : nullptr,
                                 .from = part_of(from_there_, begin, count),
                                 .to = part_of(to_there_, begin, count),
                                 .count = count,
                                 .offset = used,
                                 .row_bytes = row_bytes});
        used += (count * row_bytes + kAligned - 1) / kAligned * kAligned;
        begin += count;
      }
    }
    first = behind;
  }
  return pieces;
}

char* MovesByHost::on_host(Way way, std::size_t number) const {
  return static_cast<char*>(on_host_[way].get_ptr()) + number % kInTurn * kPieceBytes;
}

char* MovesByHost::on_device(Way way, std::size_t number) const {
  return static_cast<char*>(on_device_[way].get_ptr()) + number % kInTurn * kPieceBytes;
}

TensorRef MovesByHost::values(const Stretch& stretch, Way way, std::size_t number) const {
  TensorRef values = *stretch.cache;
  values.data = on_device(way, number) + stretch.offset;
  values.shape[0] = stretch.count;
  return values;
}

/// Gathers what leaves and copies it to the host.
void MovesByHost::send(const OpContext& moving, const Piece& piece, std::size_t number) {
  std::vector<GatherRows> gathers;
  for (const Stretch& each : piece) {
    if (!each.leaving) continue;
    gathers.push_back(
        {.rows = each.from, .source = *each.cache, .values = values(each, kOut, number)});
  }
  if (gathers.empty()) return;
  run_several(moving, std::move(gathers));
  moving.stream->copy(on_host(kOut, number), on_device(kOut, number), used_bytes(piece));
  moving.stream->record(copied(kOut, number));
}

/// Copies what comes to staging memory, and what leaves from there, a row after the other: most
/// that leave go where one comes from, and that place is in the thread's cache then.
void MovesByHost::exchange(const Share& share) const {
  const Stretch& stretch = *share.stretch;
  const std::size_t bytes = stretch.row_bytes;
  const Homes coming{static_cast<char*>(stretch.home->data), stretch.coming, bytes};
  const Homes leaving{static_cast<char*>(stretch.home->data), stretch.leaving, bytes};
  char* const in = on_host(kIn, share.piece) + stretch.offset;
  const char* const out = on_host(kOut, share.piece) + stretch.offset;
  for (std::size_t i = share.begin; i < share.end; ++i) {
    if (i + kRowsAhead < share.end) {
      coming.fetch(i + kRowsAhead);
      leaving.fetch(i + kRowsAhead);
    }
    if (const char* const row = coming(i)) std::memcpy(in + i * bytes, row, bytes);
    if (char* const row = leaving(i)) std::memcpy(row, out + i * bytes, bytes);
  }
}

/// Copies what has been fetched to the device and puts it where it belongs.
void MovesByHost::place(const OpContext& moving, const Piece& piece, std::size_t number) {
  std::vector<ScatterRows> scatters;
  for (const Stretch& each : piece) {
    if (!each.coming) continue;
    scatters.push_back(
        {.rows = each.to, .values = values(each, kIn, number), .target = *each.cache});
  }
  if (scatters.empty()) return;
  moving.stream->copy(on_device(kIn, number), on_host(kIn, number), used_bytes(piece));
  moving.stream->record(copied(kIn, number));
  run_several(moving, std::move(scatters));
}

MovesByHost::Progress::Progress(std::vector<Piece> all)
    : pieces(std::move(all)), left(std::make_unique<std::atomic<int>[]>(pieces.size())) {
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    for (const Stretch& stretch : pieces[piece]) {
      const std::size_t rows = std::max<std::size_t>(kBytesOfThread / stretch.row_bytes, 1);
      for (std::size_t begin = 0; begin < stretch.count; begin += rows) {
        shares.push_back({piece, &stretch, begin, std::min(begin + rows, stretch.count)});
        ++left[piece];
      }
    }
  }
}

/// What each thread does, until no share is left.
void MovesByHost::Progress::work(const MovesByHost& moves) {
  for (;;) {
    const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed);
    if (mine >= shares.size() || !wait_until_ready(shares[mine].piece)) return;
    moves.exchange(shares[mine]);
    left[shares[mine].piece].fetch_sub(1, std::memory_order_release);
  }
}

/// False: it never will be.
bool MovesByHost::Progress::wait_until_ready(std::size_t piece) const {
  wait_awake([&] { return ready.load(std::memory_order_acquire) > piece || ended.load(); });
  return !ended.load();
}
bool MovesByHost::Progress::wait_until_done(std::size_t piece) const {
  wait_awake([&] { return left[piece].load(std::memory_order_acquire) == 0 || ended.load(); });
  return !ended.load();
}

/// Once it has come from the device, and what was in its place of the turn has gone there.
void MovesByHost::make_ready(Progress& progress, std::size_t number) const {
  if (number >= progress.pieces.size()) return;
  copied(kOut, number).synchronize();
  copied(kIn, number).synchronize();
  progress.ready.store(number + 1, std::memory_order_release);
}

/// What is asked of the device, while the threads work on pieces that are ready.
void MovesByHost::lead(const OpContext& moving, Progress& progress) {
  const std::vector<Piece>& pieces = progress.pieces;
  for (std::size_t number = 0; number < std::min(kInTurn, pieces.size()); ++number) {
    send(moving, pieces[number], number);
  }
  make_ready(progress, 0);
  for (std::size_t number = 0; number < pieces.size(); ++number) {
    make_ready(progress, number + 1);
    if (!progress.wait_until_done(number)) return;  // the loop says why
    place(moving, pieces[number], number);
    if (number + kInTurn < pieces.size()) send(moving, pieces[number + kInTurn], number + kInTurn);
  }
}

void MovesByHost::move(const OpContext& moving, std::span<const MoveRows> moves) {
  read_lists(moving, moves);
  Progress progress(pieces_of(moves));
  if (progress.shares.empty()) return;
  // One loop for all pieces: between loops the threads would fall asleep, and wake too late. Some
  // processors are left to those that submit the step.
  const std::size_t threads = std::max<std::size_t>(moving.pool->size() * 3 / 4, 1);
  loop_.begin([&] {
    try {
      moving.pool->run_chunks(threads, [&](std::size_t) { progress.work(*this); });
    } catch (...) {
      progress.ended = true;
      throw;
    }
  });
  try {
    lead(moving, progress);
  } catch (...) {
    progress.ended = true;
    loop_.wait();
    throw;
  }
  loop_.wait();
}

}  // namespace hugectr
