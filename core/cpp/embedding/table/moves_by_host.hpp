// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/cpp/base/task_thread.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/table/row_pieces.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/move_rows.hpp"

namespace hugectr {

/// Rows of tiers moved by the host's threads and the device's copy engines.
///
/// What MoveRows does by one kernel over the link, for rows at home in memory of the host. Rows
/// that leave are gathered on the device, copied to staging memory piece by piece and brought home
/// by the threads of the pool; rows that come go the other way, by a stream of their own, and are
/// scattered a quarter of them at a time. It takes longer than the kernel, and processors; but a
/// kernel that waits for the link holds multiprocessors, which costs products that run beside it
/// more than their share. For the same reason no piece is gathered by a kernel of its own: each
/// would wait for products that hold all multiprocessors. What comes may wait, so that its kernels
/// take what products leave free.
///
/// For one thread at a time.
class MovesByHost {
 public:
  static constexpr std::size_t kMostPieces = (std::size_t{64} << 20) / RowPiece::kBytes;

  /// most_pieces: that go at a time; what does not fit goes after the rest.
  explicit MovesByHost(GPUResource& gpu, std::size_t most_pieces = kMostPieces);
  ~MovesByHost();
  MovesByHost(const MovesByHost&) = delete;
  MovesByHost& operator=(const MovesByHost&) = delete;

  /// Whether rows are short enough for a piece.
  static bool takes(std::span<const MoveRows> moves) { return RowPiece::holds_rows_of(moves); }
  /// Memory for such moves. Throws OutOfMemory; what there was stays.
  void make_room(std::span<const MoveRows> moves);
  /// As run_several(moving, moves), after make_room() of the same. Waits for what the stream holds;
  /// returns when all that leaves is at home and all that comes has been submitted.
  void move(const OpContext& moving, std::span<const MoveRows> moves);

 private:
  /// Pieces in staging memory on the host. Few, so that they stay in its cache.
  static constexpr std::size_t kInTurn = 4;
  enum Way : std::size_t { kOut, kIn, kWays };
  /// Of a RowLists, one behind the other in memory: what the host reads comes first.
  enum List : std::size_t { kLeaves, kComes, kListsRead, kFrom = kListsRead, kTo, kLists };
  class Progress;

  void make_pieces(std::size_t pieces);
  void make_lists(std::size_t entries);
  RowLists read_lists(const OpContext& moving, std::span<const MoveRows> moves);
  char* on_host(Way way, std::size_t piece) const;
  char* on_device(Way way, std::size_t piece) const;
  TensorRef numbers(std::uint32_t* list, const RowStretch& stretch) const;
  TensorRef values(const RowStretch& stretch, Way way, std::size_t piece) const;

  void gather(const OpContext& moving, const Progress& progress, std::size_t first,
              std::size_t end) const;
  void send(const OpContext& moving, const RowPiece& piece, std::size_t number);
  void fetch(const OpContext& arriving, const RowPiece& piece, std::size_t number);
  void scatter(const OpContext& arriving, const Progress& progress, std::size_t first,
               std::size_t end) const;
  void copy_rows(const RowStretch& stretch, Way way, std::size_t piece, std::size_t begin,
                 std::size_t end) const;
  void lead(const OpContext& moving, const OpContext& arriving, Progress& progress);

  GPUResource& gpu_;
  const std::size_t most_pieces_;
  /// Pieces that there is memory for on the device: as many go at a time.
  std::size_t pieces_ = 0;
  std::array<TensorBag2, kWays> on_device_, on_host_;
  /// Pieces on the host, in turn: by the move stream; by that of what arrives.
  std::array<std::unique_ptr<Event>, kInTurn> left_, fetched_;
  std::unique_ptr<Event> listed_, arrived_;
  TensorBag2 lists_there_, lists_here_;  ///< on the device: all four; on the host: what moves
  std::size_t listed_entries_ = 0;       ///< that there is room for
  TaskThread loop_{"hctr-moves"};
};

}  // namespace hugectr
