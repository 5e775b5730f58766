#include "toy/eval/retrieval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "eval/json_rows.h"
#include "toy/base/error.h"
#include "toy/decode/search_index.h"

namespace toy {

MeanError RetrievalScores::recall_1() const { return part_of(right, anchors); }
MeanError RetrievalScores::recall_5() const { return part_of(among_5, anchors); }

size_t RetrievalSet::add_text(std::span<const float> text, int64_t id) {
  const auto [it, is_new] = texts_.emplace(id, texts_.size());
  if (is_new) vectors_.insert(vectors_.end(), text.begin(), text.end());
  return it->second;
}

void RetrievalSet::add_pair(std::span<const float> anchor, int64_t anchor_id, std::span<const float> positive,
                            int64_t positive_id) {
  anchor_vectors_.insert(anchor_vectors_.end(), anchor.begin(), anchor.end());
  anchors_.push_back({anchor_id, add_text(positive, positive_id)});
  right_[anchor_id].insert({anchor_id, positive_id});
}

void RetrievalSet::add_negative(std::span<const float> text, int64_t id) { add_text(text, id); }

RetrievalScores RetrievalSet::scores(double temperature) const {
  constexpr int64_t kFive = 5, kTen = 10;
  RetrievalScores r{.anchors = int64_t(anchors_.size()), .texts = int64_t(texts_.size())};
  const std::span<const float> vectors(vectors_);
  for (size_t a = 0; a < anchors_.size(); ++a) {
    const auto vector = std::span(anchor_vectors_).subspan(a * width_, width_);
    std::vector<bool> is_right(texts_.size());
    for (const int64_t id : right_.at(anchors_[a].id))
      if (const auto it = texts_.find(id); it != texts_.end()) is_right[it->second] = true;
    const auto score = [&](size_t t) {
      return inner_product(vector, vectors.subspan(t * width_, width_)) / temperature;
    };
    const double wanted = score(anchors_[a].positive);
    int64_t rank = 0;
    std::vector<double> others;  // scores less the wanted one
    for (size_t t = 0; t < texts_.size(); ++t) {
      if (is_right[t]) continue;
      const double s = score(t);
      rank += !(s < wanted);  // a vector that is not finite finds nothing
      others.push_back(s - wanted);
    }
    r.right += rank == 0, r.among_5 += rank < kFive;
    if (rank < kTen) r.reciprocal_ranks += 1 / double(rank + 1);
    const double most = others.empty() ? 0 : std::max(0.0, *std::ranges::max_element(others));
    double sum = 0;  // with exp(-most) for the wanted one, where others are above it
    for (const double d : others) sum += std::exp(d - most);
    r.nats += most > 0 ? most + std::log(std::exp(-most) + sum) : std::log1p(sum);
  }
  return r;
}

std::vector<RatedPair> read_rated_pairs(const TextFile& file) {
  constexpr std::array kScore{"score", "label", "similarity"};
  std::vector<RatedPair> pairs;
  for_each_question(file, [&](nlohmann::ordered_json row, const std::string&) {
    for (const char* name : {"sentence1", "sentence2"})
      check(row.contains(name), "there is no '{}'; a row is {{\"sentence1\": ..., \"sentence2\": ..., \"score\": ...}}",
            name);
    RatedPair p{text_of(row, "sentence1"), text_of(row, "sentence2")};
    const auto* name = std::ranges::find_if(kScore, [&](const char* n) { return row.contains(n); });
    check(name != kScore.end(), "there is no 'score'");
    const nlohmann::ordered_json& value = row.at(*name);
    check(value.is_number() || value.is_string(), "'{}' is not a number", *name);
    if (value.is_number()) {
      p.score = value.get<double>();
    } else {  // of a table
      size_t end = 0;
      const auto& text = value.get_ref<const std::string&>();
      try {
        p.score = std::stod(text, &end);
      } catch (const std::exception&) {
        end = 0;
      }
      check(end > 0 && end == text.size(), "'{}' is '{}', which is not a number", *name, text);
    }
    check(std::isfinite(p.score), "'{}' is not finite", *name);
    pairs.push_back(std::move(p));
  });
  check(pairs.size() >= 2, "{}: {} rated pairs; a correlation needs at least 2", file.path, pairs.size());
  return pairs;
}

double pearson(std::span<const double> a, std::span<const double> b) {
  check(a.size() == b.size() && a.size() >= 2, "correlation: {} and {} values; give as many, and at least 2", a.size(),
        b.size());
  const auto mean = [](std::span<const double> v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
  };
  const double ma = mean(a), mb = mean(b);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - ma) * (b[i] - mb);
    aa += (a[i] - ma) * (a[i] - ma);
    bb += (b[i] - mb) * (b[i] - mb);
  }
  check(aa > 0 && bb > 0, "correlation: all values are equal, so there is no order to compare");
  return ab / std::sqrt(aa * bb);
}

namespace {

// Ranks from 1; equal values have the mean of theirs.
std::vector<double> ranks_of(std::span<const double> v) {
  std::vector<size_t> order(v.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::sort(order, [&](size_t a, size_t b) { return v[a] < v[b]; });
  std::vector<double> ranks(v.size());
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && v[order[end]] == v[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = double(first + end + 1) / 2;
  }
  return ranks;
}

}  // namespace

double spearman(std::span<const double> a, std::span<const double> b) { return pearson(ranks_of(a), ranks_of(b)); }

}  // namespace toy
