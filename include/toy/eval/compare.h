// What two models make of the same text: how their predictions differ, and what lies between their weights.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "toy/base/threads.h"
#include "toy/eval/score.h"

namespace toy {

/// A mean over the tokens of a text, with its standard error over blocks as TextScore has it.
struct MeanWithError {
  double mean = 0, error = 0;
};

/// Percentiles that Divergence has, the largest first: the maximum is 100 and the minimum 0.
inline constexpr std::array kPercentiles{100.0, 99.9, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0, 10.0, 5.0, 1.0, 0.1, 0.0};

/// How the predictions of a model q differ from those of a base p, over the tokens of a text.
struct Divergence {
  int64_t tokens = 0, bytes = 0, blocks = 0;
  bool blocks_are_documents = false;  ///< otherwise they are of kScoreBlock consecutive tokens
  MeanWithError kl;                   ///< sum_i p_i log(p_i / q_i), in nats
  MeanWithError same_top;             ///< share of tokens where both have the same likeliest one
  MeanWithError base_nats, nats;      ///< -log p and -log q of the token that came
  MeanWithError log_ratio;            ///< log p - log q of it: the logarithm of the ratio of perplexities
  MeanWithError change;               ///< q - p of it
  double rms_change = 0;              ///< root of the mean square of that
  std::array<double, kPercentiles.size()> kl_percentiles{}, change_percentiles{};  ///< over tokens
};

/// Reads the text with both models side by side, in the windows of score_text(). Divergences are f64 sums over the
/// vocabulary. `progress` gets tokens done. Throws as score_text(), and Error{bad_input} for vocabularies of two sizes.
Divergence compare_models(Device& device, const Model& base, const Model& model, const EvalText& text,
                          const ScoreOptions& options, const std::function<void(int64_t)>& progress = {});

/// The value below which a share `percent` of the sorted values lies, linear between two of them, as llama.cpp's
/// perplexity tool computes it.
double percentile(const std::vector<double>& sorted, double percent);

/// Weights between those of two models: (1 - alpha) a + alpha b, in f32.
class LineOfModels {
 public:
  /// `a` and `b` are mapped files, `between` is `a` loaded with LoadMode::trainable. Throws Error{bad_input} naming the
  /// first tensor that only one of them has or whose shape differs, or the dimension that does.
  LineOfModels(const Model& a, const Model& b, Model& between, int threads);
  /// Sets the weights of `between`. With 0 and 1 they have the bits of `a` and `b`.
  void move_to(double alpha);

 private:
  const Model &a_, &b_;
  Model& between_;
  ThreadPool team_;
};

}  // namespace toy
