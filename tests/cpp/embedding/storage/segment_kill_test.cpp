// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/cpp/embedding/storage/links.hpp"

/// A process that writes, sweeps and links segments is killed at a moment drawn at random: what it
/// had linked until then is what is there, to the byte, and the next owner finds a clean folder.
namespace hugectr {
namespace {

using namespace testing;

/// Rows as a checkpoint has them: linked segments, and what lies in none of those in full. The file
/// that says so comes last, under its name when it is whole.
void save(Checked& checked, const std::string& folder) {
  const auto rows = range(0, static_cast<std::uint32_t>(checked.versions.size()));
  const StoredRows stored = checked.store.stored(rows);  // held until they are linked
  const Linked linked = link(stored, rows, folder);
  std::ofstream index(folder + "/index.part", std::ios::binary);
  for (const LinkedSegment& segment : linked.segments) {
    index << "segment " << segment.path << ' ' << segment.bytes << ' ' << segment.head << '\n';
  }
  std::vector<std::uint32_t> rest;
  for (std::size_t i = 0, k = 0; i < rows.size(); ++i) {
    if (stored.at[i].segment != 0) {
      index << "linked " << rows[i] << ' ' << linked.places[k++] << '\n';
    } else {
      rest.push_back(rows[i]);
    }
  }
  std::vector<std::string> copies(rest.size());
  checked.store.read(rest, [&](std::size_t i, const std::byte* row) {
    for (std::size_t b = 0; b < 100; ++b) copies[i] += concat(' ', std::to_integer<int>(row[b]));
  });
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (!copies[i].empty()) index << "copied " << rest[i] << copies[i] << '\n';
  }
  index.close();
  if (!index || std::rename((folder + "/index.part").c_str(), (folder + "/index").c_str()) != 0) {
    _exit(3);
  }
}

/// Each row that has a version is there once, as it was then. Returns how many are linked.
std::size_t check_saved(const std::string& folder, const std::vector<std::uint32_t>& versions) {
  std::ifstream index(folder + "/index");
  Linked linked;
  std::vector<std::uint32_t> times_seen(versions.size(), 0);
  for (std::string kind; index >> kind;) {
    std::uint32_t row = 0;
    if (kind == "segment") {
      LinkedSegment segment;
      index >> segment.path >> segment.bytes >> segment.head;
      linked.segments.push_back(segment);
      continue;
    }
    index >> row;
    ++times_seen.at(row);
    if (kind == "linked") {
      linked.rows.push_back(row);
      index >> linked.places.emplace_back();
      continue;
    }
    std::vector<std::byte> copy;
    for (int b = 0, value = 0; b < 100 && index >> value; ++b) copy.push_back(std::byte(value));
    EXPECT_EQ(copy, content(row, versions[row], 100)) << "row " << row;
  }
  for (std::size_t row = 0; row < versions.size(); ++row) {
    EXPECT_EQ(times_seen[row], versions[row] == 0 ? 0U : 1U) << "row " << row;
  }
  check_rows(linked, versions, 100);
  return linked.rows.size();
}

/// Versions of all rows after `rounds` of traffic, the same in parent and child.
std::vector<std::uint32_t> traffic(std::uint32_t seed, int rounds, const Folder& folder,
                                   Checked* checked = nullptr, int says = -1) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> versions(900, 0);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 8; ++i) {
      const std::vector<std::uint32_t> rows = some_rows(random, 900, 300);
      if (checked != nullptr) checked->write(rows);
      for (const std::uint32_t row : rows) ++versions[row];
    }
    if (checked == nullptr) continue;
    save(*checked, folder / concat("saved", round));
    if (::write(says, ".", 1) != 1) _exit(2);
  }
  return versions;
}

int kills() { return times(6, 100); }

TEST(SegmentKill, NothingIsLostOfWhatWasLinked) {
  std::size_t linked = 0;
  for (int kill = 0; kill < kills(); ++kill) {
    const Folder folder;
    std::mt19937 random(kill);
    int says[2];  // the child, that it has saved
    ASSERT_EQ(::pipe(says), 0);
    const pid_t child = fork();
    if (child == 0) {
      try {
        Checked checked(small_store(folder / "rows"));
        traffic(kill, 1000, folder, &checked, says[1]);
      } catch (...) {
      }
      _exit(1);
    }
    ::close(says[1]);
    const int heard = kill % 4;
    char byte = 0;
    for (int i = 0; i < heard; ++i) ASSERT_EQ(::read(says[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    ::kill(child, SIGKILL);
    ::close(says[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    int rounds = 0;
    while (std::filesystem::exists(folder / concat("saved", rounds, "/index"))) ++rounds;
    Checked checked(small_store(folder / "rows"));  // nobody holds it, and it is empty
    EXPECT_TRUE(segments_in(folder / "rows").empty());
    for (int i = 0; i < 8; ++i) checked.write(some_rows(random, 900, 300));  // the same names anew
    EXPECT_GE(rounds, heard);
    for (int round = std::max(0, rounds - 2); round < rounds; ++round) {
      linked += check_saved(folder / concat("saved", round), traffic(kill, round + 1, folder));
    }
    checked.check();
  }
  EXPECT_GT(linked, 1000U);
}

}  // namespace
}  // namespace hugectr
