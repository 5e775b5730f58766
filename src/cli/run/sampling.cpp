#include "cli/run/sampling.h"

#include <fmt/format.h>

#include <algorithm>
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

bool is_given(const CLI::App& parser, const Option& option) {
  const CLI::Option* o = option.group.empty() ? nullptr : parser.get_option_no_throw(option.flag());
  return o && o->count() > 0;
}

}  // namespace

void SamplingOptions::add(CLI::App& app) {
  add_listed(app, sampler);
  app.get_option("--seed")->default_str("a new one each time");
  add_option(app, "--samplers", samplers_,
             "Steps in their order, separated by ';', such as 'top_k(40);temperature;xtc(probability=0.5)'; "
             "toy help sampling.md has the settings",
             not_empty());
  add_option(app, "--logit-bias", biases_, "Add to a token's logit, such as 15043+1 or 15043-inf", not_empty());
  add_text_option(app, "--dry-sequence-breaker", breakers_,
                  "Text that ends a repetition for dry; \"none\" for no such text");
}

bool SamplingOptions::is_listed(const Option& option) const {
  return std::find(listed_.begin(), listed_.end(), option.name) != listed_.end();
}

void SamplingOptions::read(const CLI::App& parser) {
  if (!samplers_.empty()) listed_ = set_sampler_chain(sampler, samplers_, "--samplers");
  given_ = listed_;
  SamplerOptions::fields(sampler, [&](const Option& option, const auto&) {
    if (!is_given(parser, option)) return;
    check(!is_listed(option), "{} and the brackets of --samplers set the same; remove one of them", option.flag());
    given_.push_back(option.name);
  });
  turn_off_left_out(sampler, given_);
  if (parser.count("--seed") == 0) sampler.seed = new_seed();
  for (const std::string& b : biases_) sampler.logit_bias.push_back(parse_bias(b));
}

void SamplingOptions::check_together(const CLI::App& parser) const {
  const SamplerOptions& s = sampler;
  const Sampler options_are_sound(s);
  std::vector<std::string> unused;  // no error: greedy runs of scripts that always give a seed are what they seem
  SamplerOptions::fields(s, [&](const Option& option, const auto&) {
    if (option.of == "penalties" || option.of == "dry" || option.of == "temperature") return;
    if (is_given(parser, option)) unused.push_back(option.flag());
    if (is_listed(option)) unused.emplace_back(option.name);
  });
  if (!unused.empty() && s.temperature == 0 && s.dynatemp_range == 0)
    to_stderr(
        fmt::format("toy: {} {} nothing at temperature 0, which takes the likeliest token; add e.g. "
                    "--temperature 0.8\n",
                    fmt::join(unused, ", "), unused.size() == 1 ? "changes" : "change"));
  if (s.temperature > kHottestTemperature)
    to_stderr(fmt::format("toy: --temperature {:g} draws all tokens about equally; 0 to 2 is usual\n", s.temperature));
  if (parser.count("--repeat-last-n") && s.repeat_penalty == 1 && s.frequency_penalty == 0 && s.presence_penalty == 0)
    to_stderr("toy: --repeat-last-n changes nothing without a penalty; add e.g. --repeat-penalty 1.1\n");
}

SamplerOptions SamplingOptions::of(const Model& model) const {
  SamplerOptions s = with_usual(sampler, usual_sampling(model.metadata), given_);
  for (const auto& [id, bias] : s.logit_bias)
    check(id < model.spec.vocab, "--logit-bias: token {} is outside the vocabulary (0 to {})", id,
          model.spec.vocab - 1);
  if (s.dry_multiplier > 0 && breakers_ != std::vector<std::string>{"none"} && model.tokenizer)
    s.dry_breakers = tokens_with(*model.tokenizer, breakers_);
  return s;
}

std::string SamplingOptions::chosen(const Model& model) const {
  const SamplerOptions s = of(model);
  const bool draws = s.temperature != 0 || s.dynatemp_range != 0;
  std::vector<std::string_view> given = given_;
  if (!draws) given.push_back("temperature");
  std::string text = usual_sampling(model.metadata).text(given);
  if (draws && std::find(given.begin(), given.end(), "seed") == given.end())
    text += fmt::format("{}seed {}", text.empty() ? "" : ", ", s.seed);
  return text;
}

}  // namespace toy::cli
