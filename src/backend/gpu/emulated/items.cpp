#include "backend/gpu/emulated/items.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/gpu/emulated/fiber.h"
#include "toy/base/error.h"

namespace toy::gpu {

Running running;

namespace {

constexpr int kWarp = 32;
enum class State { ready, at_group, at_warp, done };
struct Item {
  State state = State::done;
  int line = 0;
  Fiber* fiber = nullptr;
  uint32_t given[2] = {};  // to the warp, by turns: some lanes read the last value when others give the next
  int turn = 0;
};

// One group at a time. Fibers take items that have not begun, so kernels without barriers need only one.
class Group {
 public:
  void run(const Text& text, const Launch& launch, const std::vector<int>& order) {
    text_ = &text, launch_ = &launch, order_ = &order, begun_ = 0;
    items_.assign(order.size(), {});
    while (begun_ < order.size()) free_fiber().resume();
    while (!finished()) {
      release_warps();
      bool ran = false;
      for (const int i : order)
        if (items_[size_t(i)].state == State::ready) {
          running.item = i, ran = true;
          items_[size_t(i)].fiber->resume();
        }
      if (!ran) release_group();
    }
    text_ = nullptr;
  }

  Item& now() { return items_[size_t(running.item)]; }
  const Item& at(int i) const { return items_[size_t(i)]; }
  void wait(State state, int line) {
    Item& me = now();
    me.state = state, me.line = line;
    me.fiber->suspend();
  }
  const Text* text() const { return text_; }
  // Their items never end: they are not continued.
  void abandon() { fibers_.clear(), free_.clear(), text_ = nullptr; }

 private:
  Fiber& free_fiber();
  static void body();

  bool finished() const {
    return std::all_of(items_.begin(), items_.end(), [](const Item& i) { return i.state == State::done; });
  }
  void release_warps() {
    for (size_t first = 0; first < items_.size(); first += kWarp) {
      const auto warp = items_.begin() + int64_t(first);
      const auto there = [&](const Item& i) { return i.state == State::at_warp && i.line == warp->line; };
      if (std::all_of(warp, warp + kWarp, there))
        for (int i = 0; i < kWarp; ++i) warp[i].state = State::ready;
    }
  }
  void release_group() {
    const auto first = std::find_if(items_.begin(), items_.end(), [](const Item& i) { return i.state != State::done; });
    for (const Item& i : items_)
      if (i.state != State::at_group || i.line != first->line)
        fail_internal(
            "device emulated: kernel {}, group ({},{},{}): item {} does not come to line {}, where item {} waits",
            text_->name, running.group[0], running.group[1], running.group[2], &i - items_.data(), first->line,
            first - items_.begin());
    for (Item& i : items_) i.state = State::ready;
  }

  const Text* text_ = nullptr;
  const Launch* launch_ = nullptr;
  const std::vector<int>* order_ = nullptr;
  size_t begun_ = 0;
  std::vector<Item> items_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* starting_ = nullptr;  // takes the next items
};

Group group;

Fiber& Group::free_fiber() {
  if (free_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(int(fibers_.size()), &Group::body));
    free_.push_back(fibers_.back().get());
  }
  starting_ = free_.back();
  free_.pop_back();
  return *starting_;
}

// What each fiber does: items that have not begun, then it is free for the next group.
void Group::body() {
  for (;;) {
    Fiber* const me = group.starting_;
    while (group.begun_ < group.items_.size()) {
      const int i = (*group.order_)[group.begun_++];
      running.item = i;
      group.items_[size_t(i)].fiber = me;
      group.text_->call(*group.launch_);
      group.now().state = State::done;
    }
    group.free_.push_back(me);
    me->suspend();
  }
}

// The items of a group in their order.
const std::vector<int>& turns(int items, ItemOrder order) {
  static std::map<std::pair<int, ItemOrder>, std::vector<int>> made;
  std::vector<int>& turn = made[{items, order}];
  if (!turn.empty()) return turn;
  turn.resize(size_t(items));
  std::iota(turn.begin(), turn.end(), 0);
  if (order == ItemOrder::descending) std::reverse(turn.begin(), turn.end());
  if (order == ItemOrder::shuffled)
    for (uint32_t i = 1; i < turn.size(); ++i) std::swap(turn[i], turn[(i * 2654435761u >> 8) % (i + 1)]);
  return turn;
}

}  // namespace

void wait_for_group(int line) { group.wait(State::at_group, line); }
void wait_for_warp(int line) { group.wait(State::at_warp, line); }

uint32_t exchange(uint32_t value, int mask, int line) {
  Item& me = group.now();
  const int turn = me.turn, other = running.item ^ mask;
  me.turn = 1 - turn;
  me.given[turn] = value;
  wait_for_warp(line);
  return group.at(other).given[turn];
}

void run_groups(const Text& text, const Launch& launch, ItemOrder order) {
  if (const size_t i = text.misfit(launch); i != kAllFit)
    fail_internal("device emulated: kernel {}: argument {} does not fit the parameter", text.name, i);
  static std::mutex one_at_a_time;  // local memory and fibers are there once
  const std::lock_guard lock(one_at_a_time);
  const std::vector<int>& turn = turns(text.items, order);
  try {
    for (int z = 0; z < launch.groups.z; ++z)
      for (int y = 0; y < launch.groups.y; ++y)
        for (int x = 0; x < launch.groups.x; ++x) {
          running.group[0] = x, running.group[1] = y, running.group[2] = z;
          if (text.local) std::memset(text.local, 0xFF, size_t(text.local_end - text.local));  // NaN
          group.run(text, launch, turn);
        }
  } catch (...) {
    group.abandon();
    throw;
  }
}

const char* describe_running(char* buffer, size_t bytes) noexcept {
  if (const Text* const text = group.text())
    std::snprintf(buffer, bytes, "kernel %s, item %d of group (%d,%d,%d)", text->name, running.item, running.group[0],
                  running.group[1], running.group[2]);
  else
    buffer[0] = '\0';
  return buffer;
}

}  // namespace toy::gpu
