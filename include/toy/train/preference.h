// Losses of preference training, from the log probabilities of answers. docs/preferences.md has the formulas.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/base/options.h"

namespace toy::runs {
struct Rewards;
}

namespace toy {

/// dpo: Rafailov et al. 2023; ipo: Azar et al. 2023; kto: Ethayarajh et al. 2024; orpo: Hong et al. 2024.
enum class PreferenceLoss { dpo, ipo, kto, orpo };
/// Their names.
template <>
struct NamesOf<PreferenceLoss> {
  static constexpr std::array list = {std::pair("dpo", PreferenceLoss::dpo), std::pair("ipo", PreferenceLoss::ipo),
                                      std::pair("kto", PreferenceLoss::kto), std::pair("orpo", PreferenceLoss::orpo)};
};
constexpr std::string_view name_of(PreferenceLoss loss) { return name_in_list(loss); }  ///< the name above
/// Does it compare the two answers of a pair? Else it takes answers one by one.
bool takes_pairs(PreferenceLoss loss);
/// Does it compare with the model as it was? With an adapter that is the model without it.
bool has_reference(PreferenceLoss loss);

/// How answers are compared.
struct PreferenceOptions {
  PreferenceLoss loss = PreferenceLoss::dpo;
  double beta = 0.1;  ///< of rewards; of orpo the weight of the odds ratio
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Preferences";
    f({"loss", "dpo, ipo, orpo, or kto, which also takes single answers with a label", {}, k}, o.loss);
    f({"beta", "Factor of rewards; of orpo the weight of the odds ratio", above(0), k}, o.beta);
  }
};

/// An answer: log probabilities in nats, summed over its tokens, under the model and the reference.
struct ScoredAnswer {
  double policy = 0, reference = 0;
  int64_t tokens = 0;
  bool chosen = true;
  double text = 0;  ///< of the prompt and the answer under the model; for orpo
  int64_t text_tokens = 0;
};

/// Sums over answers, from which means follow: those of several batches can be added.
struct PreferenceSums {
  double loss = 0, chosen = 0, rejected = 0;
  int64_t terms = 0;        ///< of `loss`: pairs, or answers of kto
  double text_nats = 0;     ///< of orpo: -log p of the chosen texts, a loss of its own,
  int64_t text_tokens = 0;  ///< and its terms
  int64_t n_chosen = 0, n_rejected = 0;
  int64_t pairs = 0, right = 0;  ///< pairs, and those whose chosen answer has the larger reward
  /// Adds the sums over other answers.
  void add(const PreferenceSums& more);
  double mean_loss() const {
    return (terms > 0 ? loss / double(terms) : 0) + (text_tokens > 0 ? text_nats / double(text_tokens) : 0);
  }
  runs::Rewards rewards() const;  ///< see toy/runs/event.h
};

/// The mean loss over some answers and its gradient.
struct PreferenceResult {
  PreferenceSums sums;
  /// d mean loss / d (-log p) of each token of an answer. What a training step multiplies its cross-entropy with.
  std::vector<double> slopes;
  double text_slope = 0;  ///< what is added for each token of a chosen answer and of its prompt; of orpo
};
/// Computed in f64. Of pairs answers 2 k and 2 k + 1 are the chosen and the rejected one. `kl`: of kto, an estimate of
/// the divergence from the reference that answers are compared with; no gradient flows through it.
PreferenceResult preference_loss(const PreferenceOptions& options, std::span<const ScoredAnswer> answers,
                                 double kl = 0);

}  // namespace toy
