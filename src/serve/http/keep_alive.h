// Streams that say nothing for long: proxies and clients would take them for dead.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "serve/text_job.h"

namespace toy::serve {

/// Sends a comment in each stream that was silent for some time, such as while a long prompt is read.
class KeepAlive {
 public:
  explicit KeepAlive(std::chrono::milliseconds silence);
  ~KeepAlive();
  KeepAlive(const KeepAlive&) = delete;
  KeepAlive& operator=(const KeepAlive&) = delete;
  /// `opens`: as TextJob::keep_alive()'s. Any thread may call it.
  void add(const std::shared_ptr<TextJob>& job, bool opens);

 private:
  struct Stream {
    std::weak_ptr<TextJob> job;
    bool opens;
  };
  void run();

  const std::chrono::milliseconds silence_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Stream> streams_;
  bool stopped_ = false;
  std::thread thread_;  // the last one: it uses the others
};

}  // namespace toy::serve
