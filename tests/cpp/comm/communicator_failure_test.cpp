// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/comm/ranks.hpp"

namespace hugectr {
namespace {

/// Every rank's stream must end with a CommError whose text has all parts.
void expect_comm_error_everywhere(Ranks& ranks, const std::vector<std::string>& parts) {
  for (std::size_t r = 0; r < ranks.streams.size(); ++r) {
    try {
      ranks.streams[r]->synchronize();
      ADD_FAILURE() << "rank " << r << " went through";
    } catch (const CommError& e) {
      for (const auto& part : parts) {
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      }
    }
  }
}

TEST(CommunicatorFailure, DifferentSizesFailOnAllRanksNamingBoth) {
  Ranks ranks(3);
  std::vector<float> data(300);
  for (std::size_t r = 0; r < 3; ++r) {
    ranks.communicators[r]->all_reduce(make_ref(data.data() + 100 * r, {r == 2 ? 50u : 100u}),
                                       *ranks.streams[r]);
  }
  expect_comm_error_everywhere(ranks, {"rank 0", "100 float32", "rank 2", "50 float32"});
}

TEST(CommunicatorFailure, DifferentTypesFailOnAllRanksNamingBoth) {
  Ranks ranks(2);
  std::vector<float> floats(10);
  std::vector<double> doubles(10);
  ranks.communicators[0]->all_reduce(make_ref(floats.data(), {10}), *ranks.streams[0]);
  ranks.communicators[1]->all_reduce(make_ref(doubles.data(), {10}), *ranks.streams[1]);
  expect_comm_error_everywhere(ranks, {"float32", "float64"});
}

TEST(CommunicatorFailure, DifferentCollectivesFailOnAllRanksNamingBoth) {
  Ranks ranks(2);
  std::vector<float> data(10);
  ranks.communicators[0]->all_reduce(make_ref(data.data(), {10}), *ranks.streams[0]);
  ranks.communicators[1]->barrier(*ranks.streams[1]);
  expect_comm_error_everywhere(ranks, {"all_reduce", "barrier"});
}

TEST(CommunicatorFailure, DifferentRootsAndCountsFail) {
  Ranks roots(2);
  std::vector<float> data(20);
  for (std::size_t r = 0; r < 2; ++r) {
    roots.communicators[r]->broadcast(make_ref(data.data() + 10 * r, {10}), r, *roots.streams[r]);
  }
  expect_comm_error_everywhere(roots, {"from rank 0", "from rank 1"});

  Ranks counts(2);
  const std::vector<std::size_t> send{2, 3}, receive{2, 2};
  std::vector<float> out(20);
  for (std::size_t r = 0; r < 2; ++r) {
    counts.communicators[r]->all_to_all(make_ref(data.data() + 10 * r, {10}), send,
                                        make_ref(out.data() + 10 * r, {10}), receive,
                                        *counts.streams[r]);
  }
  expect_comm_error_everywhere(counts, {"sends 3", "expects 2"});
}

TEST(CommunicatorFailure, DisagreeingProcessesFailOnAllRanksNamingBoth) {
  Ranks ranks(Processes{0, 0, 1});
  std::vector<float> data(300);
  for (std::size_t r = 0; r < 3; ++r) {
    ranks.communicators[r]->all_reduce(make_ref(data.data() + 100 * r, {r == 2 ? 50u : 100u}),
                                       *ranks.streams[r]);
  }
  expect_comm_error_everywhere(ranks, {"rank 0", "100 float32", "rank 2", "50 float32"});
  Ranks kinds(Processes{0, 1});
  kinds.communicators[0]->all_reduce(make_ref(data.data(), {10}), *kinds.streams[0]);
  kinds.communicators[1]->barrier(*kinds.streams[1]);
  expect_comm_error_everywhere(kinds, {"all_reduce", "barrier"});
}

TEST(CommunicatorFailure, AbortReachesTheRanksOfOtherProcesses) {
  Ranks ranks(Processes{0, 0, 1, 1});
  std::vector<float> data(4);
  ranks.streams[3]->submit([] { throw DataError("sample 12 is broken"); });
  for (std::size_t r = 0; r < 4; ++r) {
    ranks.communicators[r]->all_reduce(make_ref(&data[r], {1}), *ranks.streams[r]);
  }
  EXPECT_THROW(ranks.streams[3]->synchronize(), DataError);
  for (const std::size_t r : {0, 1, 2}) {
    try {
      ranks.streams[r]->synchronize();
      ADD_FAILURE();
    } catch (const CommError& e) {
      EXPECT_NE(std::string(e.what()).find("rank 3 failed: sample 12 is broken"), std::string::npos)
          << e.what();
    }
  }
  EXPECT_THROW(ranks.communicators[0]->renew(), CommError);
}

TEST(CommunicatorFailure, WhoLeavesDoesNotStopOtherProcesses) {
  Ranks ranks(Processes{0, 1});
  ranks.communicators[0]->leave("done");
  ranks.communicators[0]->barrier(*ranks.streams[0]);
  EXPECT_THROW(ranks.streams[0]->synchronize(), CommError);
  std::vector<char> bytes(2);
  const std::vector<std::size_t> one{1, 1};
  std::thread other([&] { ranks.groups[1]->all_to_all(bytes.data(), one, bytes.data(), one); });
  std::vector<char> in(2);
  EXPECT_NO_THROW(ranks.groups[0]->all_to_all(bytes.data(), one, in.data(), one));
  other.join();
}

TEST(CommunicatorFailure, AbortAtAnyMomentNeverHangsProcesses) {
  for (int round = 0; round < 50; ++round) {
    Ranks ranks(Processes{0, 1, 1, 2});
    std::vector<std::vector<float>> data(4, std::vector<float>(2000, 1.0f));
    for (std::size_t r = 0; r < 4; ++r) {
      for (int i = 0; i < 20; ++i) {
        ranks.communicators[r]->all_reduce(make_ref(data[r].data(), {2000}), *ranks.streams[r]);
      }
    }
    ranks.communicators[round % 4]->abort("stop");
    for (auto& stream : ranks.streams) {
      try {
        stream->synchronize();
      } catch (const CommError& e) {
        EXPECT_NE(std::string(e.what()).find("stop"), std::string::npos) << e.what();
      }
    }
  }
}

TEST(CommunicatorFailure, WhatCanNotWorkIsRefusedAtOnce) {
  Ranks ranks(1);
  Communicator& comm = *ranks.communicators[0];
  Stream& stream = *ranks.streams[0];
  std::vector<float> data(20);
  std::vector<std::uint8_t> bytes(4);
  TensorRef strided = make_ref(data.data(), {4, 2});
  strided.row_stride = 5;
  EXPECT_THROW(comm.all_reduce(strided, stream), InvalidArgument);
  EXPECT_THROW(comm.all_reduce(make_ref(bytes.data(), {4}), stream), InvalidArgument);
  EXPECT_THROW(comm.all_reduce(TensorRef{}, stream), InvalidArgument);
  EXPECT_THROW(comm.broadcast(make_ref(data.data(), {4}), 1, stream), InvalidArgument);
  EXPECT_THROW(comm.all_gather(make_ref(data.data(), {4}), make_ref(data.data() + 4, {5}), stream),
               InvalidArgument);
  EXPECT_THROW(comm.reduce_scatter(make_ref(data.data(), {4}), make_ref(bytes.data(), {4}), stream),
               InvalidArgument);
  EXPECT_THROW(
      comm.all_to_all(make_ref(data.data(), {4}), {5}, make_ref(data.data() + 4, {5}), {5}, stream),
      InvalidArgument);
  EXPECT_THROW(make_in_process_communicators(0), InvalidArgument);
}

TEST(CommunicatorFailure, AbortFreesWaitingRanksAndStopsLaterCalls) {
  Ranks ranks(3);
  std::vector<float> data(3);
  for (std::size_t r = 0; r < 2; ++r) {
    ranks.communicators[r]->all_reduce(make_ref(&data[r], {1}), *ranks.streams[r]);
  }
  ranks.communicators[2]->abort("device 2 ran out of memory");
  ranks.communicators[1]->abort("a later reason");
  ranks.communicators[2]->barrier(*ranks.streams[2]);
  expect_comm_error_everywhere(ranks, {"device 2 ran out of memory"});
  for (std::size_t r = 0; r < 3; ++r) ranks.communicators[r]->barrier(*ranks.streams[r]);
  expect_comm_error_everywhere(ranks, {"device 2 ran out of memory"});
}

TEST(CommunicatorFailure, AFailedTaskBeforeTheCollectiveFreesTheOthers) {
  Ranks ranks(3);
  std::vector<float> data(3);
  ranks.streams[1]->submit([] { throw DataError("sample 12 is broken"); });
  for (std::size_t r = 0; r < 3; ++r) {
    ranks.communicators[r]->all_reduce(make_ref(&data[r], {1}), *ranks.streams[r]);
  }
  for (const std::size_t r : {0, 2}) {
    try {
      ranks.streams[r]->synchronize();
      ADD_FAILURE();
    } catch (const CommError& e) {
      EXPECT_NE(std::string(e.what()).find("rank 1 failed: sample 12 is broken"), std::string::npos)
          << e.what();
    }
  }
  EXPECT_THROW(ranks.streams[1]->synchronize(), DataError);
}

TEST(CommunicatorFailure, AnotherProcessIsToldWhoseTheFailureIs) {
  Ranks ranks(Processes{0, 0, 1, 1});
  std::vector<float> data(4);
  ranks.streams[2]->submit([] { throw DataError("sample 12 is broken"); });
  for (std::size_t r = 0; r < 4; ++r) {
    ranks.communicators[r]->all_reduce(make_ref(&data[r], {1}), *ranks.streams[r]);
  }
  for (const std::size_t r : {0, 1}) {
    try {
      ranks.streams[r]->synchronize();
      ADD_FAILURE();
    } catch (const CommError& e) {
      EXPECT_NE(std::string(e.what()).find("process 1: rank 2 failed: sample 12 is broken"),
                std::string::npos)
          << e.what();
    }
  }
  EXPECT_THROW(ranks.streams[2]->synchronize(), DataError);
}

TEST(CommunicatorFailure, ARenewedGroupWorksAsIfNothingHadBeen) {
  Ranks ranks(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> data{1.0f, 2.0f, 3.0f};
    for (std::size_t r = 0; r < 2; ++r) {  // rank 2 never comes
      ranks.communicators[r]->all_reduce(make_ref(&data[r], {1}), *ranks.streams[r]);
    }
    ranks.communicators[round % 3]->abort("stop");
    for (std::size_t r = 0; r < 2; ++r) EXPECT_THROW(ranks.streams[r]->synchronize(), CommError);
    ranks.communicators[(round + 1) % 3]->renew();
    data = {1.0f, 2.0f, 3.0f};
    ranks.run([&](std::size_t r, Communicator& communicator, Stream& stream) {
      communicator.all_reduce(make_ref(&data[r], {1}), stream);
    });
    EXPECT_EQ(data, (std::vector<float>{6.0f, 6.0f, 6.0f}));
  }
}

TEST(CommunicatorFailure, AbortAtAnyMomentNeverHangs) {
  for (int round = 0; round < 100; ++round) {
    Ranks ranks(4);
    std::vector<std::vector<float>> data(4, std::vector<float>(2000, 1.0f));
    for (std::size_t r = 0; r < 4; ++r) {
      for (int i = 0; i < 20; ++i) {
        ranks.communicators[r]->all_reduce(make_ref(data[r].data(), {2000}), *ranks.streams[r]);
      }
    }
    ranks.streams[0]->submit([] {});
    ranks.communicators[round % 4]->abort("stop");
    for (auto& stream : ranks.streams) {
      try {
        stream->synchronize();
      } catch (const CommError&) {
      }
    }
    // All ranks took part in the same collectives: nobody is a sum ahead.
    for (std::size_t r = 1; r < 4; ++r) ASSERT_EQ(data[r], data[0]);
  }
}

}  // namespace
}  // namespace hugectr
