// How much of a prompt a call reads while other texts are being written.
#pragma once

#include <algorithm>
#include <cstddef>

namespace toy {

/// Rows of prompts with which a call takes about as long as wanted. Learns from the calls before; starts small.
class PieceSize {
 public:
  /// No fewer, however long a call takes.
  static constexpr size_t kLeast = 8;

  /// `seconds`: of a call. `most`: rows.
  PieceSize(double seconds, size_t most) : seconds_(seconds), most_(std::max(most, kLeast)) {}
  size_t rows() const { return rows_; }
  /// A call with so many rows of prompts, and perhaps others, has taken so long. Where it was too long, the next one is
  /// as much smaller. Where it was short, the next one is larger, at most twice as large.
  void learn(size_t rows, double seconds) {
    if (rows == 0 || !(seconds > 0)) return;
    const double fitting = std::min(double(rows) * (seconds_ / seconds), double(most_));
    if (seconds > seconds_)
      rows_ = std::clamp(size_t(fitting), kLeast, rows_);
    else
      rows_ = std::min({std::max(size_t(fitting), rows_), 2 * rows_, most_});
  }

 private:
  double seconds_;
  size_t most_, rows_ = 4 * kLeast;
};

}  // namespace toy
