#include "bind/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bind/chat_run.h"
#include "bind/json_options.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/decode/repack.h"

namespace toy::bind {
namespace {

using nlohmann::ordered_json;

void put(ordered_json& j, const std::string& name, const MeanError& m) {
  j[name] = m.mean;
  if (std::isfinite(m.error)) j[name + "_error"] = m.error;
}

// What is asked, without the conversation before it.
std::string last_words(const OpenQuestion& q) {
  if (!q.messages.is_array() || q.messages.empty()) return q.prompt;
  const ordered_json& content = q.messages.back()["content"];
  return content.is_string() ? content.get<std::string>() : json_text(content);
}

TextFile only_file(const std::string& file) {
  const std::vector<std::string> paths{file};
  return list_text_files(paths).files.at(0);
}

template <class Question>
void keep_first(std::vector<Question>& questions, int64_t limit) {
  if (limit > 0) questions.resize(std::min(questions.size(), size_t(limit)));
}

// One turn is enough for both.
void require_one_device(const BoundModel& a, const BoundModel& b) {
  check(&a.device() == &b.device(),
        "the models are on different devices; load both with the same device and the same threads");
}

bool repacks(const Model& model, bool exact, int64_t generated, int64_t scored) {
  return !exact && repack_pays(model, generated, scored);
}

}  // namespace

std::string evaluate_choices(const BoundModel& model, const std::string& file, std::string_view json,
                             const Between& between) {
  auto o = read_options<ChoicesCallOptions>("choices", json);
  std::vector<Question> questions = read_questions(only_file(file));
  keep_first(questions, o.limit);
  model.tokenizer();
  model.model().spec.require_positions(o.choices.context, "context");
  o.choices.repack = repacks(model.model(), o.choices.exact, 0, 100 * int64_t(questions.size()));
  const Turn turn(model.device());
  return json_text(choices_fields(score_choices(model.device().device(), model.model(), questions, o.choices,
                                                [&](const Question&, const AnsweredQuestion&) { between(); })));
}

std::string evaluate_answers(const BoundModel& model, const std::string& file, std::string_view json,
                             const Between& between) {
  auto o = read_options<AnswersCallOptions>("answers", json);
  const Model& m = model.model();
  std::vector<OpenQuestion> questions = read_open_questions(only_file(file));
  keep_first(questions, o.limit);
  const StopFilter stops_are_sound(o.open.stops);
  model.tokenizer();
  const std::optional<ChatTemplate> chat = chat_template_of(m, model.path(), o.chat_template);
  m.spec.require_positions(o.open.context, "context");
  o.open.generate.max_tokens = o.max_tokens > 0 ? o.max_tokens : usual_answer_tokens(m, o.open.context);
  o.open.repack = repacks(m, o.open.exact, o.open.generate.max_tokens * int64_t(questions.size()), 0);
  const Turn turn(model.device());
  const OpenScore s = score_open_questions(model.device().device(), m, chat, questions, o.open,
                                           [&](size_t, const OpenAnswer&) { between(); });
  return json_text(answers_fields(questions, s, o.open, o.rows));
}

std::string evaluate_kl(const BoundModel& base, const BoundModel& model, const std::string& text, std::string_view json,
                        const Between& between) {
  auto o = read_options<ScoreTextOptions>("kl", json);
  require_one_device(base, model);
  require_same_vocabulary(base.model(), model.model());
  model.model().spec.require_positions(o.score.context, "context");
  const EvalText ids = base.text_to_score(text, o);
  ScoreOptions of_base = o.score;
  of_base.repack = repacks(base.model(), o.score.exact, 0, predicted_tokens(ids));
  o.score.repack = repacks(model.model(), o.score.exact, 0, predicted_tokens(ids));
  const Turn turn(base.device());
  return json_text(divergence_fields(compare_models(
      base.device().device(), base.model(), model.model(), ids, o.score, [&](const DivergenceOfToken&) { between(); },
      of_base)));
}

std::string evaluate_lmc(const BoundModel& a, const BoundModel& b, const std::string& text,
                         std::span<const double> alphas, std::string_view json, const Between& between) {
  const auto o = read_options<ScoreTextOptions>("lmc", json);
  check(!alphas.empty() && std::ranges::all_of(alphas, [](double x) { return std::isfinite(x); }),
        "alphas are finite numbers, such as 0, 0.5 and 1");
  check(a.model().spec.adapters.empty() && b.model().spec.adapters.empty(),
        "a model has adapters, and the line goes through the weights of files; merge them first");
  require_one_device(a, b);
  require_same_shape(a.model().spec, b.model().spec);
  require_same_vocabulary(a.model(), b.model());
  const EvalText ids = a.text_to_score(text, o);
  const Turn turn(a.device());
  Model mixed = load_model(a.path(), a.device().device(), LoadMode::trainable);
  std::vector<TextScore> scores;
  for (const double alpha : alphas) {
    interpolate(a.model(), b.model(), alpha, mixed);
    scores.push_back(score_text(a.device().device(), mixed, ids, o.score, [&](const TokenScore&) { between(); }));
  }
  return json_text(line_fields(alphas, scores));
}

ordered_json choices_fields(const ChoicesScore& s) {
  ordered_json j{{"questions", s.questions}};
  put(j, "accuracy", s.accuracy);
  put(j, "accuracy_normalized", s.accuracy_normalized);
  j["cut"] = s.cut;
  return j;
}

ordered_json answers_fields(const std::vector<OpenQuestion>& questions, const OpenScore& s, const OpenOptions& options,
                            bool rows) {
  ordered_json j{{"questions", questions.size()}};
  put(j, "accuracy", s.accuracy);
  j["cut"] = s.cut;
  j["unfinished"] = s.unfinished;
  for (const auto& [kind, k] : s.kinds) {
    j["kinds"][kind] = {{"questions", k.questions}};
    put(j["kinds"][kind], "accuracy", k.accuracy);
  }
  j["temperature"] = options.generate.sampler.temperature;
  j["match"] = {{"ignore_case", options.match.ignore_case}, {"ignore_punctuation", options.match.ignore_punctuation}};
  for (size_t i = 0; rows && i < questions.size(); ++i) {
    const OpenAnswer& a = s.answers[i];
    j["rows"].push_back({{"where", questions[i].where},
                         {"kind", questions[i].kind},
                         {"question", last_words(questions[i])},
                         {"text", a.text},
                         {"answers", questions[i].answers},
                         {"right", a.right},
                         {"finished", a.finished},
                         {"tokens", a.tokens},
                         {"cut", a.cut}});
  }
  return j;
}

ordered_json divergence_fields(const Divergence& d) {
  ordered_json j{{"tokens", d.tokens}, {"equal", d.quantiles.back() == 0}};
  put(j, "kl", d.kl);
  for (size_t i = 0; i < kDivergenceQuantiles.size(); ++i)
    j["kl_quantiles"][fmt::format("{}", kDivergenceQuantiles[i])] = d.quantiles[i];
  put(j, "same_top", d.same_top);
  put(j, "base_nats_per_token", d.base);
  put(j, "model_nats_per_token", d.model);
  put(j, "difference", d.difference);
  j["perplexity_ratio"] = d.perplexity_ratio();
  put(j, "probability_difference", d.probability);
  j["probability_difference_rms"] = d.probability_rms;
  j["error_over"] = blocks_name(d.blocks_are_documents), j["error_blocks"] = d.blocks;
  return j;
}

ordered_json line_fields(std::span<const double> alphas, std::span<const TextScore> scores) {
  ordered_json j{{"points", ordered_json::array()}};
  for (size_t i = 0; i < alphas.size(); ++i) {
    ordered_json point{{"alpha", alphas[i]}};
    put(point, "nats_per_token", {scores[i].nats_per_token(), scores[i].standard_error});
    point["perplexity"] = scores[i].perplexity();
    j["points"].push_back(point);
  }
  if (const std::optional<double> most = barrier_of(alphas, scores)) j["barrier"] = *most;
  return j;
}

std::optional<double> barrier_of(std::span<const double> alphas, std::span<const TextScore> scores) {
  const auto at = [&](double alpha) -> const TextScore* {
    const auto i = std::find(alphas.begin(), alphas.end(), alpha);
    return i == alphas.end() ? nullptr : &scores[size_t(i - alphas.begin())];
  };
  if (!at(0) || !at(1)) return {};
  double most = 0;
  for (size_t i = 0; i < alphas.size(); ++i)
    if (alphas[i] > 0 && alphas[i] < 1)
      most = std::max(most, scores[i].nats_per_token() - (1 - alphas[i]) * at(0)->nats_per_token() -
                                alphas[i] * at(1)->nats_per_token());
  return most;
}

void require_same_vocabulary(const Model& a, const Model& b) {
  if (!a.tokenizer || !b.tokenizer) return;
  for (int32_t id = 0; id < int32_t(std::min(a.spec.vocab, b.spec.vocab)); ++id)
    check(a.tokenizer->written(id) == b.tokenizer->written(id),
          "the models differ: token {} is '{}' in one and '{}' in the other; compare models of one tokenizer", id,
          one_line(a.tokenizer->written(id)), one_line(b.tokenizer->written(id)));
}

int64_t predicted_tokens(const EvalText& text) {
  int64_t tokens = 0;
  for (size_t d = 0; d < text.documents.size(); ++d)
    for (int64_t i = text.bos ? 0 : 1; i < int64_t(text.documents[d].size()); ++i) tokens += text.counts(d, i);
  return tokens;
}

std::string blocks_name(bool are_documents) {
  return are_documents ? "documents" : fmt::format("blocks of {} tokens", kScoreBlock);
}

int64_t usual_answer_tokens(const Model& model, int64_t context) {
  return std::clamp<int64_t>((context > 0 ? context : model.spec.context) / 2, 1, 256);
}

}  // namespace toy::bind
