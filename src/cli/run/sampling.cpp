#include "cli/run/sampling.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "cli/console.h"
#include "cli/help.h"
#include "cli/options.h"
#include "toy/base/error.h"

namespace toy::cli {
namespace {

// "15043+1.5", "15043-1", "15043-inf": a token id and what is added to its logit.
std::pair<int32_t, double> parse_bias(const std::string& text) {
  const size_t sign = text.find_first_of("+-");
  int32_t id = -1;
  double bias = 0;
  bool sound = sign != std::string::npos && sign > 0;
  if (sound) {
    const auto [id_end, id_error] = std::from_chars(text.data(), text.data() + sign, id);
    sound = id_error == std::errc() && id_end == text.data() + sign;
    const char* begin = text.data() + sign + (text[sign] == '+');
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), bias);
    sound = sound && error == std::errc() && end == text.data() + text.size() && !std::isnan(bias);
  }
  check(sound, "--logit-bias is '{}'; write a token id, + or -, and a number, such as 15043+1 or 15043-inf", text);
  return {id, bias};
}

}  // namespace

void SamplingOptions::add(CLI::App& app) {
  SamplerOptions& s = sampler;
  begin_group(app, "Sampling");
  add_option(app, "--temperature,--temp", s.temperature, "Sampling temperature; 0 always takes the likeliest token",
             at_least(0));
  add_option(app, "--top-k", s.top_k, "Choose among the N likeliest tokens; 0 keeps all", from_to(0, INT32_MAX));
  add_option(app, "--top-p", s.top_p, "Choose among the likeliest tokens of this total probability", above_to(0, 1));
  add_option(app, "--min-p", s.min_p, "Drop tokens below this fraction of the likeliest one's probability",
             from_to(0, 1));
  add_option(app, "--repeat-penalty", s.repeat_penalty, "Penalty factor for tokens that occurred; 1 turns it off",
             above(0));
  add_option(app, "--frequency-penalty", s.frequency_penalty,
             "Logit penalty per occurrence of a token; 0 turns it off");
  add_option(app, "--presence-penalty", s.presence_penalty, "Logit penalty for tokens that occurred; 0 turns it off");
  add_option(app, "--repeat-last-n", s.penalty_last_n,
             "Latest tokens that penalties count; -1 takes all, 0 turns penalties off", at_least(-1));
  add_option(app, "--seed", s.seed, "Seed of the random choices");
  add_more(app);
}

void SamplingOptions::add_more(CLI::App& app) {
  SamplerOptions& s = sampler;
  add_option(app, "--samplers", samplers_, "Samplers in their order, separated by ';'", not_empty());
  add_option(app, "--logit-bias", biases_, "Add to a token's logit, such as 15043+1 or 15043-inf", not_empty());
  add_option(app, "--dynatemp-range", s.dynatemp_range,
             "Vary the temperature by up to this with the entropy; 0 turns it off", at_least(0));
  add_option(app, "--dynatemp-exp", s.dynatemp_exponent, "Exponent of the dynamic temperature", above(0));
  add_option(app, "--typical", s.typical_p, "Choose among the most typical tokens of this probability", above_to(0, 1));
  add_option(app, "--top-nsigma", s.top_n_sigma, "Keep logits within N standard deviations of the largest; 0 keeps all",
             at_least(0));
  add_option(app, "--xtc-probability", s.xtc_probability, "Probability of excluding the top choices", from_to(0, 1));
  add_option(app, "--xtc-threshold", s.xtc_threshold, "Probability from which a token is a top choice", above_to(0, 1));
  add_option(app, "--dry-multiplier", s.dry_multiplier, "Penalty factor for repeated sequences; 0 turns it off",
             at_least(0));
  add_option(app, "--dry-base", s.dry_base, "Growth of that penalty per repeated token", at_least(1));
  add_option(app, "--dry-allowed-length", s.dry_allowed_length, "Repeated tokens without a penalty", at_least(0));
  add_option(app, "--dry-penalty-last-n", s.dry_penalty_last_n, "Latest tokens that are searched; -1 takes all",
             at_least(-1));
  add_text_option(app, "--dry-sequence-breaker", breakers_, "Text that ends a repetition; \"none\" for no such text");
  add_option(app, "--mirostat", mirostat_, "2 keeps the surprise of the text near --mirostat-ent; 0 turns it off")
      ->check(CLI::IsMember({0, 2}));
  add_option(app, "--mirostat-ent", s.mirostat_tau, "Mirostat's surprise per token in bits", above(0));
  add_option(app, "--mirostat-lr", s.mirostat_eta, "Mirostat's learning rate", above(0));
}

void SamplingOptions::read() {
  if (!samplers_.empty()) sampler.steps = parse_sampler_steps(samplers_);
  for (const std::string& b : biases_) sampler.logit_bias.push_back(parse_bias(b));
  sampler.mirostat = mirostat_ == 2;
}

void SamplingOptions::check_together(const CLI::App& parser) const {
  const auto given = [&](const char* option) { return parser.count(option) > 0; };
  const Sampler options_are_sound(sampler);
  std::vector<std::string> unused;  // no error: greedy runs of scripts that always give a seed are what they seem
  for (const char* of_chance :
       {"--top-k", "--top-p", "--min-p", "--seed", "--typical", "--top-nsigma", "--xtc-probability", "--mirostat"})
    if (given(of_chance) && sampler.temperature == 0 && sampler.dynatemp_range == 0) unused.push_back(of_chance);
  if (!unused.empty())
    to_stderr(
        fmt::format("toy: {} changes nothing at temperature 0, which takes the likeliest token; add e.g. "
                    "--temperature 0.8\n",
                    fmt::join(unused, ", ")));
  const SamplerOptions& s = sampler;
  if (given("--repeat-last-n") && s.repeat_penalty == 1 && s.frequency_penalty == 0 && s.presence_penalty == 0)
    to_stderr("toy: --repeat-last-n changes nothing without a penalty; add e.g. --repeat-penalty 1.1\n");
}

SamplerOptions SamplingOptions::of(const Model& model) const {
  SamplerOptions s = sampler;
  for (const auto& [id, bias] : s.logit_bias)
    check(id < model.spec.vocab, "--logit-bias: token {} is outside the vocabulary (0 to {})", id,
          model.spec.vocab - 1);
  if (s.dry_multiplier > 0 && breakers_ != std::vector<std::string>{"none"} && model.tokenizer)
    s.dry_breakers = tokens_with(*model.tokenizer, breakers_);
  return s;
}

}  // namespace toy::cli
