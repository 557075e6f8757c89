// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hugectr {

/// Places in the order in which they were used last, in one of several lists or in none. Eight
/// bytes a place; every call takes constant time.
template <std::size_t kLists>
class PlaceLists {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit PlaceLists(std::size_t places) : links_(places) { ends_.fill({kNone, kNone}); }

  std::size_t size(std::size_t list) const { return sizes_[list]; }
  std::uint32_t oldest(std::size_t list) const { return ends_[list].before; }

  void push_newest(std::size_t list, std::uint32_t place) {
    Link& ends = ends_[list];
    links_[place] = {ends.after, kNone};
    (ends.after == kNone ? ends.before : links_[ends.after].after) = place;
    ends.after = place;
    ++sizes_[list];
  }
  void take_out(std::size_t list, std::uint32_t place) {
    const Link link = links_[place];
    (link.before == kNone ? ends_[list].before : links_[link.before].after) = link.after;
    (link.after == kNone ? ends_[list].after : links_[link.after].before) = link.before;
    --sizes_[list];
  }

 private:
  /// Of a place its neighbours; of a list its oldest and its newest.
  struct Link {
    std::uint32_t before = kNone, after = kNone;
  };
  std::vector<Link> links_;
  std::array<Link, kLists> ends_;
  std::array<std::size_t, kLists> sizes_{};
};

}  // namespace hugectr
