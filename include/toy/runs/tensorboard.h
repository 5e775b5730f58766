// Event files that TensorBoard reads: scalars of steps, evaluations, taps, gradients and drift.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "toy/runs/event.h"

namespace toy::runs {

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of some bytes.
uint32_t crc32c(std::string_view bytes);
/// A record of a TFRecord file: length, masked CRC of the length, bytes, masked CRC of the bytes.
std::string tfrecord(std::string_view bytes);

/// Writes `events.out.tfevents.<seconds>.<host>.<process>` into a folder. Every event is written at once.
class TensorBoardWriter final : public EventSink {
 public:
  /// Makes the folder and the file; `wall_time` is the start in seconds since 1970. Throws Error{bad_input} where it
  /// cannot.
  TensorBoardWriter(const std::string& folder, double wall_time);

  void write(const Event& event) override;
  const std::string& path() const { return path_; }

 private:
  void append(std::string_view record);
  std::string path_;
  double wall_time_;
  std::ofstream file_;
};

}  // namespace toy::runs
