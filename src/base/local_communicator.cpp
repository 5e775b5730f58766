// Ranks that are threads of one process.
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

#include "toy/base/communicator.h"
#include "toy/base/error.h"

namespace toy {
namespace {

using Bytes = std::vector<std::byte>;

// What the ranks share: a queue for each pair of them.
struct Mail {
  explicit Mail(int n) : size(n), queues(size_t(n) * size_t(n)) {}
  std::deque<Bytes>& queue(int from, int to) { return queues[size_t(from) * size_t(size) + size_t(to)]; }
  int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<Bytes>> queues;
  bool aborted = false;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Mail> mail, int rank) : mail_(std::move(mail)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return mail_->size; }
  std::string host(int) const override { return "here"; }
  int local_rank() const override { return rank_; }
  int local_size() const override { return mail_->size; }
  bool any_thread() const override { return true; }

  void send(int to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mail_->mutex);
    require_all();
    mail_->queue(rank_, to).emplace_back(bytes.begin(), bytes.end());
    mail_->changed.notify_all();
  }

  Bytes receive(int from) override { return next(from, rank_ == 0); }
  void give_up_after(double seconds) override { timeout_ = seconds; }

  void broadcast(int root, std::span<std::byte> bytes) override {
    if (rank_ != root) return take(root, bytes);
    for (int r = 0; r < size(); ++r)
      if (r != root) send(r, bytes);
  }

  void exchange(std::span<const std::byte> mine, std::span<const size_t> bounds,
                std::span<std::byte* const> parts) override {
    for (int r = 0; r < size(); ++r)
      if (r != rank_) send(r, chunk(mine, bounds, r));
    for (int r = 0; r < size(); ++r)
      if (r != rank_) take(r, {parts[size_t(r)], chunk(mine, bounds, rank_).size()});
  }

  void all_gather(std::span<std::byte> all, std::span<const size_t> bounds) override {
    for (int r = 0; r < size(); ++r)
      if (r != rank_) send(r, chunk<std::byte>(all, bounds, rank_));
    for (int r = 0; r < size(); ++r)
      if (r != rank_) take(r, chunk<std::byte>(all, bounds, r));
  }

  void abort(int) override {
    const std::lock_guard lock(mail_->mutex);
    mail_->aborted = true;
    mail_->changed.notify_all();
  }

 private:
  template <class Byte>
  static std::span<Byte> chunk(std::span<Byte> all, std::span<const size_t> bounds, int rank) {
    return all.subspan(bounds[size_t(rank)], bounds[size_t(rank) + 1] - bounds[size_t(rank)]);
  }
  Bytes next(int from, bool in_time) {
    std::unique_lock lock(mail_->mutex);
    std::deque<Bytes>& queue = mail_->queue(from, rank_);
    const auto there = [&] { return !queue.empty() || mail_->aborted; };
    if (!in_time) {
      mail_->changed.wait(lock, there);
    } else if (!mail_->changed.wait_for(lock, std::chrono::duration<double>(timeout_), there)) {
      mail_->aborted = true;
      mail_->changed.notify_all();
      fail_lost(std::array{from}, timeout_);
    }
    require_all();
    Bytes bytes = std::move(queue.front());
    queue.pop_front();
    return bytes;
  }
  void require_all() const {
    if (mail_->aborted) fail_internal("ranks: another rank has ended the work");
  }
  void take(int from, std::span<std::byte> to) {
    const Bytes bytes = next(from, true);
    if (bytes.size() != to.size())
      fail_internal("ranks: rank {} sent {} bytes, rank {} expects {}", from, bytes.size(), rank_, to.size());
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  }
  std::shared_ptr<Mail> mail_;
  int rank_;
  double timeout_ = kRankTimeout;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> local_communicators(int size) {
  const auto mail = std::make_shared<Mail>(size);
  std::vector<std::unique_ptr<Communicator>> all;
  for (int r = 0; r < size; ++r) all.push_back(std::make_unique<LocalCommunicator>(mail, r));
  return all;
}

}  // namespace toy
