// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/moves_by_host.hpp"

#include <algorithm>
#include <atomic>
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

const std::string kOwner = "rows that the host moves";
constexpr std::size_t kBytesOfThread = std::size_t{64} << 10;  // of a thread at a time
constexpr int kTurnsAwake = 2000;                              // before others are let work

TensorRef part_of(const TensorBag2& list, std::size_t first, std::size_t count) {
  TensorRef ref = list.ref();
  ref.data = static_cast<std::uint32_t*>(list.get_ptr()) + first;
  ref.shape = {count};
  return ref;
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

/// How far a move has come: which pieces the threads may work on, and which they have done.
class MovesByHost::Progress {
 public:
  explicit Progress(std::vector<RowPiece> all)
      : pieces(std::move(all)), left_(std::make_unique<std::atomic<int>[]>(pieces.size())) {
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
      for (const RowStretch& stretch : pieces[piece].stretches) {
        const std::size_t rows = std::max<std::size_t>(kBytesOfThread / stretch.row_bytes, 1);
        for (std::size_t begin = 0; begin < stretch.count; begin += rows) {
          shares_.push_back({piece, &stretch, begin, std::min(begin + rows, stretch.count)});
          ++left_[piece];
        }
      }
    }
  }

  const std::vector<RowPiece> pieces;

  /// What each thread does, until no share is left.
  void work(const MovesByHost& moves) {
    for (;;) {
      const std::size_t mine = next_.fetch_add(1, std::memory_order_relaxed);
      if (mine >= shares_.size()) return;
      const Share& share = shares_[mine];
      wait_awake([&] { return ready_.load(std::memory_order_acquire) > share.piece || ended_; });
      if (ended_) return;
      moves.exchange(*share.stretch, share.piece, share.begin, share.end);
      left_[share.piece].fetch_sub(1, std::memory_order_release);
    }
  }
  void make_ready(std::size_t piece) { ready_.store(piece + 1, std::memory_order_release); }
  /// False: it never will be.
  bool wait_until_done(std::size_t piece) const {
    wait_awake([&] { return left_[piece].load(std::memory_order_acquire) == 0 || ended_; });
    return !ended_;
  }
  /// Something went wrong: nobody waits.
  void end() { ended_ = true; }

 private:
  /// What one thread does at a time: some rows of a stretch.
  struct Share {
    std::size_t piece;
    const RowStretch* stretch;
    std::size_t begin, end;
  };
  std::vector<Share> shares_;                 ///< by piece
  std::unique_ptr<std::atomic<int>[]> left_;  ///< shares of each piece that are not done
  std::atomic<std::size_t> next_{0};          ///< share that nobody has begun
  std::atomic<std::size_t> ready_{0};         ///< pieces that threads may work on
  std::atomic<bool> ended_{false};
};

MovesByHost::MovesByHost(GPUResource& gpu, std::size_t most_pieces)
    : gpu_(gpu), most_pieces_(most_pieces) {}

MovesByHost::~MovesByHost() {
  if (!listed_) return;
  for (Stream* const stream : {&gpu_.move_stream(), &gpu_.arrive_stream()}) {
    try {
      stream->record(*listed_);
      listed_->synchronize();
    } catch (const std::exception&) {  // a device that has failed copies no more
    }
  }
}

void MovesByHost::make_room(std::span<const MoveRows> moves) {
  if (!listed_) {
    loop_.begin([] {});  // now, when a thread that can not be started harms nobody
    loop_.wait();
    gpu_.arrive_stream();
    arrived_ = gpu_.create_event();
    listed_ = gpu_.create_event();
  }
  const std::size_t pieces = bytes_of(moves) / RowPiece::kBytes + 1;
  if (pieces > pieces_ && pieces_ < most_pieces_) {
    make_pieces(std::min(pieces + pieces / 4, most_pieces_));
  }
  const std::size_t entries = entries_of(moves);
  if (entries > listed_entries_) make_lists(entries + entries / 4);
}

void MovesByHost::make_pieces(std::size_t pieces) {
  const auto device = DeviceBuffer2::create(kOwner, DeviceAllocator(gpu_.memory_resource()));
  const auto host = DeviceBuffer2::create(kOwner, DeviceAllocator(gpu_.staging_resource()));
  std::array<TensorBag2, kWays> on_device, on_host;
  for (const Way way : {kOut, kIn}) {
    const std::vector<std::size_t> shape{pieces * RowPiece::kBytes};
    on_device[way] = device->reserve(shape, TensorScalarType::UInt8, "pieces");
    on_host[way] = host->reserve(shape, TensorScalarType::UInt8, "pieces");
  }
  device->allocate();
  host->allocate();
  std::vector<std::unique_ptr<Event>> left(pieces);
  for (std::unique_ptr<Event>& event : left) event = gpu_.create_event();
  gpu_.move_stream().synchronize();            // it uses the old ones, and waits for what arrives
  for (const TensorBag2& bytes : on_device) {  // stretches do not fill them
    gpu_.move_stream().fill_zero(bytes.get_ptr(), bytes.get_size_in_bytes());
  }
  on_device_ = std::move(on_device);
  on_host_ = std::move(on_host);
  left_ = std::move(left);
  pieces_ = pieces;
}

void MovesByHost::make_lists(std::size_t entries) {
  constexpr auto kNumbers = TensorScalarType::UInt32;
  const auto device = DeviceBuffer2::create(kOwner, DeviceAllocator(gpu_.memory_resource()));
  const auto host = DeviceBuffer2::create(kOwner, DeviceAllocator(gpu_.staging_resource()));
  TensorBag2 from_there = device->reserve({entries}, kNumbers, "places that rows leave");
  TensorBag2 to_there = device->reserve({entries}, kNumbers, "places that they come to");
  RowLists lists;
  for (TensorBag2* list : {&lists.leaving, &lists.coming, &lists.from, &lists.to}) {
    *list = host->reserve({entries}, kNumbers, "numbers");
  }
  device->allocate();
  host->allocate();
  gpu_.move_stream().synchronize();  // it reads the old ones, and waits for what arrives
  lists_ = std::move(lists);
  from_there_ = std::move(from_there);
  to_there_ = std::move(to_there);
  listed_entries_ = entries;
}

void MovesByHost::read_lists(const OpContext& moving, std::span<const MoveRows> moves) {
  std::size_t first = 0;
  for (const MoveRows& op : moves) {
    const auto n = static_cast<std::size_t>(op.count);
    const auto read = [&](const TensorBag2& here, const TensorRef& list) {
      if (list.empty()) return;
      const TensorRef part = part_of(here, first, n);
      moving.stream->copy(part.data, list.data, part.size_in_bytes());
    };
    read(lists_.to, op.places);
    read(lists_.leaving, op.leaving);
    read(lists_.coming, op.coming);
    first += n;
  }
  moving.stream->synchronize();  // and homes are as the moves before have left them
  lists_.complete(moves);
  const std::size_t bytes = first * sizeof(std::uint32_t);
  moving.stream->copy(from_there_.get_ptr(), lists_.from.get_ptr(), bytes);
  moving.stream->copy(to_there_.get_ptr(), lists_.to.get_ptr(), bytes);
}

char* MovesByHost::on_host(Way way, std::size_t piece) const {
  return static_cast<char*>(on_host_[way].get_ptr()) + piece % pieces_ * RowPiece::kBytes;
}

char* MovesByHost::on_device(Way way, std::size_t piece) const {
  return static_cast<char*>(on_device_[way].get_ptr()) + piece % pieces_ * RowPiece::kBytes;
}

TensorRef MovesByHost::values(const RowStretch& stretch, Way way, std::size_t piece) const {
  TensorRef values = *stretch.cache;
  values.data = on_device(way, piece) + stretch.offset;
  values.shape[0] = stretch.count;
  return values;
}

/// Gathers what leaves in pieces first .. end - 1 and copies it to the host.
void MovesByHost::send(const OpContext& moving, const std::vector<RowPiece>& all, std::size_t first,
                       std::size_t end) {
  std::vector<GatherRows> gathers;
  for (std::size_t piece = first; piece < end; ++piece) {
    for (const RowStretch& each : all[piece].stretches) {
      if (!each.leaving) continue;
      gathers.push_back({.rows = part_of(from_there_, each.first, each.count),
                         .source = *each.cache,
                         .values = values(each, kOut, piece)});
    }
  }
  run_several(moving, std::move(gathers));
  for (std::size_t piece = first; piece < end; ++piece) {
    if (all[piece].leaves) {
      moving.stream->copy(on_host(kOut, piece), on_device(kOut, piece), all[piece].used_bytes());
    }
    moving.stream->record(*left_[piece % pieces_]);
  }
}

/// Copies what comes to staging memory, and what leaves from there, a row after the other: most
/// that leave go where one comes from, and that place is in the thread's cache then.
void MovesByHost::exchange(const RowStretch& stretch, std::size_t piece, std::size_t begin,
                           std::size_t end) const {
  const std::size_t bytes = stretch.row_bytes;
  const Homes coming{static_cast<char*>(stretch.home->data), stretch.coming, bytes};
  const Homes leaving{static_cast<char*>(stretch.home->data), stretch.leaving, bytes};
  char* const in = on_host(kIn, piece) + stretch.offset;
  const char* const out = on_host(kOut, piece) + stretch.offset;
  for (std::size_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) {
      coming.fetch(i + kRowsAhead);
      leaving.fetch(i + kRowsAhead);
    }
    if (const char* const row = coming(i)) std::memcpy(in + i * bytes, row, bytes);
    if (char* const row = leaving(i)) std::memcpy(row, out + i * bytes, bytes);
  }
}

/// Puts what has come with pieces first .. end - 1 where it belongs.
void MovesByHost::place(const OpContext& arriving, const std::vector<RowPiece>& all,
                        std::size_t first, std::size_t end) const {
  std::vector<ScatterRows> scatters;
  for (std::size_t piece = first; piece < end; ++piece) {
    for (const RowStretch& each : all[piece].stretches) {
      if (!each.coming) continue;
      scatters.push_back({.rows = part_of(to_there_, each.first, each.count),
                          .values = values(each, kIn, piece),
                          .target = *each.cache});
    }
  }
  run_several(arriving, std::move(scatters));
}

/// What is asked of the device, while the threads work on pieces that are ready.
void MovesByHost::lead(const OpContext& moving, const OpContext& arriving, Progress& progress) {
  const std::vector<RowPiece>& all = progress.pieces;
  for (std::size_t first = 0; first < all.size(); first += pieces_) {
    const std::size_t end = std::min(first + pieces_, all.size());
    send(moving, all, first, end);
    // It has left, and what came before in its memory has gone to the device.
    const auto make_ready = [&](std::size_t piece) {
      if (piece >= end) return;
      left_[piece % pieces_]->synchronize();
      progress.make_ready(piece);
    };
    make_ready(first);
    for (std::size_t piece = first; piece < end; ++piece) {
      make_ready(piece + 1);
      if (!progress.wait_until_done(piece)) return;  // the loop says why
      if (!all[piece].comes) continue;
      arriving.stream->copy(on_device(kIn, piece), on_host(kIn, piece), all[piece].used_bytes());
    }
    place(arriving, all, first, end);
    arriving.stream->record(*arrived_);
    moving.stream->wait(*arrived_);
  }
}

void MovesByHost::move(const OpContext& moving, std::span<const MoveRows> moves) {
  read_lists(moving, moves);
  Progress progress(cut_into_pieces(moves, lists_));
  if (progress.pieces.empty()) return;
  const OpContext arriving = gpu_.arrive_context();
  moving.stream->record(*listed_);
  arriving.stream->wait(*listed_);
  // One loop for all pieces: between loops the threads would fall asleep, and wake too late. Some
  // processors are left to those that submit the step.
  const std::size_t threads = std::max<std::size_t>(moving.pool->size() * 3 / 4, 1);
  loop_.begin([&] {
    try {
      moving.pool->run_chunks(threads, [&](std::size_t) { progress.work(*this); });
    } catch (...) {
      progress.end();
      throw;
    }
  });
  try {
    lead(moving, arriving, progress);
  } catch (...) {
    progress.end();
    loop_.wait();
    arriving.stream->record(*arrived_);  // the next move uses the same memory
    moving.stream->wait(*arrived_);
    throw;
  }
  loop_.wait();
}

}  // namespace hugectr
