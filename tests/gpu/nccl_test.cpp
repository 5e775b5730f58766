// Ranks that exchange what GPUs hold, with an NCCL that has no GPU (fake/fake_nccl.h): the bytes of the threads'
// communicator, and what happens where NCCL finds something wrong.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "backend/gpu/cuda/nccl.h"
#include "gpu/fake/fake_nccl.h"
#include "testing/errors.h"
#include "toy/base/error.h"

namespace toy::gpu::nccl_test {
namespace {

using testing::error_of, testing::expect_contains, testing::message_of;

// Loaded before NCCL is looked for, so that this one is found.
testing::FakeNccl& fake() {
  static auto* const fake = [] {
    void* const library = dlopen(TOY_FAKE_NCCL, RTLD_NOW | RTLD_GLOBAL);
    return library ? static_cast<testing::FakeNccl*>(dlsym(library, "toy_fake_nccl")) : nullptr;
  }();
  return *fake;
}

// It does at once what it is told.
Queue no_gpu() {
  return {nullptr, [] {}, [] { return true; }};
}

using Work = std::function<void(Communicator&)>;
// On threads; with_nccl: through NCCL. Returns what each of them threw.
std::vector<std::string> on_all(int n, bool with_nccl, const Work& work, double seconds = 20) {
  const auto ranks = local_communicators(n);
  std::vector<std::string> thrown(ranks.size());
  std::vector<std::thread> threads;
  for (const auto& of_thread : ranks)
    threads.emplace_back([&, r = of_thread.get()] {
      try {
        r->give_up_after(seconds);
        std::unique_ptr<Communicator> nccl;
        if (with_nccl) nccl = make_nccl_communicator(*r, no_gpu(), seconds);
        work(nccl ? *nccl : *r);
      } catch (const Error& e) {
        thrown[size_t(r->rank())] = (e.code() == ErrorCode::bad_input ? "bad input: " : "") + std::string(e.what());
      }
    });
  for (std::thread& t : threads) t.join();
  return thrown;
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override { fake() = {}; }
  void TearDown() override { fake() = {}; }
};

// Chunks of any size, and empty ones, several times in a row.
TEST_F(Nccl, MovesTheBytesOfTheThreadsCommunicator) {
  for (const int n : {1, 2, 3, 4})
    for (const size_t bytes : {size_t(1), size_t(4), size_t(100'001)}) {
      std::vector<std::vector<std::byte>> seen[2];
      for (const bool with_nccl : {false, true}) {
        auto& all = seen[with_nccl];
        all.resize(size_t(n));
        const auto thrown = on_all(n, with_nccl, [&](Communicator& c) {
          const auto me = size_t(c.rank());
          std::vector<size_t> bounds;
          for (int r = 0; r <= n; ++r) bounds.push_back(bytes * size_t(r) / size_t(n));
          const size_t chunk = bounds[me + 1] - bounds[me];
          std::vector<std::byte> mine(bytes), received(chunk * size_t(n));
          std::vector<std::byte*> parts;
          for (int r = 0; r < n; ++r) parts.push_back(received.data() + chunk * size_t(r));
          for (int round = 0; round < 3; ++round) {
            for (size_t i = 0; i < bytes; ++i) mine[i] = std::byte(i * 7 + me * 31 + size_t(round));
            c.exchange(mine, bounds, parts);
            all[me].insert(all[me].end(), received.begin(), received.end());
            c.all_gather(mine, bounds);
            c.broadcast(n - 1, std::span(mine).first(bytes / 2));
            all[me].insert(all[me].end(), mine.begin(), mine.end());
          }
          if (c.rank() > 0) c.send(0, mine);  // by the ranks themselves
          for (int r = 1; r < n && me == 0; ++r) EXPECT_EQ(c.receive(r), mine);
        });
        EXPECT_EQ(thrown, std::vector<std::string>(size_t(n)));
      }
      EXPECT_EQ(seen[0], seen[1]) << n << " ranks, " << bytes << " bytes";
    }
}

Work exchanges(int times) {
  return [times](Communicator& c) {
    const auto n = size_t(c.size());
    std::vector<std::byte> all(n);
    std::vector<size_t> bounds;
    for (size_t r = 0; r <= n; ++r) bounds.push_back(r);
    for (int i = 0; i < times; ++i) c.all_gather(all, bounds);
  };
}

TEST_F(Nccl, AnOldOneIsRefusedOnAllRanks) {
  for (const auto& [version, text] : {std::pair(21304, "2.13"), {2804, "2.8"}}) {
    fake().version = version;
    for (const std::string& said : on_all(2, true, exchanges(1)))
      EXPECT_EQ(said,
                std::string("bad input: rank 0 (host here): NVIDIA's NCCL is too old: version ") + text +
                    ", and toy needs 2.14; install a newer one, or set TOY_NCCL=off, so that gradients go through the "
                    "host's memory, slowly");
  }
}

// Wherever a rank has it, all of them say so, at once, and NCCL is not used again.
TEST_F(Nccl, AnErrorOfARankEndsAll) {
  for (const char* function :
       {"ncclCommInitRankConfig", "ncclCommGetAsyncError", "ncclSend", "ncclRecv", "ncclGroupEnd"})
    for (const int after : {0, 5}) {
      if (function == std::string("ncclCommInitRankConfig") && after > 0) continue;
      fake() = {.failing = function, .rank = 2, .after = after};
      std::atomic<int> again = 0;
      const auto thrown = on_all(3, true, [&](Communicator& c) {
        const std::string first = error_of([&] { exchanges(9)(c); });
        again += error_of([&] { exchanges(1)(c); }).find(first) != std::string::npos;
        throw Error(ErrorCode::failure, first);
      });
      for (const std::string& said : thrown) {
        expect_contains(said, "rank 2 (host here): ");
        expect_contains(said, "what a test wants (NCCL, error 6): a cable was pulled, as a test wants");
      }
      const bool before_it_is_made = function == std::string("ncclCommInitRankConfig") ||
                                     (function == std::string("ncclCommGetAsyncError") && after == 0);
      EXPECT_EQ(again, before_it_is_made ? 0 : 3) << function << " " << after;
    }
}

TEST_F(Nccl, WhatNeverArrivesIsGivenUp) {
  fake().failing = "hang";
  for (const std::string& said : on_all(2, true, exchanges(1), 0.4))
    expect_contains(said, "rank 0 (host here): NCCL has moved nothing for 0.2 s, half of --rank-timeout");
}

// A rank that does not come is named by the ranks' own communicator.
TEST_F(Nccl, ARankThatDoesNotComeIsNamed) {
  const auto thrown = on_all(
      2, true, [](Communicator& c) { c.rank() == 1 ? exchanges(2)(c) : exchanges(3)(c); }, 0.4);
  expect_contains(thrown[0], "rank 1 (host here) has not answered for 0.4 s");
}

}  // namespace
}  // namespace toy::gpu::nccl_test
