// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/segment_snapshot.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "tests/cpp/embedding/storage/stores.hpp"
#include "tests/fuzz/fuzz_case.hpp"

namespace hugectr {
namespace {

using namespace testing;

TEST(SegmentSnapshot, IsTheRowsOfItsTimeWhateverComesAfter) {
  const Folder folder;
  std::mt19937 random(11);
  std::vector<std::vector<std::uint32_t>> versions;
  {
    Checked checked(small_store(folder / "rows"));
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 12; ++i) checked.write(some_rows(random, 900, 300));
      checked.forget(some_rows(random, 100, 20));
      checked.store.link_into(folder / concat("saved", round));
      versions.push_back(checked.versions);
    }
    for (int i = 0; i < 30; ++i) checked.write(some_rows(random, 900, 300));
  }
  for (int round = 0; round < 5; ++round) {
    Checked again(small_store(folder / "rows"));
    again.store.restore(folder / concat("saved", round));
    again.versions = versions[round];
    again.check();
    for (int i = 0; i < 30; ++i) again.write(some_rows(random, 900, 300));
    again.check();
    Checked other(small_store(folder / "others"));  // the saved one is as it was
    other.store.restore(folder / concat("saved", round));
    other.versions = versions[round];
    other.check();
  }
}

TEST(SegmentSnapshot, SharesSegments) {
  const Folder folder;
  Checked checked(small_store(folder / "rows"));
  checked.write(range(0, 3000));
  checked.store.link_into(folder / "saved");
  for (const std::string& file : segments_in(folder / "saved")) {
    struct stat status{};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_nlink, 2U);
  }
}

TEST(SegmentSnapshot, DamageIsNamedAndLeavesAnEmptyStore) {
  const Folder folder;
  StoreSettings settings = small_store(folder / "rows");
  Checked checked(settings);
  checked.write(range(0, 900));
  checked.store.link_into(folder / "saved");
  settings.folder = folder / "others";
  Checked other(settings);
  other.versions = checked.versions;
  const std::string index = folder / "saved/index";
  std::ostringstream stream;
  stream << std::ifstream(index, std::ios::binary).rdbuf();
  const std::string good = stream.str();
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string bad = good;
    if (round % 2 == 0) {
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    } else {
      bad.resize(random() % bad.size());
    }
    std::ofstream(index, std::ios::binary) << bad;
    const std::string text = message_of<DataError>([&] { other.store.restore(folder / "saved"); });
    EXPECT_TRUE(has(text, "users") && has(text, "index")) << text;
    EXPECT_TRUE(segments_in(folder / "others").empty());
  }
  std::ofstream(index, std::ios::binary) << good;
  const std::string first = segments_in(folder / "saved")[0];
  std::filesystem::rename(first, first + ".away");
  EXPECT_TRUE(has(message_of<DataError>([&] { other.store.restore(folder / "saved"); }),
                  first.substr(first.size() - 15)));
  EXPECT_TRUE(segments_in(folder / "others").empty());
  // Another table's segment under that name.
  settings.folder = folder / "third";
  settings.table = "items";
  {
    Checked third(settings);
    third.write(range(0, 900));
    EXPECT_TRUE(
        has(message_of<InvalidArgument>([&] { third.store.restore(folder / "saved"); }), "before"));
    std::filesystem::copy_file(segments_in(folder / "third")[0], first);
  }
  EXPECT_TRUE(has(message_of<DataError>([&] { other.store.restore(folder / "saved"); }), "head"));
  Checked third(settings);
  EXPECT_TRUE(
      has(message_of<DataError>([&] { third.store.restore(folder / "saved"); }), "another table"));
  std::filesystem::remove(first);
  std::filesystem::rename(first + ".away", first);
  other.store.restore(folder / "saved");
  other.check();
}

TEST(SegmentSnapshot, TheFuzzTargetTakesItsSeeds) {
  const SegmentKind kind{"fuzz", GroupShape(100), 4096 * 9, std::make_shared<FileCalls>()};
  SegmentLedger::Segment segment;
  segment.groups = 8;
  const std::string index =
      snapshot_index(kind, {{{1, segment}, {7, segment}}, {{1, 2, 3}, {}, {7, 0, 0}}});
  EXPECT_EQ(fuzzing::fuzz_rows("i" + index), 3U);
  std::vector<std::byte> group(kind.shape.bytes());
  kind.shape.seal(group.data(), 4, 1, 2);
  EXPECT_EQ(
      fuzzing::fuzz_rows("g" + std::string(reinterpret_cast<char*>(group.data()), group.size())),
      4U);
}

}  // namespace
}  // namespace hugectr
