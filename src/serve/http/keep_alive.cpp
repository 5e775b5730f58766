#include "serve/http/keep_alive.h"

namespace toy::serve {

KeepAlive::KeepAlive(std::chrono::milliseconds silence) : silence_(silence), thread_([this] { run(); }) {}

KeepAlive::~KeepAlive() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void KeepAlive::add(const std::shared_ptr<TextJob>& job, bool opens) {
  {
    const std::scoped_lock lock(mutex_);
    streams_.push_back({job, opens});
  }
  changed_.notify_all();
}

void KeepAlive::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (streams_.empty()) {
      changed_.wait(lock, [this] { return stopped_ || !streams_.empty(); });
      continue;
    }
    changed_.wait_for(lock, silence_ / 4, [this] { return stopped_; });
    std::list<Stream> streams;  // whose locks are not taken under this one
    streams.swap(streams_);
    lock.unlock();
    streams.remove_if([this](const Stream& s) {
      try {
        const std::shared_ptr<TextJob> job = s.job.lock();
        return !job || !job->keep_alive(silence_, s.opens);
      } catch (...) {  // there is no memory for a comment
        return true;
      }
    });
    lock.lock();
    streams_.splice(streams_.end(), streams);
  }
}

}  // namespace toy::serve
