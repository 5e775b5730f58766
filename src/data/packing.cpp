#include "toy/data/packing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "data/permute.h"
#include "toy/base/error.h"

namespace toy {

// Documents are cut, examples lose their end.
std::vector<PackedRows::Part> PackedRows::parts_of(std::span<const uint64_t> begins, uint64_t end,
                                                   const Answers& answers) {
  const int64_t together = answers.pairs ? 2 : 1;
  const auto length = [&](size_t i) { return int64_t((i + 1 < begins.size() ? begins[i + 1] : end) - begins[i]); };
  std::vector<Part> parts;
  for (size_t i = 0; i < begins.size(); i += size_t(together)) {
    if (trained_.empty()) {
      if (length(i) < 2) ++passed_over_;
      if (length(i) > tokens_ + 1) ++cut_;
      for (int64_t at = 0; at + 1 < length(i); at += tokens_)
        parts.push_back({begins[i] + uint64_t(at), int32_t(std::min(tokens_, length(i) - 1 - at))});
      continue;
    }
    int64_t counted = 0, least = INT64_MAX;
    std::vector<Part> one;
    for (size_t k = i; k < i + size_t(together); ++k) {
      const int64_t other = together == 2 ? length(k == i ? i + 1 : i) - 1 : 0;
      const int64_t room = std::max((tokens_ + together - 1 - int64_t(k - i)) / together, tokens_ - other);
      const int64_t inputs = std::min(length(k) - 1, room);
      cut_ += length(k) - 1 > room;
      const std::span<const uint8_t> targets = trained_.subspan(begins[k] + 1, size_t(inputs));
      const int64_t count = std::count(targets.begin(), targets.end(), 1);
      counted += count, least = std::min(least, count);
      const bool is_answer = !answers.chosen.empty();
      one.push_back(
          {begins[k], int32_t(inputs), is_answer && answers.chosen[k], is_answer ? answers.first_id + int64_t(k) : -1});
    }
    if (least == 0) {
      passed_over_ += together;
      continue;
    }
    counted_ += counted;
    parts.insert(parts.end(), one.begin(), one.end());
  }
  return parts;
}

PackedRows::PackedRows(TokenView ids, std::span<const uint64_t> begins, uint64_t end, int64_t tokens, uint64_t seed,
                       std::span<const uint8_t> trained, const Answers& answers)
    : ids_(ids), trained_(trained), tokens_(tokens), seed_(seed) {
  check(tokens >= 1, "packed rows of {} tokens; give 1 or more", tokens);
  check(!answers.pairs || begins.size() % 2 == 0, "packed rows: {} answers are no pairs", begins.size());
  const std::vector<Part> parts = parts_of(begins, end, answers);
  check(!parts.empty() || trained.empty(),
        "data: of {} examples none has a target that counts within {} tokens; use a larger --tokens", begins.size(),
        tokens);
  check(!parts.empty(), "pack: of {} documents none has two tokens, so there is nothing to learn", begins.size());
  for (const Part& p : parts) targets_ += p.inputs;
  if (trained.empty()) counted_ = targets_;

  // What goes into a row together.
  const size_t together = answers.pairs ? 2 : 1, units = parts.size() / together;
  const auto inputs = [&](size_t unit) {
    int64_t n = 0;
    for (size_t k = 0; k < together; ++k) n += parts[unit * together + k].inputs;
    return n;
  };
  std::vector<size_t> order(units);
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return inputs(a) > inputs(b); });
  std::vector<std::vector<int64_t>> rows_with(static_cast<size_t>(tokens));  // by the number of free places
  std::set<int64_t> free;                                                    // the numbers that have rows
  std::vector<int64_t> row_of(units);
  int64_t rows = 0;
  for (const size_t i : order) {
    const int64_t need = inputs(i);
    int64_t row = rows, left = tokens - need;
    if (const auto best = free.lower_bound(need); best != free.end()) {
      std::vector<int64_t>& list = rows_with[size_t(*best)];
      row = list.back();
      left = *best - need;
      list.pop_back();
      if (list.empty()) free.erase(best);
    } else {
      ++rows;
    }
    row_of[i] = row;
    if (left > 0) {
      if (rows_with[size_t(left)].empty()) free.insert(left);
      rows_with[size_t(left)].push_back(row);
    }
  }
  row_begins_.assign(size_t(rows) + 1, 0);
  for (const int64_t row : row_of) row_begins_[size_t(row) + 1] += int64_t(together);
  std::partial_sum(row_begins_.begin(), row_begins_.end(), row_begins_.begin());
  parts_.resize(parts.size());
  std::vector<int64_t> next(row_begins_.begin(), row_begins_.end() - 1);
  for (size_t i = 0; i < parts.size(); ++i) parts_[size_t(next[size_t(row_of[i / together])]++)] = parts[i];
}

void PackedRows::each_counted(const std::function<void(int64_t place)>& f) const {
  for (const Part& part : parts_) {
    if (part.id >= 0 && !part.chosen) continue;
    for (int64_t i = int64_t(part.begin) + 1; i <= int64_t(part.begin) + part.inputs; ++i)
      if (trained_.empty() || trained_[size_t(i)]) f(i);
  }
}

void PackedRows::add_row(int64_t row, int64_t sequence, Windows& out) const {
  const size_t end = out.inputs.size() + size_t(tokens_);
  for (int64_t p = row_begins_[size_t(row)]; p < row_begins_[size_t(row) + 1]; ++p, ++sequence) {
    const Part& part = parts_[size_t(p)];
    if (part.id >= 0) out.answers.push_back({int64_t(out.inputs.size()), part.inputs, part.chosen, part.id});
    ids_.copy(int64_t(part.begin), part.inputs, out.inputs);
    ids_.copy(int64_t(part.begin) + 1, part.inputs, out.targets);
    if (!trained_.empty()) {
      const auto first = trained_.begin() + int64_t(part.begin) + 1;
      out.trained.insert(out.trained.end(), first, first + part.inputs);
    }
    for (int32_t t = 0; t < part.inputs; ++t) {
      out.sequence.push_back(int32_t(sequence));
      out.position.push_back(t);
    }
  }
  // Padding: a sequence of its own in every row.
  for (int32_t t = 0; out.inputs.size() < end; ++t) {
    out.inputs.push_back(0);
    out.targets.push_back(0);
    out.sequence.push_back(int32_t(-1 - sequence));
    out.position.push_back(t);
  }
  if (!trained_.empty()) out.trained.resize(end, 0);
}

Windows PackedRows::rows(int64_t first, int64_t count) const {
  Windows out;
  for (int64_t i = 0; i < count; ++i) add_row(first + i, i * tokens_, out);
  return out;
}

int64_t PackedRows::rows_for(int64_t max_tokens) const {
  const int64_t tokens = max_tokens > 0 ? std::min(max_tokens, counted_) : counted_;
  return int64_t(std::ceil(double(tokens) * double(rows()) / double(counted_)));
}

Windows PackedRows::validation(int64_t first, int64_t count, int64_t max_tokens) const {
  const int64_t n = std::max<int64_t>(0, std::min(count, rows() - first));
  return max_tokens == 0 ? rows(first, n) : windows(first, n);
}

Windows PackedRows::windows(int64_t first, int64_t count) const {
  check(first >= 0, "packed rows: row {}; rows are counted from 0", first);
  const uint64_t key = hash_name("packed order") ^ seed_, n = uint64_t(rows());
  Windows out;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t row = uint64_t(first + i);
    add_row(int64_t(permute(row % n, n, key, row / n)), i * tokens_, out);
  }
  return out;
}

}  // namespace toy
