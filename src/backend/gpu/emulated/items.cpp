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

constexpr size_t kWarp = 32;
enum class State { ready, at_group, at_warp, done };
struct Item {
  State state = State::done;
  int line = 0;
  Fiber* fiber = nullptr;
  uint32_t given[2] = {};  // to the warp, by turns: some lanes read the last value when others give the next
  int turn = 0;
};

/// The items of a group in an order, the same for all of its groups.
struct Order {
  std::vector<int> items;
  /// So many take turns until none can go on, then the next ones: a warp, whose stacks fit a cache, or all.
  size_t together;
};

// One group at a time. Fibers take items that have not begun, so kernels without barriers need only one.
class Group {
 public:
  void run(const Text& text, const Launch& launch, const Order& order) {
    text_ = &text, launch_ = &launch, order_ = &order, begun_ = 0, running_ = order.items.size();
    items_.assign(order.items.size(), {});
    at_ = end_ = 0;  // an item that waits gives back to this loop
    while (begun_ < order.items.size()) free_fiber().resume();
    while (running_ > 0) {
      bool ran = false;
      for (size_t first = 0; first < items_.size(); first += order.together)
        for (;;) {
          release_warps(first, first + order.together);
          at_ = first, end_ = first + order.together;
          Fiber* const next = next_ready();
          if (!next) break;
          ran = true;
          next->resume();
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
    if (Fiber* const next = next_ready())
      me.fiber->give_way(*next);
    else
      me.fiber->suspend();
  }
  const Text* text() const { return text_; }
  // Their items never end: they are not continued.
  void abandon() { fibers_.clear(), free_.clear(), text_ = nullptr; }

 private:
  Fiber& free_fiber();
  static void body();

  // The next item that can go on, which is the running one from now on; null after the last of those that take turns.
  Fiber* next_ready() {
    while (at_ < end_)
      if (const int i = order_->items[at_++]; items_[size_t(i)].state == State::ready) {
        running.item = i;
        return items_[size_t(i)].fiber;
      }
    return nullptr;
  }
  // Of these places of the order, warps whose lanes have all come to one line.
  void release_warps(size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += kWarp) {
      const auto warp =
          items_.begin() + int64_t(order_->together == kWarp ? size_t(order_->items[at]) / kWarp * kWarp : at);
      const auto there = [&](const Item& i) { return i.state == State::at_warp && i.line == warp->line; };
      if (std::all_of(warp, warp + kWarp, there))
        for (size_t i = 0; i < kWarp; ++i) warp[int64_t(i)].state = State::ready;
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
  const Order* order_ = nullptr;
  size_t begun_ = 0, running_ = 0;  // items
  size_t at_ = 0, end_ = 0;         // places of the order that take turns: the next, and behind the last
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
      const int i = group.order_->items[group.begun_++];
      running.item = i;
      group.items_[size_t(i)].fiber = me;
      group.text_->call(*group.launch_);
      group.now().state = State::done;
      --group.running_;
    }
    group.free_.push_back(me);
    if (Fiber* const next = group.next_ready())
      me->give_way(*next);
    else
      me->suspend();
  }
}

const Order& order_of(int items, ItemOrder order) {
  static std::map<std::pair<int, ItemOrder>, Order> made;
  Order& o = made[{items, order}];
  if (!o.items.empty()) return o;
  o.together = order == ItemOrder::shuffled ? size_t(items) : kWarp;
  o.items.resize(size_t(items));
  std::iota(o.items.begin(), o.items.end(), 0);
  if (order == ItemOrder::descending) std::reverse(o.items.begin(), o.items.end());
  if (order == ItemOrder::shuffled)
    for (uint32_t i = 1; i < o.items.size(); ++i) std::swap(o.items[i], o.items[(i * 2654435761u >> 8) % (i + 1)]);
  return o;
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
  if (text.items % int(kWarp) != 0)
    fail_internal("device emulated: kernel {}: {} items, and not a multiple of {}", text.name, text.items, kWarp);
  static std::mutex one_at_a_time;  // local memory and fibers are there once
  const std::lock_guard lock(one_at_a_time);
  const Order& turns = order_of(text.items, order);
  try {
    for (int z = 0; z < launch.groups.z; ++z)
      for (int y = 0; y < launch.groups.y; ++y)
        for (int x = 0; x < launch.groups.x; ++x) {
          running.group[0] = x, running.group[1] = y, running.group[2] = z;
          if (text.local) std::memset(text.local, 0xFF, size_t(text.local_end - text.local));  // NaN
          group.run(text, launch, turns);
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
