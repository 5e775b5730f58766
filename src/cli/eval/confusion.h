// What a classifier gets right, and which classes it takes for which.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/eval/eval.h"
#include "toy/image/class_scores.h"

namespace toy::cli {

/// Collects what a classifier says of items whose classes are known.
class Confusion {
 public:
  explicit Confusion(std::vector<std::string> classes);
  /// An item with this label, whose classes have these logits.
  void add(int64_t item, int32_t label, std::span<const float> logits);

  const std::vector<std::string>& classes() const { return classes_; }
  int64_t count() const { return count_; }
  int64_t right() const { return right_; }
  MeanError top1() const { return part(right_); }          ///< the part whose class is the likeliest
  MeanError top5() const { return part(among_5_); }        ///< or among the 5 likeliest
  double nats() const { return nats_ / double(count()); }  ///< mean loss
  /// The mean over classes, with a label or chosen, of the harmonic mean of precision and recall.
  double mean_f1() const;
  /// [class][chosen class]; empty where there are too many classes for a table.
  const std::vector<std::vector<int64_t>>& table() const { return table_; }
  /// The items with the largest losses, the largest first.
  const std::vector<JudgedClass>& worst() const { return worst_; }
  /// The table after a line that says what it is; nothing where it is too wide for a terminal.
  void print(const char* heading) const;

 private:
  MeanError part(int64_t of) const;
  std::vector<std::string> classes_;
  struct Counts {
    int64_t labelled = 0, chosen = 0, right = 0;
  };
  std::vector<Counts> of_class_;
  std::vector<std::vector<int64_t>> table_;
  std::vector<JudgedClass> worst_;
  int64_t count_ = 0, right_ = 0, among_5_ = 0;
  double nats_ = 0;
};

}  // namespace toy::cli
