#include "toy/runs/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runs/page.h"
#include "runs/text.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/runs/report.h"

namespace toy::runs {
namespace {

using nlohmann::ordered_json;

// What a recipe does, and where it comes from.
struct Lesson {
  const char *recipe, *does, *source;
};
constexpr Lesson kLessons[] = {{"from-scratch", "learns to predict the next token of texts", "Radford et al. 2018"},
                               {"warm-start", "learns to predict the next token of more texts", "Radford et al. 2018"},
                               {"full-finetune", "learns to answer, from conversations", "Ouyang et al. 2022"},
                               {"lora", "learns to answer, by an adapter", "Hu et al. 2021"},
                               {"dpo", "learns which of two answers is better", "Rafailov et al. 2023"},
                               {"grpo", "learns from rewards of its own answers", "Shao et al. 2024"},
                               {"contrastive", "learns which texts belong together", "van den Oord et al. 2018"},
                               {"classify", "learns which class a text has", "Devlin et al. 2018"}};

// Curves of a stage that say what it learned, first what it aims at.
constexpr const char* kShown[] = {"reward", "groups_mixed", "reward_margin", "reward_accuracy", "loss", "entropy"};

constexpr const char* kNoAnswers = "these are no answers; write them with `toy eval generate --json --rows`";

Answers::Share share_of(const ordered_json& j, int64_t questions) {
  Answers::Share s{j.at("accuracy").get<double>(), {}, questions};
  check(s.accuracy >= 0 && s.accuracy <= 1 && questions >= 1, "{}", kNoAnswers);
  if (j.contains("accuracy_error")) s.error = j["accuracy_error"].get<double>();
  return s;
}

std::string percent(const Answers::Share& s) {
  return s.error ? fmt::format("{:.1f} ± {:.1f}%", 100 * s.accuracy, 100 * *s.error)
                 : fmt::format("{:.1f}%", 100 * s.accuracy);
}

// The same for narrow columns: the error may stand below.
std::string share_text(const Answers::Share& s) {
  return fmt::format("{:.1f}%", 100 * s.accuracy) + (s.error ? fmt::format(" <i>± {:.1f}</i>", 100 * *s.error) : "");
}

// "1.23 TFLOP"
std::string work_text(double flops) {
  constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
  size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < std::size(kUnits); ++unit) flops /= 1000;
  return fmt::format("{} {}", number_text(flops), kUnits[unit]);
}

std::optional<double> work(const Stage& s) {
  return s.flops_per_token ? std::optional(*s.flops_per_token * double(s.summary.tokens)) : std::nullopt;
}

template <class F>
double sum(std::span<const Stage> stages, F of) {
  return std::accumulate(stages.begin(), stages.end(), 0.0, [&](double a, const Stage& s) { return a + of(s); });
}

std::string tile(const std::string& name, const std::string& value, const std::string& note = {}) {
  return fmt::format(R"(<div class="tile"><span>{}</span><b>{}</b><i>{}</i></div>)", name, value, note);
}

std::string header(const std::string& title, std::span<const Stage> stages) {
  std::string path;
  for (const Stage& s : stages) path += (path.empty() ? "" : " → ") + markup(s.summary.id);
  std::string out =
      fmt::format("<header><h1>{}</h1><p>{}</p></header>\n<section class=\"tiles\">\n", markup(title), path);
  if (const auto& last = stages.back().likeliest)
    out += tile("answers that are right", percent(last->all), fmt::format("of {}", grouped(last->all.questions)));
  out += tile("parameters", short_number(double(stages.back().summary.parameters))) +
         tile("time", duration_text(sum(stages, [](const Stage& s) { return s.summary.seconds; }))) +
         tile("tokens", short_number(sum(stages, [](const Stage& s) { return double(s.summary.tokens); })));
  if (std::all_of(stages.begin(), stages.end(), [](const Stage& s) { return s.flops_per_token.has_value(); }))
    out += tile("work", work_text(sum(stages, [](const Stage& s) { return *work(s); })));
  return out + "</section>\n";
}

// Accuracy after each stage.
Chart accuracy_chart(std::span<const Stage> stages) {
  Chart chart{.title = "Right answers", .unit = "% of the questions", .x_label = "stage"};
  const auto add = [&](const char* name, std::optional<Answers> Stage::*of) {
    Series s{.name = name, .x = {}, .y = {}, .style = Series::Style::points, .color = int(chart.series.size())};
    for (size_t i = 0; i < stages.size(); ++i)
      if (const auto& answers = stages[i].*of) s.x.push_back(double(i + 1)), s.y.push_back(100 * answers->all.accuracy);
    if (!s.x.empty()) chart.series.push_back(std::move(s));
  };
  add("likeliest", &Stage::likeliest), add("drawn", &Stage::drawn);
  return chart;
}

// A column for each stage, a row for each kind; the best of a row stand out.
std::string accuracies(std::span<const Stage> stages, std::optional<Answers> Stage::*of, const char* title) {
  std::map<std::string, int64_t, NaturalLess> kinds;
  std::string head, rows;
  for (const Stage& s : stages) {
    head += fmt::format("<th>{}</th>", markup(s.summary.id));
    if (s.*of)
      for (const auto& [kind, share] : (s.*of)->kinds) kinds[kind] = share.questions;
  }
  const auto row = [&](const std::string& name, int64_t questions, auto share_in) {
    std::vector<const Answers::Share*> shares;
    double best = 0;
    for (const Stage& s : stages) {
      shares.push_back(s.*of ? share_in(*(s.*of)) : nullptr);
      if (shares.back()) best = std::max(best, shares.back()->accuracy);
    }
    rows += fmt::format("<tr><td>{} <i>{}</i></td>", name, grouped(questions));
    for (const Answers::Share* s : shares)
      rows += fmt::format("<td{}>{}</td>", s && best > 0 && s->accuracy == best ? " class=\"best\"" : "",
                          s ? share_text(*s) : "-");
    rows += "</tr>\n";
  };
  for (const auto& of_kind : kinds)
    row(markup(of_kind.first), of_kind.second, [&](const Answers& a) -> const Answers::Share* {
      const auto found = a.kinds.find(of_kind.first);
      return found == a.kinds.end() ? nullptr : &found->second;
    });
  int64_t all = 0;
  for (const Stage& s : stages)
    if (s.*of) all = (s.*of)->all.questions;
  if (all > 0) row("<b>all</b>", all, [](const Answers& a) { return &a.all; });
  if (rows.empty()) return {};
  return html_card(
      title,
      fmt::format("<div class=\"scroll\" tabindex=\"0\"><table class=\"shares\"><tr><th>kind, questions</th>{}</tr>\n"
                  "{}</table></div><p class=\"none\">After ±: one standard error, in points. The best stage of each "
                  "kind stands out.</p>",
                  head, rows));
}

std::string costs(std::span<const Stage> stages) {
  std::string rows;
  for (const Stage& s : stages) {
    const auto flops = work(s);
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", markup(s.summary.id),
                        grouped(s.summary.step), grouped(s.summary.tokens), flops ? work_text(*flops) : "-",
                        duration_text(s.summary.seconds));
  }
  return html_card("Cost",
                   "<div class=\"scroll\" tabindex=\"0\"><table><tr><th>stage</th><th>steps</th><th>tokens</th>"
                   "<th>work</th><th>time</th></tr>\n" +
                       rows +
                       "</table></div><p class=\"none\">Work is tokens times the FLOP per token of a training step. "
                       "Passes that only score or draw answers are left out; with rewards, tokens are those of "
                       "the answers.</p>");
}

// Shares compare where all were asked the same, and each answer was drawn as its name says.
void require_same_questions(std::span<const Stage> stages) {
  const Answers* asked = nullptr;
  const auto require = [&](const Stage& s, const std::optional<Answers>& given, double temperature) {
    if (!given) return;
    check(given->temperature == temperature, "{}: its {} answers were drawn at temperature {}, expected {}",
          s.summary.id, temperature == 0 ? "likeliest" : "drawn", given->temperature, temperature);
    if (!asked) asked = &*given;
    const bool same =
        std::equal(asked->rows.begin(), asked->rows.end(), given->rows.begin(), given->rows.end(),
                   [](const auto& a, const auto& b) { return a.question == b.question && a.wanted == b.wanted; });
    check(same, "{}: its answers are to other questions than those of {}; ask every stage the same file", s.summary.id,
          stages.front().summary.id);
  };
  for (const Stage& s : stages) require(s, s.likeliest, 0), require(s, s.drawn, 1);
}

// The first question of each kind, with its answer after every stage.
std::string conversations(std::span<const Stage> stages) {
  const Answers* asked = nullptr;
  for (const Stage& s : stages)
    if (!asked && s.likeliest) asked = &*s.likeliest;
  if (!asked) return {};
  std::string out;
  std::map<std::string, bool> seen;
  for (size_t i = 0; i < asked->rows.size(); ++i) {
    const Answers::Row& row = asked->rows[i];
    if (std::exchange(seen[row.kind], true)) continue;
    std::string turns;
    for (const Stage& s : stages) {
      if (!s.likeliest) continue;
      const Answers::Row& a = s.likeliest->rows[i];
      turns += fmt::format(R"(<dt>{}</dt><dd class="{}">{}</dd>)", markup(s.summary.id), a.right ? "right" : "wrong",
                           a.text.empty() ? "<i>nothing</i>" : markup(a.text)) +
               "\n";
    }
    out += fmt::format(
        "<details{}><summary>{}</summary><dl class=\"turns\">\n{}<dt>wanted</dt><dd>{}</dd></dl>"
        "</details>\n",
        seen.size() <= 4 ? " open" : "", markup(row.question), turns, markup(row.wanted));
  }
  return html_card("Conversations <i>the first question of each kind</i>", out);
}

std::string stage_section(const Stage& s, size_t number) {
  std::string figures, about;
  const std::vector<Curve> all = curves(s.log);
  int shown = 0;
  for (const char* metric : kShown)
    for (const Curve& c : all)
      if (c.metric == metric && shown < 4 && (shown < 2 || c.metric != "loss"))
        figures += html_figure(c.chart), ++shown;
  for (const Lesson& l : kLessons)
    if (s.summary.recipe == l.recipe) about = fmt::format(" <i>{} ({})</i>", l.does, l.source);
  return fmt::format("<h2>{}. {}{}</h2>\n<section class=\"charts\">\n{}</section>\n", number, markup(s.summary.id),
                     about, figures);
}

void add_share(ordered_json& j, const std::string& prefix, const Answers::Share& s) {
  j[prefix + "accuracy"] = s.accuracy;
  if (s.error) j[prefix + "accuracy_error"] = *s.error;
}

// Does a stage begin with the model of the one before it? A model that was merged or quantized in between has another
// content, so only what speaks against it counts.
void check_order(std::span<const Stage> stages) {
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::string& init = stages[i].origin.init;
    for (size_t j = 0; j < stages.size(); ++j) {
      const bool follows = j + 1 == i && !stages[j].origin.adapter;
      const bool last_of_same = i > 0 && stages[j].origin.model == stages[i - 1].origin.model;
      if (init.empty() || j == i || follows || last_of_same || stages[j].origin.model != init) continue;
      fail("{} began with the model of {}{}; give the stages in the order in which they were trained",
           stages[i].summary.id, stages[j].summary.id,
           i > 0 ? fmt::format(", not with that of {}", stages[i - 1].summary.id) : "");
    }
  }
}

}  // namespace

Answers parse_answers(std::string_view text) {
  Answers a;
  try {
    const auto j = parse_json<ordered_json>(std::string(text));
    a.all = share_of(j, j.at("questions").get<int64_t>());
    if (j.contains("kinds"))
      for (const auto& [kind, of] : j["kinds"].items()) a.kinds[kind] = share_of(of, of.at("questions").get<int64_t>());
    for (const ordered_json& row : j.at("rows"))
      a.rows.push_back({row.at("kind").get<std::string>(), row.at("question").get<std::string>(),
                        row.at("text").get<std::string>(), row.at("answers").at(0).get<std::string>(),
                        row.at("right").get<bool>()});
    a.temperature = j.at("temperature").get<double>();
  } catch (const nlohmann::json::exception&) {
    fail("{}", kNoAnswers);
  }
  check(a.all.questions == int64_t(a.rows.size()), "{}", kNoAnswers);
  return a;
}

double flops_per_token(std::string_view flow) {
  try {
    const auto j = parse_json<ordered_json>(std::string(flow));
    for (const ordered_json& node : j.at("nodes"))
      if (node.at("kind") == "input" && node.at("name") == "tokens")
        if (const double tokens = node.at("outputs").at(0).at("shape").at(0).get<double>(); tokens > 0)
          return j.at("cost").at("total").at("flops").get<double>() / tokens;
  } catch (const nlohmann::json::exception&) {
  }
  fail("this is no graph of a training step with its cost");
}

Origin parse_origin(std::string_view finished) {
  try {
    const auto j = parse_json<ordered_json>(std::string(finished));
    const auto content = [&](const char* name) -> std::string {
      return j.contains(name) ? j[name].at("xxh64").get<std::string>() : "";
    };
    return {j.at("model").at("xxh64").get<std::string>(), content("init"), j.contains("adapter")};
  } catch (const nlohmann::json::exception&) {
    fail("this is no record of a run that is done");
  }
}

ordered_json card_numbers(std::span<const Stage> stages) {
  check_order(stages);
  require_same_questions(stages);
  ordered_json out;
  for (const Stage& s : stages) {
    ordered_json j{
        {"stage", s.summary.id}, {"recipe", s.summary.recipe}, {"steps", s.summary.step}, {"tokens", s.summary.tokens}};
    if (const auto flops = work(s)) j["flops"] = *flops;
    j["seconds"] = s.summary.seconds;
    if (s.likeliest) {
      add_share(j, "", s.likeliest->all);
      for (const auto& [kind, share] : s.likeliest->kinds) {
        add_share(j["kinds"][kind], "", share);
        j["kinds"][kind]["questions"] = share.questions;
      }
    }
    if (s.drawn) add_share(j, "drawn_", s.drawn->all);
    out["stages"].push_back(std::move(j));
  }
  return out;
}

std::string html_report_card(const std::string& title, std::span<const Stage> stages) {
  check(!stages.empty(), "a report card needs a stage");
  check_order(stages);
  require_same_questions(stages);
  const Chart chart = accuracy_chart(stages);
  std::string body = header(title, stages);
  if (!chart.empty()) body += "<section class=\"charts\">\n" + html_figure(chart, true) + "</section>\n";
  body += accuracies(stages, &Stage::likeliest, "Right answers by kind <i>the likeliest answer</i>") +
          accuracies(stages, &Stage::drawn, "Right answers by kind <i>an answer drawn at temperature 1</i>") +
          conversations(stages);
  for (size_t i = 0; i < stages.size(); ++i) body += stage_section(stages[i], i + 1);
  return html_page(title, body + costs(stages));
}

}  // namespace toy::runs
