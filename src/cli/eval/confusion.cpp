#include "cli/eval/confusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/console.h"
#include "toy/base/utf8.h"

namespace toy::cli {

Confusion::Confusion(std::vector<std::string> classes) : classes_(std::move(classes)) {
  of_class_.resize(classes_.size());
  if (int64_t(classes_.size()) <= kMostClassesInTables)
    table_.assign(classes_.size(), std::vector<int64_t>(classes_.size()));
}

void Confusion::add(int64_t item, int32_t label, std::span<const float> logits) {
  const JudgedClass j = judge_class(item, label, logits);
  ++count_, nats_ += j.nats;
  keep_worst(j, worst_);
  right_ += j.right(), among_5_ += j.among_5();
  ++of_class_[size_t(label)].labelled, ++of_class_[size_t(j.chosen)].chosen;
  if (label == j.chosen) ++of_class_[size_t(label)].right;
  if (!table_.empty()) ++table_[size_t(label)][size_t(j.chosen)];
}

MeanError Confusion::part(int64_t of) const {
  const double n = double(count()), p = double(of) / n;
  return {p, std::sqrt(p * (1 - p) / n)};
}

double Confusion::mean_f1() const {
  double sum = 0;
  int64_t seen = 0;
  for (const Counts& c : of_class_) {
    if (c.labelled + c.chosen == 0) continue;
    sum += 2 * double(c.right) / double(c.labelled + c.chosen), ++seen;
  }
  return seen == 0 ? 0 : sum / double(seen);
}

void Confusion::print(const char* heading) const {
  constexpr size_t kShownClasses = 20;
  if (classes_.size() > kShownClasses) return;
  size_t width = 6;
  for (const std::string& name : classes_) width = std::max(width, std::min<size_t>(14, name.size()));
  fmt::print("\n{}\n{:{}}", heading, "", width);
  for (const std::string& name : classes_) fmt::print(" {:>5.5}", one_line(name));
  fmt::print("\n");
  for (size_t k = 0; k < classes_.size(); ++k) {
    fmt::print("{:{}.14}", one_line(classes_[k]), width);
    for (const int64_t n : table_[k]) fmt::print(" {:>5}", n);
    fmt::print("\n");
  }
}

}  // namespace toy::cli
