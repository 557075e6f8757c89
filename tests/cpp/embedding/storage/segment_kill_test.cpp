// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/cpp/embedding/storage/stores.hpp"

/// A process that writes, sweeps and saves is killed at a moment drawn at random: what its last
/// snapshot says is what is there, to the byte, and the next owner finds a clean folder.
namespace hugectr {
namespace {

using namespace testing;

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
    checked->store.link_into(folder / concat("saved", round));
    if (::write(says, ".", 1) != 1) _exit(2);
  }
  return versions;
}

int kills() { return times(6, 100); }

TEST(SegmentKill, NothingIsLostBeyondTheLastSnapshot) {
  for (int kill = 0; kill < kills(); ++kill) {
    const Folder folder;
    std::mt19937 random(kill);
    int says[2];  // the child, that it has made a snapshot
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
    EXPECT_GE(rounds, heard);
    if (rounds == 0) continue;
    for (const int back : {0, 1}) {
      if (rounds - back <= 0) continue;
      Checked again(small_store(folder / concat("again", back)));
      again.store.restore(folder / concat("saved", rounds - back - 1));
      again.versions = traffic(kill, rounds - back, folder);
      again.check();
    }
  }
}

}  // namespace
}  // namespace hugectr
