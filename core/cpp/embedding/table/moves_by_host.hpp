// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/cpp/base/task_thread.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/move_rows.hpp"

namespace hugectr {

/// Rows of tiers moved by the host's threads and the device's copy engines.
///
/// What MoveRows does by one kernel over the link, for rows at home in memory of the host. Rows
/// that leave are gathered on the device, copied to staging memory and brought home by the threads
/// of the pool; rows that come go the other way. All in pieces: while the device copies one the
/// threads work on another. It takes longer than the kernel, and processors; but a kernel that
/// waits for the link holds multiprocessors, which costs products that run beside it more than
/// their share.
///
/// For one thread at a time.
class MovesByHost {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

  explicit MovesByHost(GPUResource& gpu);
  ~MovesByHost();
  MovesByHost(const MovesByHost&) = delete;
  MovesByHost& operator=(const MovesByHost&) = delete;

  /// Whether rows are short enough for a piece.
  static bool takes(std::span<const MoveRows> moves);
  /// Memory for such moves. Throws OutOfMemory; what there was stays.
  void make_room(std::span<const MoveRows> moves);
  /// As run_several(moving, moves), after make_room() of the same. Waits for what the stream holds;
  /// returns when all that leaves is at home and all that comes has been submitted.
  void move(const OpContext& moving, std::span<const MoveRows> moves);

 private:
  static constexpr std::size_t kInTurn = 3;
  enum Way : std::size_t { kOut, kIn, kWays };

  /// Entries begin .. end - 1 of the rows of one array, at an offset of a piece.
  struct Stretch {
    const TensorRef *cache, *home;
    const std::uint32_t *leaving, *coming;  ///< on the host; null: none of them
    TensorRef from, to;                     ///< places of both, on the device
    std::size_t count, offset, row_bytes;
  };
  using Piece = std::vector<Stretch>;
  /// What one thread does at a time: some rows of a stretch.
  struct Share {
    std::size_t piece;
    const Stretch* stretch;
    std::size_t begin, end;
  };
  /// How far a move has come.
  struct Progress {
    explicit Progress(std::vector<Piece> all);
    void work(const MovesByHost& moves);
    bool wait_until_ready(std::size_t piece) const;
    bool wait_until_done(std::size_t piece) const;

    std::vector<Piece> pieces;
    std::vector<Share> shares;                 ///< by piece
    std::unique_ptr<std::atomic<int>[]> left;  ///< shares of each piece that are not done
    std::atomic<std::size_t> next{0};          ///< share that nobody has begun
    std::atomic<std::size_t> ready{0};         ///< pieces that threads may work on
    std::atomic<bool> ended{false};            ///< something went wrong: nobody waits
  };

  void read_lists(const OpContext& moving, std::span<const MoveRows> moves);
  std::vector<Piece> pieces_of(std::span<const MoveRows> moves) const;
  TensorRef values(const Stretch& stretch, Way way, std::size_t number) const;
  char* on_host(Way way, std::size_t number) const;
  char* on_device(Way way, std::size_t number) const;
  Event& copied(Way way, std::size_t number) const { return *copied_[way][number % kInTurn]; }

  void send(const OpContext& moving, const Piece& piece, std::size_t number);
  void exchange(const Share& share) const;
  void place(const OpContext& moving, const Piece& piece, std::size_t number);
  void make_ready(Progress& progress, std::size_t number) const;
  void lead(const OpContext& moving, Progress& progress);

  GPUResource& gpu_;
  /// Some pieces of either way, in turn.
  std::array<TensorBag2, kWays> on_device_, on_host_;
  std::array<std::array<std::unique_ptr<Event>, kInTurn>, kWays> copied_;
  /// Of all entries of a move, one table after the other: numbers of rows, and the places that they
  /// leave (any place of the table's that a row leaves where this one is left by none) and come to
  /// (kNoRow: none comes).
  struct Lists {
    TensorBag2 leaving, coming, from, to;
  };
  Lists lists_;                       ///< on the host
  TensorBag2 from_there_, to_there_;  ///< on the device
  std::size_t listed_ = 0;            ///< entries that there is room for
  TaskThread loop_{"hctr-moves"};
};

}  // namespace hugectr
