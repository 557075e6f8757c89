// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/communicator.hpp"

#include <exception>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cuda/comm/call_agreement.hpp"
#include "tests/cuda/gpu.hpp"

namespace hugectr::cuda {
namespace {

using SingleCommunicatorTest = GpuTest<1>;
using NcclTest = GpuTest<2>;

/// n GPUs, each with its communicator and stream, driven by a thread of its own.
struct GpuRanks {
  explicit GpuRanks(int n) {
    DeviceBackend& backend = DeviceBackend::get(DeviceType::Cuda);
    for (int r = 0; r < n; ++r) devices.push_back({DeviceType::Cuda, r});
    communicators = backend.create_communicators(
        devices, {std::vector<std::size_t>(devices.size(), 0), nullptr});
    for (const DeviceId device : devices) streams.push_back(backend.create_stream(device, "rank"));
  }
  std::size_t size() const { return devices.size(); }

  /// Calls f(rank) on the rank's thread and waits for its stream; the error of each rank, or null.
  template <class F>
  std::vector<std::exception_ptr> try_run(const F& f) {
    std::vector<std::exception_ptr> errors(size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          f(r);
          streams[r]->synchronize();
        } catch (...) {
          errors[r] = std::current_exception();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return errors;
  }
  template <class F>
  void run(const F& f) {
    for (const auto& error : try_run(f)) {
      if (error) std::rethrow_exception(error);
    }
  }

  std::vector<DeviceId> devices;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<Stream>> streams;
};

/// The second of two processes with two ranks each: counts are those of ranks 2 and 3 of the job.
TEST(CallAgreement, RanksAreThoseOfTheJob) {
  const CollectiveCall second{
      .collective = "all_to_all", .send_counts = {1, 2, 3, 4}, .receive_counts = {9, 9, 3, 5}};
  CollectiveCall third{
      .collective = "all_to_all", .send_counts = {1, 2, 5, 6}, .receive_counts = {9, 9, 4, 6}};
  CallAgreement agreement({2, 3});
  agreement.enter(0, {second});
  agreement.enter(1, {third});
  third.receive_counts[2] = 7;
  agreement.enter(0, {second});
  try {
    agreement.enter(1, {third});
    FAIL() << "rank 2 sends 4 to rank 3, which expects 7";
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 2 sends 4 elements to rank 3, which expects 7"),
              std::string::npos)
        << error.what();
  }
}

TEST(CallAgreement, TheLaterOfTwoDifferentCallsThrows) {
  CallAgreement agreement({0, 1});
  std::vector<float> values(8);
  const auto sum = [&](std::size_t n) {
    return CollectiveCall{.collective = "all_reduce", .in = make_ref(values.data(), {n})};
  };
  for (int i = 0; i < 3; ++i) agreement.enter(0, {sum(4)});
  for (int i = 0; i < 3; ++i) agreement.enter(1, {sum(4)});
  agreement.enter(1, {sum(5)});
  EXPECT_THROW(agreement.enter(0, {sum(4)}), CommError);
  CallAgreement exchange({0, 1});
  exchange.enter(0, {{.collective = "all_to_all",
                      .in = make_ref(values.data(), {8}),
                      .send_counts = {1, 2},
                      .receive_counts = {1, 3}}});
  EXPECT_THROW(exchange.enter(1, {{.collective = "all_to_all",
                                   .in = make_ref(values.data(), {8}),
                                   .send_counts = {3, 1},
                                   .receive_counts = {1, 1}}}),
               CommError);
}

TEST(CallAgreement, WhatGoesTogetherIsTheSameForAll) {
  CallAgreement agreement({0, 1});
  std::vector<float> values(8);
  const CollectiveCall call{.collective = "all_to_all",
                            .in = make_ref(values.data(), {8}),
                            .send_counts = {1, 1},
                            .receive_counts = {1, 1}};
  CollectiveCall other = call;
  other.receive_counts = {2, 1};
  agreement.enter(0, {call, call, call});
  agreement.enter(1, {call, call, call});
  agreement.enter(0, {call, call});
  EXPECT_THROW(agreement.enter(1, {call, call, call}), CommError);
  agreement.reset();
  agreement.enter(1, {call, call});
  EXPECT_THROW(agreement.enter(0, {call, other}), CommError);
}

TEST_F(SingleCommunicatorTest, ExchangesAreCopies) {
  GpuRanks one(1);
  Communicator& comm = *one.communicators[0];
  Stream& stream = *one.streams[0];
  EXPECT_EQ(comm.size(), 1u);
  const std::vector<float> values{1, 2, 3, 4};
  DeviceArray<float> in(device, 4), out(device, 4);
  in.set(stream, values);
  comm.all_reduce(in.ref(), stream);
  EXPECT_EQ(in.get(stream), values);
  comm.reduce_scatter(in.ref(), out.ref(), stream);
  EXPECT_EQ(out.get(stream), values);
  stream.fill_zero(out.data(), 16);
  comm.all_gather(in.ref(), out.ref(), stream);
  EXPECT_EQ(out.get(stream), values);
  stream.fill_zero(out.data(), 16);
  comm.all_to_all(in.ref(), {3}, out.ref(), {3}, stream);
  EXPECT_EQ(out.get(stream), (std::vector<float>{1, 2, 3, 0}));
  comm.broadcast(in.ref(), 0, stream);
  comm.barrier(stream);
  EXPECT_THROW(comm.all_to_all(in.ref(), {3}, out.ref(), {2}, stream), CommError);
  EXPECT_THROW(comm.broadcast(in.ref(), 1, stream), InvalidArgument);
  comm.abort("stopped");
  EXPECT_THROW(stream.synchronize(), CommError);
  EXPECT_THROW(comm.all_reduce(in.ref(), stream), CommError);
  comm.renew();
  comm.all_gather(in.ref(), out.ref(), stream);
  EXPECT_EQ(out.get(stream)[0], 1.0f);
}

TEST_F(NcclTest, SumsGathersAndScatters) {
  GpuRanks ranks(backend().device_count());
  const std::size_t n = 1000;
  const std::size_t size = ranks.size();
  std::vector<std::vector<float>> sums(size), parts(size), gathered(size);
  for (int repeat = 0; repeat < 3; ++repeat) {
    ranks.run([&](std::size_t r) {
      Stream& stream = *ranks.streams[r];
      Communicator& comm = *ranks.communicators[r];
      EXPECT_EQ(comm.rank(), r);
      DeviceArray<float> data(ranks.devices[r], n * size), part(ranks.devices[r], n);
      std::vector<float> values(n * size);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + r);
      data.set(stream, values);
      comm.reduce_scatter(data.ref(), part.ref(), stream);
      parts[r] = part.get(stream);
      comm.all_gather(part.ref(), data.ref(), stream);
      gathered[r] = data.get(stream);
      data.set(stream, values);
      comm.all_reduce(data.ref(), stream);
      comm.barrier(stream);
      sums[r] = data.get(stream);
    });
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < n * size; ++i) {
        const auto expected = static_cast<float>(i * size + size * (size - 1) / 2);
        ASSERT_EQ(sums[r][i], expected);
        ASSERT_EQ(gathered[r][i], expected);
        if (i / n == r) {
          ASSERT_EQ(parts[r][i % n], expected);
        }
      }
    }
  }
}

TEST_F(NcclTest, AllToAllWithUnequalAndEmptyPartsAndBroadcast) {
  GpuRanks ranks(backend().device_count());
  const std::size_t size = ranks.size();
  // Rank r sends (r + to) % 3 elements of value 100 r + to.
  const auto count = [](std::size_t from, std::size_t to) { return (from + to) % 3; };
  ranks.run([&](std::size_t r) {
    Stream& stream = *ranks.streams[r];
    std::vector<std::size_t> send, receive;
    std::vector<std::int64_t> values, expected;
    for (std::size_t k = 0; k < size; ++k) {
      send.push_back(count(r, k));
      receive.push_back(count(k, r));
      values.insert(values.end(), send.back(), static_cast<std::int64_t>(100 * r + k));
      expected.insert(expected.end(), receive.back(), static_cast<std::int64_t>(100 * k + r));
    }
    values.resize(3 * size);
    expected.resize(3 * size, -1);
    DeviceArray<std::int64_t> in(ranks.devices[r], 3 * size), out(ranks.devices[r], 3 * size);
    in.set(stream, values);
    out.set(stream, std::vector<std::int64_t>(3 * size, -1));
    ranks.communicators[r]->all_to_all(in.ref(), send, out.ref(), receive, stream);
    EXPECT_EQ(out.get(stream), expected) << r;
    ranks.communicators[r]->broadcast(in.ref(), 1, stream);
    EXPECT_EQ(in.get(stream)[0], count(1, 0) > 0 ? 100 : 101) << r;
  });
}

TEST_F(NcclTest, CollectivesTogetherAreEachAlone) {
  GpuRanks ranks(2);  // of more NCCL may sum in another order
  const std::size_t size = ranks.size(), n = 1000;
  ranks.run([&](std::size_t r) {
    Stream& stream = *ranks.streams[r];
    Communicator& comm = *ranks.communicators[r];
    DeviceArray<float> in(ranks.devices[r], size * n);
    std::vector<float> values(size * n);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 7 * r) / 3;
    in.set(stream, values);
    const auto part = [&](DeviceArray<float>& of) {
      return make_ref(of.data(), {n}, of.ref().device);
    };
    DeviceArray<float> sum(ranks.devices[r], n), sum_alone(ranks.devices[r], n);
    DeviceArray<float> all(ranks.devices[r], size * n), all_alone(ranks.devices[r], size * n);
    DeviceArray<float> to(ranks.devices[r], size * n), to_alone(ranks.devices[r], size * n);
    const std::vector<std::size_t> counts(size, n);
    comm.together({{.collective = "reduce_scatter", .in = in.ref(), .out = sum.ref()},
                   {.collective = "all_gather", .in = part(in), .out = all.ref()},
                   {.collective = "all_to_all",
                    .in = in.ref(),
                    .out = to.ref(),
                    .send_counts = counts,
                    .receive_counts = counts}},
                  stream);
    comm.reduce_scatter(in.ref(), sum_alone.ref(), stream);
    comm.all_gather(part(in), all_alone.ref(), stream);
    comm.all_to_all(in.ref(), counts, to_alone.ref(), counts, stream);
    EXPECT_EQ(sum.get(stream), sum_alone.get(stream)) << r;
    EXPECT_EQ(all.get(stream), all_alone.get(stream)) << r;
    EXPECT_EQ(to.get(stream), to_alone.get(stream)) << r;
  });
}

TEST_F(NcclTest, ManyAllToAllsTogetherAreEachAlone) {
  GpuRanks ranks(2);
  const std::size_t size = ranks.size(), calls = 40;
  // Of call c, rank r sends rank k so many bytes: none, few, and more than are packed.
  const auto count = [](std::size_t c, std::size_t r, std::size_t k) {
    const std::size_t n = (7 * c + 3 * r + k) % 11;
    return n == 0 ? 0 : (c % 13 == 5 ? (std::size_t{1} << 20) + n : 1000 * n + c % 7);
  };
  ranks.run([&](std::size_t r) {
    Stream& stream = *ranks.streams[r];
    Communicator& comm = *ranks.communicators[r];
    std::vector<std::unique_ptr<DeviceArray<std::uint8_t>>> in, out, alone;
    std::vector<CollectiveCall> together;
    for (std::size_t c = 0; c < calls; ++c) {
      CollectiveCall call{.collective = "all_to_all"};
      std::size_t sent = 0, taken = 0;
      for (std::size_t k = 0; k < size; ++k) {
        call.send_counts.push_back(count(c, r, k));
        call.receive_counts.push_back(count(c, k, r));
        sent += call.send_counts.back();
        taken += call.receive_counts.back();
      }
      std::vector<std::uint8_t> values(sent + 1);
      for (std::size_t i = 0; i < sent; ++i) values[i] = static_cast<std::uint8_t>(i * 31 + c + r);
      in.push_back(std::make_unique<DeviceArray<std::uint8_t>>(ranks.devices[r], sent + 1));
      in.back()->set(stream, values);
      for (auto* list : {&out, &alone}) {
        list->push_back(std::make_unique<DeviceArray<std::uint8_t>>(ranks.devices[r], taken + 1));
        list->back()->set(stream, std::vector<std::uint8_t>(taken + 1, 7));
      }
      call.in = in.back()->ref();
      call.out = out.back()->ref();
      together.push_back(call);
      comm.all_to_all(call.in, call.send_counts, alone.back()->ref(), call.receive_counts, stream);
    }
    for (int turn = 0; turn < 3; ++turn) comm.together(together, stream);
    for (std::size_t c = 0; c < calls; ++c) {
      EXPECT_EQ(out[c]->get(stream), alone[c]->get(stream)) << "rank " << r << ", call " << c;
    }
  });
}

TEST_F(NcclTest, GrowableMemoryTravelsToo) {
  GpuRanks ranks(2);
  std::vector<std::unique_ptr<GrowableMemory>> memory(2);
  ranks.run([&](std::size_t r) {
    Stream& stream = *ranks.streams[r];
    memory[r] = backend().memory_resource(ranks.devices[r])->reserve_growable(1 << 20, "rows");
    memory[r]->grow(4000);
    const auto ref = make_ref(static_cast<float*>(memory[r]->data()), {1000}, ranks.devices[r]);
    const float one = 1.0f;
    stream.copy_scalars(memory[r]->data(), &one, 4);
    ranks.communicators[r]->all_reduce(ref, stream);
    float found = 0.0f;
    stream.copy(&found, memory[r]->data(), 4);
    stream.synchronize();
    EXPECT_EQ(found, 2.0f);
  });
}

TEST_F(NcclTest, AbortEndsWhatWaitsForARankThatNeverComes) {
  GpuRanks ranks(2);
  DeviceArray<float> data(ranks.devices[0], 100);
  ranks.run([&](std::size_t r) { ranks.communicators[r]->barrier(*ranks.streams[r]); });
  const auto errors = ranks.try_run([&](std::size_t r) {
    if (r == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ranks.communicators[1]->abort("rank 1 read a bad file");
      throw DataError("bad file");
    }
    ranks.communicators[0]->all_reduce(data.ref(), *ranks.streams[0]);
  });
  EXPECT_THROW(std::rethrow_exception(errors[1]), DataError);
  ASSERT_TRUE(errors[0]);
  try {
    std::rethrow_exception(errors[0]);
  } catch (const CommError& e) {
    EXPECT_STREQ(e.what(), "rank 1 read a bad file");
  }
  EXPECT_THROW(ranks.communicators[0]->barrier(*ranks.streams[0]), CommError);
}

TEST_F(NcclTest, GroupsThatWaitForTheSameRankAreAbortedInTurn) {
  GpuRanks first(2), second(2);
  for (GpuRanks* ranks : {&first, &second}) {
    ranks->run([&](std::size_t r) { ranks->communicators[r]->barrier(*ranks->streams[r]); });
  }
  DeviceArray<float> data(first.devices[0], 100), more(first.devices[0], 100);
  first.communicators[0]->all_reduce(data.ref(), *first.streams[0]);
  second.communicators[0]->all_reduce(more.ref(), *second.streams[0]);
  // One thread aborts both, as one that learns of a failed job does: ending the first group must
  // not wait for the device to be idle.
  first.communicators[0]->abort("stop");
  second.communicators[0]->abort("stop");
  EXPECT_THROW(first.streams[0]->synchronize(), CommError);
  EXPECT_THROW(second.streams[0]->synchronize(), CommError);
}

TEST_F(NcclTest, ARenewedGroupWorksAsIfNothingHadBeen) {
  GpuRanks ranks(2);
  for (int round = 0; round < 2; ++round) {
    DeviceArray<float> waiting(ranks.devices[0], 100);
    ranks.try_run([&](std::size_t r) {
      if (r == 0) ranks.communicators[0]->all_reduce(waiting.ref(), *ranks.streams[0]);
      // In the second round rank 0 is most likely inside NCCL, which connects at the first call.
      if (r == 1 && round > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (r == 1) ranks.communicators[1]->abort("stop");
    });
    ranks.communicators[round]->renew();
    ranks.run([&](std::size_t r) {
      DeviceArray<float> data(ranks.devices[r], 2);
      data.set(*ranks.streams[r], {1.0f, static_cast<float>(r)});
      ranks.communicators[r]->all_reduce(data.ref(), *ranks.streams[r]);
      EXPECT_EQ(data.get(*ranks.streams[r]), (std::vector<float>{2.0f, 1.0f}));
    });
  }
}

TEST_F(NcclTest, RanksThatDisagreeGetAnError) {
  GpuRanks ranks(2);
  ranks.run([&](std::size_t r) { ranks.communicators[r]->barrier(*ranks.streams[r]); });
  const auto errors = ranks.try_run([&](std::size_t r) {
    DeviceArray<float> data(ranks.devices[r], 100);
    const auto ref = make_ref(data.data(), {r == 0 ? std::size_t{100} : 50}, ranks.devices[r]);
    ranks.communicators[r]->all_reduce(ref, *ranks.streams[r]);
    ranks.streams[r]->synchronize();
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), CommError);
  }
}

}  // namespace
}  // namespace hugectr::cuda
