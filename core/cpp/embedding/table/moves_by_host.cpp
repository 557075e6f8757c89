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
#include "core/cpp/ops/list_moves.hpp"
#include "core/cpp/ops/loops/copy_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/scatter_rows.hpp"

namespace hugectr {
namespace {

const std::string kOwner = "rows that the host moves";
constexpr std::size_t kBytesOfThread = std::size_t{64} << 10;  // of a thread at a time
constexpr int kTurnsAwake = 2000;                              // before others are let work

/// Scatters of what comes at a time. The last one alone is what a step may wait for.
constexpr std::size_t kScatters = 4;

/// Once more around a loop that waits for less time than falling asleep takes.
void stay_awake(int& turns) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
  if (++turns > kTurnsAwake) std::this_thread::yield();
}

}  // namespace

/// How far a move has come.
class MovesByHost::Progress {
 public:
  Progress(const RowLists& rows, std::vector<RowPiece> all)
      : lists(rows),
        pieces(std::move(all)),
        left_(std::make_unique<std::atomic<int>[]>(pieces.size())) {
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

  const RowLists lists;
  const std::vector<RowPiece> pieces;

  /// What each thread does, until nothing is left: what comes of a share as soon as there is
  /// staging memory for it, what leaves when it has come from the device. Most that leaves goes
  /// where something has come from, and that is in the thread's cache then.
  void work(const MovesByHost& moves) {
    std::array<const Share*, kAhead> begun;
    std::size_t first = 0, end = 0;  // of those that are begun, modulo kAhead
    const Share* next = take();
    for (int turns = 0; (next || first != end) && !ended_; stay_awake(turns)) {
      if (first != end && here_.load(std::memory_order_acquire) > begun[first % kAhead]->piece) {
        const Share& share = *begun[first++ % kAhead];
        if (share.stretch->leaving) copy(moves, share, kOut);
        left_[share.piece].fetch_sub(1, std::memory_order_release);
        turns = 0;
      } else if (next && end - first < kAhead &&
                 free_.load(std::memory_order_acquire) > next->piece) {
        if (next->stretch->coming) copy(moves, *next, kIn);
        begun[end++ % kAhead] = next;
        next = take();
        turns = 0;
      }
    }
  }
  /// What leaves with it has come from the device; what has come by its memory is there.
  void make_ready(std::size_t piece) {
    here_.store(piece + 1, std::memory_order_release);
    if (piece >= kInTurn) free_.store(piece + 1, std::memory_order_release);
  }
  /// False: it never will be.
  bool wait_until_done(std::size_t piece) const {
    for (int turns = 0; left_[piece].load(std::memory_order_acquire) > 0; stay_awake(turns)) {
      if (ended_) return false;
    }
    return true;
  }
  /// Something went wrong: nobody waits.
  void end() { ended_ = true; }

 private:
  static constexpr std::size_t kAhead = 8;  ///< shares of a thread that are begun

  /// What one thread does at a time: some rows of a stretch.
  struct Share {
    std::size_t piece;
    const RowStretch* stretch;
    std::size_t begin, end;
  };
  const Share* take() {
    const std::size_t mine = next_.fetch_add(1, std::memory_order_relaxed);
    return mine < shares_.size() ? &shares_[mine] : nullptr;
  }
  static void copy(const MovesByHost& moves, const Share& share, Way way) {
    moves.copy_rows(*share.stretch, way, share.piece, share.begin, share.end);
  }

  std::vector<Share> shares_;                 ///< by piece
  std::unique_ptr<std::atomic<int>[]> left_;  ///< shares of each piece that are not done
  std::atomic<std::size_t> next_{0};          ///< share that nobody has taken
  /// Pieces whose rows may be copied home, and to staging memory.
  std::atomic<std::size_t> here_{0}, free_{kInTurn};
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
    for (auto* const events : {&left_, &fetched_}) {
      for (std::unique_ptr<Event>& event : *events) event = gpu_.create_event();
    }
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
  constexpr auto kByte = TensorScalarType::UInt8;
  const auto device = DeviceBuffer2::create(kOwner, DeviceAllocator(gpu_.memory_resource()));
  const auto host = DeviceBuffer2::create(kOwner, DeviceAllocator(gpu_.staging_resource()));
  std::array<TensorBag2, kWays> on_device, on_host = on_host_;
  for (const Way way : {kOut, kIn}) {
    on_device[way] = device->reserve({pieces * RowPiece::kBytes}, kByte, "pieces");
    if (pieces_ == 0) on_host[way] = host->reserve({kInTurn * RowPiece::kBytes}, kByte, "pieces");
  }
  device->allocate();
  if (pieces_ == 0) host->allocate();
  gpu_.move_stream().synchronize();            // it uses the old ones, and waits for what arrives
  for (const TensorBag2& bytes : on_device) {  // stretches do not fill them
    gpu_.move_stream().fill_zero(bytes.get_ptr(), bytes.get_size_in_bytes());
  }
  on_device_ = std::move(on_device);
  on_host_ = std::move(on_host);
  pieces_ = pieces;
}

void MovesByHost::make_lists(std::size_t entries) {
  constexpr auto kNumbers = TensorScalarType::UInt32;
  const auto device = DeviceBuffer2::create(kOwner, DeviceAllocator(gpu_.memory_resource()));
  const auto host = DeviceBuffer2::create(kOwner, DeviceAllocator(gpu_.staging_resource()));
  TensorBag2 there = device->reserve({kLists * entries}, kNumbers, "rows and places that move");
  TensorBag2 here = host->reserve({kListsRead * entries}, kNumbers, "rows that leave and come");
  device->allocate();
  host->allocate();
  gpu_.move_stream().synchronize();  // it uses the old ones, and waits for what arrives
  lists_there_ = std::move(there);
  lists_here_ = std::move(here);
  listed_entries_ = entries;
}

RowLists MovesByHost::read_lists(const OpContext& moving, std::span<const MoveRows> moves) {
  auto* const there = static_cast<std::uint32_t*>(lists_there_.get_ptr());
  auto* const here = static_cast<std::uint32_t*>(lists_here_.get_ptr());
  const std::size_t all = entries_of(moves);
  std::vector<ListMoves> ops;
  std::size_t first = 0;
  for (const MoveRows& op : moves) {
    const auto n = static_cast<std::size_t>(op.count);
    const auto part = [&](List list) {
      return make_ref(there + list * all + first, {n}, gpu_.device());
    };
    ops.push_back({.places = op.places,
                   .leaving = op.leaving,
                   .coming = op.coming,
                   .leaves = part(kLeaves),
                   .comes = part(kComes),
                   .from = part(kFrom),
                   .to = part(kTo),
                   .count = op.count});
    first += n;
  }
  run_several(moving, std::move(ops));
  // A kernel that writes memory of the host itself holds multiprocessors meanwhile.
  moving.stream->copy(here, there, kListsRead * all * sizeof *here);
  moving.stream->synchronize();  // and homes are as the moves before have left them
  return {.leaves = here + kLeaves * all,
          .comes = here + kComes * all,
          .from = there + kFrom * all,
          .to = there + kTo * all};
}

char* MovesByHost::on_host(Way way, std::size_t piece) const {
  return static_cast<char*>(on_host_[way].get_ptr()) + piece % kInTurn * RowPiece::kBytes;
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

/// A stretch's part of a list on the device.
TensorRef MovesByHost::numbers(std::uint32_t* list, const RowStretch& stretch) const {
  return make_ref(list + stretch.first, {stretch.count}, gpu_.device());
}

/// What leaves in pieces first .. end - 1.
void MovesByHost::gather(const OpContext& moving, const Progress& progress, std::size_t first,
                         std::size_t end) const {
  std::vector<GatherRows> gathers;
  for (std::size_t piece = first; piece < end; ++piece) {
    for (const RowStretch& each : progress.pieces[piece].stretches) {
      if (!each.leaving) continue;
      gathers.push_back({.rows = numbers(progress.lists.from, each),
                         .source = *each.cache,
                         .values = values(each, kOut, piece)});
    }
  }
  run_several(moving, std::move(gathers));
}

void MovesByHost::send(const OpContext& moving, const RowPiece& piece, std::size_t number) {
  if (piece.leaves) {
    moving.stream->copy(on_host(kOut, number), on_device(kOut, number), piece.used_bytes());
  }
  moving.stream->record(*left_[number % kInTurn]);
}

void MovesByHost::fetch(const OpContext& arriving, const RowPiece& piece, std::size_t number) {
  if (piece.comes) {
    arriving.stream->copy(on_device(kIn, number), on_host(kIn, number), piece.used_bytes());
  }
  arriving.stream->record(*fetched_[number % kInTurn]);
}

/// What has come with pieces first .. end - 1, to where it belongs.
void MovesByHost::scatter(const OpContext& arriving, const Progress& progress, std::size_t first,
                          std::size_t end) const {
  std::vector<ScatterRows> scatters;
  for (std::size_t piece = first; piece < end; ++piece) {
    for (const RowStretch& each : progress.pieces[piece].stretches) {
      if (!each.coming) continue;
      scatters.push_back({.rows = numbers(progress.lists.to, each),
                          .values = values(each, kIn, piece),
                          .target = *each.cache});
    }
  }
  run_several(arriving, std::move(scatters));
}

/// Rows begin .. end - 1 of a stretch: from home to staging memory, or from there home.
void MovesByHost::copy_rows(const RowStretch& stretch, Way way, std::size_t piece,
                            std::size_t begin, std::size_t end) const {
  const std::size_t bytes = stretch.row_bytes;
  const std::uint32_t* const rows = way == kIn ? stretch.coming : stretch.leaving;
  char* const homes = static_cast<char*>(stretch.home->data);
  char* const staged = on_host(way, piece) + stretch.offset;
  const auto home = [=](std::size_t i) {
    return rows[i] == kNoRow ? nullptr : homes + rows[i] * bytes;
  };
  for (std::size_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) fetch_row(home, i + kRowsAhead, bytes);
    char* const row = home(i);
    if (!row) continue;
    way == kIn ? std::memcpy(staged + i * bytes, row, bytes)
               : std::memcpy(row, staged + i * bytes, bytes);
  }
}

/// What is asked of the device, while the threads work.
void MovesByHost::lead(const OpContext& moving, const OpContext& arriving, Progress& progress) {
  const std::vector<RowPiece>& all = progress.pieces;
  for (std::size_t first = 0; first < all.size(); first += pieces_) {
    const std::size_t end = std::min(first + pieces_, all.size());
    const std::size_t at_a_time = (end - first + kScatters - 1) / kScatters;
    std::size_t scattered = first;
    gather(moving, progress, first, end);
    for (std::size_t piece = first; piece < std::min(first + kInTurn, end); ++piece) {
      send(moving, all[piece], piece);
    }
    const auto make_ready = [&](std::size_t piece) {
      if (piece >= end) return;
      left_[piece % kInTurn]->synchronize();
      fetched_[piece % kInTurn]->synchronize();
      progress.make_ready(piece);
    };
    make_ready(first);
    for (std::size_t piece = first; piece < end; ++piece) {
      make_ready(piece + 1);
      if (!progress.wait_until_done(piece)) return;  // the loop says why
      fetch(arriving, all[piece], piece);
      if (piece + 1 == end || piece + 1 - scattered == at_a_time) {
        scatter(arriving, progress, scattered, piece + 1);
        scattered = piece + 1;
      }
      if (piece + kInTurn < end) send(moving, all[piece + kInTurn], piece + kInTurn);
    }
    arriving.stream->record(*arrived_);
    moving.stream->wait(*arrived_);
  }
}

void MovesByHost::move(const OpContext& moving, std::span<const MoveRows> moves) {
  const RowLists lists = read_lists(moving, moves);
  Progress progress(lists, cut_into_pieces(moves, lists));
  if (progress.pieces.empty()) return;
  const OpContext arriving = gpu_.arrive_context();
  moving.stream->record(*listed_);
  arriving.stream->wait(*listed_);
  // One loop for all pieces: between loops the threads would fall asleep, and wake too late. A few
  // processors are left to those that submit the step.
  const std::size_t threads = std::max<std::size_t>(moving.pool->size() * 7 / 8, 1);
  loop_.begin([&] {
    try {
      moving.pool->run_chunks(threads, [&](std::size_t) { progress.work(*this); });
    } catch (...) {
      progress.end();
      throw;
    }
  });
  std::exception_ptr failed;
  try {
    lead(moving, arriving, progress);
  } catch (...) {
    failed = std::current_exception();
    progress.end();
  }
  try {
    loop_.wait();
  } catch (...) {
    if (!failed) failed = std::current_exception();
  }
  if (!failed) return;
  arriving.stream->record(*arrived_);  // the next move uses the same memory
  moving.stream->wait(*arrived_);
  std::rethrow_exception(failed);
}

}  // namespace hugectr
