// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/table/row_backing.hpp"
#include "core/cpp/embedding/table/row_store.hpp"

namespace hugectr {

/// Places that a plan ranks at least: passing over so many takes no longer than their launch.
inline constexpr std::size_t kLeastRanked = std::size_t{1} << 18;

/// Device memory as a cache of `places` rows over `home`, where every row has a place of its own:
///
///   prepare()  which of a plan's rows have a place (those are pinned and, by training plans,
///              counted), and from the counts of some places a bound below which they are given up
///   stage()    as many places as rows are missing, the least used ones of those; what changed
///              there goes home, the missing rows come, in one op that moves both ways
///
/// Which places are ranked: 16 for each missing row, `least_ranked` at least (place_ranking.hpp).
///
/// Where home swaps(), a row that goes home takes the place there of the row that comes in its
/// stead, and leaves it its own, which has old content: the link reads and writes one address for
/// both (benchmarks/NOTES.md). So homes are a permutation of numbers, which is kept on the device
/// (PlaceMaps::shifts); a row that has come by a swap counts as changed. Visits go by the
/// permutation; whole() and scan() put the home in order first, which costs a pass over the rows
/// that have swapped since the last time.
///
/// Over a home that is not whole (a disk) who visits rows gets copies of them (row_copies.hpp), and
/// nothing goes home for that. A plan that only reads, whose rows find no places since the disk is
/// full and nothing can leave, has them copied beside the places (rows_beside.hpp).
///
/// A training plan pins its rows until the training plan after the next one is staged, so that
/// staging does not wait for the step under way: places must hold the rows of two plans. An
/// evaluation changes no count. Which rows lie where depends on the plans alone, never on timing,
/// and no result depends on it.
///
/// Everything that touches places, counts and the rows of the home runs on the plan stream, in its
/// order: a row that goes home in one plan can come back in the next without a wait. Steps write
/// only to the places of their plan; the plan stream waits for their release before it gives one of
/// those up.
std::unique_ptr<RowStore> make_cached_rows(GPUResource& gpu, std::unique_ptr<RowBacking> home,
                                           const std::string& table, const std::string& owner,
                                           const RowParts& parts, std::size_t places,
                                           std::size_t max_rows,
                                           std::size_t least_ranked = kLeastRanked);

}  // namespace hugectr
