// Ranks that are threads of this process.
#include "toy/base/communicator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "base/rank_cores.h"
#include "testing/errors.h"

namespace toy::communicator_test {
namespace {

using testing::error_of;
using testing::expect_contains;

void on_all(int n, const std::function<void(Communicator&)>& work) {
  const auto ranks = local_communicators(n);
  std::vector<std::thread> threads;
  for (const auto& r : ranks) threads.emplace_back([&work, rank = r.get()] { work(*rank); });
  for (std::thread& t : threads) t.join();
}

std::byte value(int rank, size_t i) { return std::byte(size_t(rank) * 37 + i * 11); }
std::vector<std::byte> values(int rank, size_t n) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < n; ++i) bytes.push_back(value(rank, i));
  return bytes;
}

TEST(LocalCommunicator, MessagesArriveInTheirOrder) {
  on_all(3, [](Communicator& c) {
    for (size_t i = 0; i < 50; ++i)
      for (int r = 0; r < c.size(); ++r)
        if (r != c.rank()) c.send(r, values(c.rank(), i));
    for (size_t i = 0; i < 50; ++i)
      for (int r = 0; r < c.size(); ++r)
        if (r != c.rank()) {
          EXPECT_EQ(c.receive(r), values(r, i));
        }
  });
}

// Chunks of any size, and empty ones.
TEST(LocalCommunicator, ExchangeGatherAndBroadcast) {
  for (const int n : {1, 2, 3, 5})
    for (const size_t bytes : {size_t(0), size_t(1), size_t(4), size_t(1001)})
      on_all(n, [&](Communicator& c) {
        const auto me = size_t(c.rank());
        std::vector<size_t> bounds;
        for (int r = 0; r <= n; ++r) bounds.push_back(bytes * size_t(r) / size_t(n));
        const size_t chunk = bounds[me + 1] - bounds[me];
        std::vector<std::byte> mine = values(c.rank(), bytes), received(chunk * size_t(n));
        std::vector<std::byte*> parts;
        for (int r = 0; r < n; ++r) parts.push_back(received.data() + chunk * size_t(r));
        c.exchange(mine, bounds, parts);
        for (int r = 0; r < n; ++r)
          for (size_t i = 0; i < chunk && r != c.rank(); ++i) EXPECT_EQ(parts[size_t(r)][i], value(r, bounds[me] + i));
        c.all_gather(mine, bounds);
        for (int r = 0; r < n; ++r)
          for (size_t i = bounds[size_t(r)]; i < bounds[size_t(r) + 1]; ++i) EXPECT_EQ(mine[i], value(r, i));
        mine = values(c.rank(), bytes);
        c.broadcast(n - 1, mine);
        EXPECT_EQ(mine, values(n - 1, bytes));
      });
}

TEST(LocalCommunicator, AnAbortEndsTheOthersWaiting) {
  const auto ranks = local_communicators(2);
  std::string message;
  std::thread waiting([&] { message = error_of([&] { ranks[1]->receive(0); }); });
  ranks[0]->abort(1);
  waiting.join();
  expect_contains(message, "another rank");
}

// A rank above 0 waits as long as rank 0 lives.
TEST(LocalCommunicator, ARankThatDoesNotAnswerIsNamed) {
  const auto ranks = local_communicators(3);
  for (const auto& r : ranks) r->give_up_after(0.05);
  std::string other;
  std::thread waiting([&] { other = error_of([&] { ranks[1]->receive(0); }); });
  expect_contains(error_of([&] { ranks[0]->receive(2); }),
                  "rank 2 (host here) has not answered for 0.05 s (--rank-timeout)");
  waiting.join();
  expect_contains(other, "another rank");
  expect_contains(error_of([&] { ranks[0]->send(1, {}); }), "another rank");
}

// What rank 0 says of the words of the others.
std::string told_of(const std::vector<std::vector<std::string>>& words, const std::vector<std::string>& versions) {
  std::string told;
  on_all(int(words.size()), [&](Communicator& c) {
    const auto me = size_t(c.rank());
    const std::string said = error_of([&] { require_same_command(c, versions[me], words[me]); });
    if (me == 0)
      told = said;
    else
      EXPECT_EQ(said, "no error");
  });
  return told;
}

TEST(RankCommand, IsTheSameEverywhere) {
  const std::vector<std::string> same{"train", "lora", "--lr", "4e-3", "--out", "my run"}, one(3, "1");
  EXPECT_EQ(told_of({same, same, same}, one), "no error");
  auto other = same;
  other[3] = "9e-3", other.insert(other.begin() + 4, "--nonsense");
  EXPECT_EQ(told_of({same, same, other}, one),
            "rank 2 (host here) was started with --lr 9e-3 --nonsense where rank 0 was started with --lr 4e-3; start "
            "all ranks with one command");
  EXPECT_EQ(told_of({other, same, same}, one),
            "rank 1 (host here) was started with --lr 4e-3 where rank 0 was started with --lr 9e-3 --nonsense; start "
            "all ranks with one command");
  // Words that begin alike or repeat, none, and an empty one.
  expect_contains(told_of({{"train", "ab"}, {"train", "a"}}, one), "with a where rank 0 was started with ab");
  expect_contains(told_of({{"train", "a", "a"}, {"train", "a"}}, one), "with nothing where rank 0 was started with a;");
  expect_contains(told_of({{"train"}, {"train", ""}}, one), "with '' where rank 0 was started with nothing");
  EXPECT_EQ(told_of({same, same}, {"1", "2"}),
            "rank 1 (host here) is toy 2, rank 0 (host here) is toy 1; install one version everywhere");
}

// Those of a machine with so many cores that a rank may use.
Cores cores(int32_t online, const std::vector<int>& list) {
  Cores c{.mask = {}, .online = online};
  CPU_ZERO(&c.mask);
  for (const int cpu : list) CPU_SET(size_t(cpu), &c.mask);
  return c;
}
std::vector<int> listed(const cpu_set_t& mask) {
  std::vector<int> list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(size_t(cpu), &mask)) list.push_back(cpu);
  return list;
}

TEST(RankCores, RanksWithTheSameOnesDivideThem) {
  // Rank 2 is alone on its machine, and rank 3 is bound to a core of its own.
  const std::vector<std::string> hosts{"a", "a", "b", "a"};
  const Cores five = cores(8, {0, 1, 2, 5, 7});
  const std::vector<Cores> all{five, five, five, cores(8, {6})};
  std::vector<int> both = listed(cores_of(0, hosts, all));
  EXPECT_TRUE(both.size() == 2 || both.size() == 3);
  for (const int cpu : listed(cores_of(1, hosts, all))) both.push_back(cpu);
  EXPECT_EQ(both, listed(five.mask));
  EXPECT_EQ(listed(cores_of(2, hosts, all)), listed(five.mask));
  EXPECT_EQ(listed(cores_of(3, hosts, all)), std::vector{6});
}

TEST(RankCores, MoreRanksThanCoresHaveOneEach) {
  const std::vector<std::string> hosts(5, "a");
  const std::vector<Cores> all(5, cores(4, {1, 3}));
  std::vector<int> taken;
  for (int r = 0; r < 5; ++r)
    for (const int cpu : listed(cores_of(r, hosts, all))) taken.push_back(cpu);
  EXPECT_EQ(taken, (std::vector{1, 3, 1, 3, 1}));
}

TEST(RankCores, ARankWithFewIsNamed) {
  const std::vector<std::string> two{"a", "b"}, one{"a", "a"};
  const Cores all = cores(4, {0, 1, 2, 3}), few = cores(4, {2});  // mpirun binds each rank to one core
  const auto said = [](const std::vector<std::string>& hosts, const std::vector<Cores>& of_ranks) {
    return unused_cores(hosts, of_ranks);
  };
  EXPECT_EQ(said(two, {all, few}),
            "rank 1 may use 1 of the 4 cores of b: start with mpirun --bind-to none, or srun --cpus-per-task");
  expect_contains(said(two, {few, few}), "rank 0 may use 1 of the 4 cores of a");
  expect_contains(said(one, {few, few}), "rank 0");
  EXPECT_EQ(said(two, {all, all}), "");
  EXPECT_EQ(said(one, {all, all}), "");
  EXPECT_EQ(said(one, {cores(4, {0, 1}), cores(4, {2, 3})}), "");
  EXPECT_EQ(said({"a", "a", "a", "a"}, {few, few, few, few}), "");
}

// A GPU for each rank of a machine, of those that a launcher gives to all of them.
TEST(ShareGpus, OneEach) {
  const auto ranks = local_communicators(3);
  const auto seen_by = [&](int rank, const char* given) {
    given ? setenv("CUDA_VISIBLE_DEVICES", given, 1) : unsetenv("CUDA_VISIBLE_DEVICES");
    share_gpus(*ranks[size_t(rank)]);
    const std::string seen = std::getenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_VISIBLE_DEVICES");
    return seen;
  };
  EXPECT_EQ(seen_by(0, nullptr), "0");
  EXPECT_EQ(seen_by(2, nullptr), "2");
  EXPECT_EQ(seen_by(1, "4,GPU-5f,6,7"), "GPU-5f");
  EXPECT_EQ(seen_by(2, "4,5,6"), "6");
  EXPECT_EQ(seen_by(1, "3"), "3");  // of its own
  share_gpus(*local_communicators(1)[0]);
  EXPECT_EQ(std::getenv("CUDA_VISIBLE_DEVICES"), nullptr);
}

}  // namespace
}  // namespace toy::communicator_test
