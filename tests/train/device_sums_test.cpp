// Sums over ranks in the memory of GPUs: the bits of sum_ranks(), and of training alone.
#include "train/device_sums.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "ranks_testing.h"
#include "toy/backend/devices.h"
#include "train/sum_ranks.h"

namespace toy::device_sums_test {
namespace {

float value(int rank, size_t i, bool in_bf16) {
  const float v = float(double((i * 2654435761u + size_t(rank) * 97) % 10007) - 5e3) * 1e-3f;
  return in_bf16 ? to_float(to_bf16(v)) : v;
}

// The sum of all ranks, as each of them has it.
std::vector<std::vector<float>> sums(int n, size_t count, bool in_bf16, bool on_device) {
  const auto ranks = local_communicators(n);
  std::vector<std::vector<float>> all(ranks.size());
  std::vector<std::thread> threads;
  for (const auto& of_thread : ranks)
    threads.emplace_back([&, r = of_thread.get()] {
      std::vector<float>& mine = all[size_t(r->rank())];
      for (size_t i = 0; i < count; ++i) mine.push_back(value(r->rank(), i, in_bf16));
      if (!on_device) {
        ThreadPool pool(1);
        SumBuffers buffers;
        return sum_ranks(*r, pool, buffers, DType::f32, std::as_writable_bytes(std::span(mine)), in_bf16);
      }
      const auto device = make_emulated_device();
      ASSERT_TRUE(DeviceSums::possible(*device));
      const DeviceBuffer buffer(*device, count * sizeof(float));
      device->upload(buffer.at(), mine.data(), buffer.bytes());
      DeviceSums on_gpu(*device, *r, in_bf16, kRankTimeout);
      const size_t before = device->held().bytes;
      on_gpu.reserve(buffer.bytes());
      EXPECT_EQ(device->held().bytes - before, sum_buffer_bytes(n, DType::f32, count, in_bf16));
      on_gpu.sum(buffer.at(), buffer.bytes());
      device->download(mine.data(), buffer.at(), buffer.bytes());
      if (r->rank() == 0) device->fill(buffer.at(), std::byte(0), buffer.bytes());
      on_gpu.broadcast(n - 1, buffer.at(), buffer.bytes());
      std::vector<float> again(count);
      device->download(again.data(), buffer.at(), buffer.bytes());
      EXPECT_EQ(again, mine);
    });
  for (std::thread& t : threads) t.join();
  return all;
}

TEST(DeviceSums, AreTheBitsOfTheHosts) {
  for (const int n : {2, 3, 4, 6, 8})
    for (const bool in_bf16 : {false, true})
      for (const size_t count : {size_t(1), size_t(4097), size_t(20000)})
        EXPECT_EQ(sums(n, count, in_bf16, true), sums(n, count, in_bf16, false))
            << n << " ranks, " << count << " values" << (in_bf16 ? " in bf16" : "");
}

// More than are on their way at once.
TEST(DeviceSums, InSeveralBuckets) {
  const size_t count = kSumBucket / sizeof(float) + 5000;
  EXPECT_EQ(sums(2, count, false, true), sums(2, count, false, false));
}

TEST(DeviceSums, OtherDevicesLeaveThemToTheHost) {
  EXPECT_FALSE(DeviceSums::possible(*make_cpu_device(1)));
  EXPECT_FALSE(DeviceSums::possible(*make_reference_device()));
}

using Outcome = std::map<std::string, std::vector<float>>;
Outcome train(Communicator* ranks, TrainerOptions o) {
  const auto device = make_emulated_device();
  Model model = random_model(testing::odd_spec(true), *device, 9);
  o.tokens = testing::kTokens, o.ranks = ranks;
  Trainer trainer(*device, model, o);
  Outcome out;
  for (int i = 0; i < 2; ++i) out["losses"].push_back(float(trainer.step(testing::rows(i * 4, 4), 1e-2).loss));
  trainer.each_moment(false, [&](ParamStore& store, const std::string& name) { out[name] = store.read(name); });
  for (const std::string& name : model.params->names()) out[name] = model.params->read(name);
  return out;
}

TEST(DeviceSums, TrainTheSameModelInAnyNumberOfRanks) {
  for (const auto wire : {TrainerOptions::Wire::f32, TrainerOptions::Wire::bf16}) {
    const TrainerOptions o{.batch = 4, .shards = 4, .wire = wire};
    const Outcome alone = train(nullptr, o);
    for (const int n : {2, 4}) {
      testing::Job job(n);
      EXPECT_TRUE(train(&job.first(), o) == alone) << n << " ranks";
    }
  }
}

}  // namespace
}  // namespace toy::device_sums_test
