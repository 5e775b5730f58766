#include "tasks.h"

#include <array>
#include <numeric>
#include <utility>

#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace {

constexpr int32_t kKeys = 64, kValues = 64, kBlank = kKeys + kValues;

// Numbers of a stream, one after the other.
class Random {
 public:
  Random(uint64_t seed, const std::string& name) : stream_(seed, name) {}
  int64_t below(int64_t n) { return int64_t(stream_.below(2 * next_++, uint64_t(n))); }
  // k different ones of 0 .. n-1, in random order.
  std::vector<int64_t> choose(int64_t k, int64_t n) {
    std::vector<int64_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t i = 0; i < k; ++i) std::swap(all[size_t(i)], all[size_t(i + below(n - i))]);
    all.resize(size_t(k));
    return all;
  }

 private:
  toy::Philox stream_;
  uint64_t next_ = 0;
};

void add_recall(Random& random, int64_t pairs, int64_t tokens, toy::Windows& out) {
  std::vector<int32_t> inputs(static_cast<size_t>(tokens), kBlank), targets(static_cast<size_t>(tokens), -1);
  const std::vector<int64_t> keys = random.choose(pairs, kKeys);
  for (size_t i = 0; i < keys.size(); ++i) {
    inputs[2 * i] = int32_t(keys[i]);
    inputs[2 * i + 1] = int32_t(kKeys + random.below(kValues));
  }
  const int64_t rest = tokens - 2 * pairs;
  for (const int64_t place : random.choose(rest / 2, rest)) {
    const size_t asked = size_t(2 * pairs + place), pair = size_t(random.below(pairs));
    inputs[asked] = inputs[2 * pair], targets[asked] = inputs[2 * pair + 1];
  }
  out.inputs.insert(out.inputs.end(), inputs.begin(), inputs.end());
  out.targets.insert(out.targets.end(), targets.begin(), targets.end());
}

// Answers count from place `first` on.
void add_parity(Random& random, int64_t first, int64_t tokens, toy::Windows& out) {
  int32_t parity = 0;
  for (int64_t i = 0; i < tokens; ++i) {
    const int32_t bit = int32_t(random.below(2));
    parity ^= bit;
    out.inputs.push_back(bit);
    out.targets.push_back(i >= first ? parity : -1);
  }
}

void add_swaps(Random& random, int64_t first, int64_t tokens, toy::Windows& out) {
  constexpr std::array<std::pair<size_t, size_t>, 3> kSwaps = {{{0, 1}, {1, 2}, {0, 2}}};
  std::array<int32_t, 3> order = {0, 1, 2};
  for (int64_t i = 0; i < tokens; ++i) {
    const size_t swap = size_t(random.below(3));
    std::swap(order[kSwaps[swap].first], order[kSwaps[swap].second]);
    out.inputs.push_back(int32_t(swap));
    out.targets.push_back(i >= first ? 2 * order[0] + (order[1] > order[2]) : -1);  // 0 to 5
  }
}

}  // namespace

Task task_of(const std::string& name) {
  if (name == "mqar") return {name, kBlank + 1, 64, {4, 8, 16, 32}, 16, 1.0 / kValues, "pairs"};
  if (name == "parity") return {name, 2, 32, {32, 64, 128, 256}, 32, 1.0 / 2, "tokens"};
  if (name == "s3") return {name, 6, 32, {32, 64, 128, 256}, 32, 1.0 / 6, "tokens"};
  toy::fail("there is no task '{}'; there are: mqar, parity, s3", name);
}

toy::Windows training_batch(const Task& task, int64_t batch, uint64_t seed, int64_t step) {
  toy::Windows w;
  for (int64_t i = 0; i < batch; ++i) {
    Random random(seed, task.name + " " + std::to_string(step * batch + i));
    if (task.name == "mqar") add_recall(random, task.sizes[size_t(random.below(3))], task.tokens, w);
    if (task.name == "parity") add_parity(random, 0, task.tokens, w);
    if (task.name == "s3") add_swaps(random, 0, task.tokens, w);
  }
  return w;
}

toy::Windows test_batch(const Task& task, int64_t batch, int64_t size) {
  toy::Windows w;
  for (int64_t i = 0; i < batch; ++i) {
    Random random(uint64_t(size), "test of " + task.name + " " + std::to_string(i));
    if (task.name == "mqar") add_recall(random, size, test_tokens(task, size), w);
    if (task.name == "parity") add_parity(random, size / 2, size, w);
    if (task.name == "s3") add_swaps(random, size / 2, size, w);
  }
  return w;
}

int64_t test_tokens(const Task& task, int64_t size) { return task.name == "mqar" ? 4 * size : size; }
