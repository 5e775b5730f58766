#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runs/text.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/runs/run.h"

namespace toy::runs {
namespace {

template <auto Member>
Column::Cell cell(const Summary& s) {
  if constexpr (std::is_arithmetic_v<std::decay_t<decltype(s.*Member)>>)
    return std::optional(s.*Member);
  else
    return s.*Member;
}

using enum Column::Better;
constexpr Column kColumns[] = {
    {"id", "run", neither, true, cell<&Summary::id>},
    {"status", "status", neither, true, cell<&Summary::status>},
    {"exit_code", "exit code", neither, false, cell<&Summary::exit_code>},
    {"error", "error", neither, false, cell<&Summary::error>},
    {"step", "step", neither, true, cell<&Summary::step>},
    {"nats_per_byte", "nats/byte", less, true, cell<&Summary::nats_per_byte>},
    {"loss", "loss", less, true, cell<&Summary::loss>},
    {"validation_loss", "validation", less, true, cell<&Summary::validation_loss>},
    {"reward", "reward", more, true, [](const Summary& s) -> Column::Cell { return s.reward(); }, true},
    {"validation_reward", "validation reward", more, true, cell<&Summary::validation_reward>, true},
    {"steps", "steps", neither, true, cell<&Summary::steps>},
    {"seconds", "time", less, true, cell<&Summary::seconds>},
    {"tokens_per_second", "tokens/s", more, true, cell<&Summary::tokens_per_second>},
    {"model", "model", neither, true, cell<&Summary::model>},
    {"parameters", "parameters", neither, true, cell<&Summary::parameters>},
    {"started", "started (UTC)", neither, true, cell<&Summary::started>},
    {"recipe", "recipe", neither, false, cell<&Summary::recipe>},
    {"best_loss", "best loss", less, false, cell<&Summary::best_loss>},
    {"best_validation_loss", "best validation", less, false, cell<&Summary::best_validation_loss>},
    {"reward_margin", "margin", more, false, [](const Summary& s) -> Column::Cell { return s.rewards.margin; }},
    {"reward_accuracy", "accuracy", more, false, [](const Summary& s) -> Column::Cell { return s.rewards.accuracy; }},
    {"lr", "lr", neither, false, cell<&Summary::lr>},
    {"tokens", "tokens", neither, false, cell<&Summary::tokens>},
    {"resumes", "resumes", neither, false, cell<&Summary::resumes>},
    {"folder", "folder", neither, false, cell<&Summary::folder>},
};

// Losses per token compare only where the tokens are the same.
constexpr bool is_per_token(std::string_view column) {
  return column == "loss" || column == "validation_loss" || column == "best_loss" || column == "best_validation_loss";
}

// A text in a JSON object; "" if there is none.
std::string text_in(const nlohmann::ordered_json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// "tiny, spm:512", "demo (tiny, spm:512)"; of a run that says no size, the name of the model that it trains.
std::string model_text(const nlohmann::ordered_json& model, const nlohmann::ordered_json& config) {
  const std::string name = text_in(model, "name"),
                    size = std::filesystem::path(text_in(config, "size")).stem().string(),
                    tokenizer = text_in(config, "tokenizer");
  if (size.empty() || tokenizer.empty()) return name;
  const std::string what = size + ", " + tokenizer;
  return name.empty() || name == "toy" ? what : fmt::format("{} ({})", name, what);
}

std::optional<double> finite(double v) { return std::isfinite(v) ? std::optional(v) : std::nullopt; }

void keep_less(std::optional<double>& best, double v) {
  if (std::isfinite(v)) best = best ? std::min(*best, v) : v;
}

void take(Summary& s, const Event& event) {
  s.seconds = std::max(s.seconds, event.t);
  s.step = std::max(s.step, event.step.value_or(0));
  if (const auto* e = event.as<RunStart>()) {
    if (!e->run_id.empty()) s.id = e->run_id;
    const auto model = parse_json<nlohmann::ordered_json>(e->model.text);
    const auto config = parse_json<nlohmann::ordered_json>(e->config.text);
    s.model = model_text(model, config);
    s.tokenizer = text_in(config, "tokenizer");
    const auto vocab = model.find("vocab");
    s.vocab = vocab != model.end() && vocab->is_number_integer() ? vocab->get<int64_t>() : 0;
    s.recipe = e->recipe;
    s.started = e->time;
    s.steps = e->steps;
    s.parameters = e->parameters;
    s.config = e->config;
  }
  if (const auto* e = event.as<Resume>()) {
    ++s.resumes;
    s.steps = e->steps.value_or(s.steps);
    s.config = e->config.value_or(s.config);
    s.error.clear();
    s.exit_code.reset();
  }
  if (const auto* e = event.as<RunEnd>()) {
    s.status = e->exit_code == 0 ? e->reason : "failed";
    s.exit_code = e->exit_code;
    s.error = e->error.value_or("");
  }
  if (const auto* e = event.as<Step>()) {
    s.loss = finite(e->loss);
    keep_less(s.best_loss, e->loss);
    s.lr = finite(e->lr);
    if (e->policy.reward) s.last_rewards.push_back(*e->policy.reward);
    if (s.last_rewards.size() > Summary::kRewardSteps) s.last_rewards.erase(s.last_rewards.begin());
    if (!s.validation_loss) s.rewards = e->rewards;
    if (__builtin_add_overflow(s.tokens, e->tokens, &s.tokens)) s.tokens = INT64_MAX;
    s.tokens_per_second = finite(e->tokens_per_second);
  }
  if (const auto* e = event.as<Eval>()) {
    s.validation_loss = finite(e->loss);
    s.validation_reward = e->reward;
    s.rewards = e->rewards;
    s.nats_per_byte = finite(e->nats_per_byte);
    // Where validations read a part of the text, those of the whole (at the end, at a time limit) count for nothing.
    if (!e->whole && s.validation_is_whole.value_or(true)) s.best_validation_loss.reset();
    if (!e->whole || !s.validation_is_whole) s.validation_is_whole = e->whole;
    if (s.validation_is_whole == e->whole) keep_less(s.best_validation_loss, e->loss);
  }
}

Summary empty_summary(const std::string& folder, bool running) {
  Summary s;
  s.id = id_of(folder);
  s.folder = folder;
  s.status = running ? "running" : "stopped";
  return s;
}

// Options that say where a run is, or what is shown of it.
bool only_shows(const std::string& name) {
  constexpr std::string_view kNames[] = {"out",       "json",      "resume",     "allow-changes",
                                         "overwrite", "log-every", "tensorboard"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string option_text(const nlohmann::ordered_json& config, const std::string& name) {
  const auto it = config.find(name);
  if (it == config.end() || it->is_null()) return "not given";
  if (it->is_string()) return it->get<std::string>();
  if (it->is_number_float()) return fmt::format("{:.6g}", it->get<double>());
  return json_text(*it);
}

// Value of a cell that can be ordered by number.
std::optional<double> number_of(const Column::Cell& c) {
  if (const auto* i = std::get_if<std::optional<int64_t>>(&c); i && *i) return double(**i);
  const auto* d = std::get_if<std::optional<double>>(&c);
  return d ? *d : std::nullopt;
}

bool comes_before(const Column::Cell& a, const Column::Cell& b, bool descending) {
  if (const auto* text = std::get_if<std::string>(&a))
    return descending ? *text > std::get<std::string>(b) : *text < std::get<std::string>(b);
  const auto x = number_of(a), y = number_of(b);
  if (!x || !y) return x.has_value();  // what is not there stands last
  return descending ? *x > *y : *x < *y;
}

}  // namespace

std::optional<double> Summary::reward() const {
  if (last_rewards.empty()) return {};
  return std::accumulate(last_rewards.begin(), last_rewards.end(), 0.0) / double(last_rewards.size());
}

std::span<const Column> columns() { return kColumns; }

const Column& column(const std::string& name) {
  std::vector<std::string> names;
  for (const Column& c : kColumns) {
    if (c.name == name) return c;
    names.push_back(c.name);
  }
  fail("'{}' is not one of {}", name, fmt::join(names, ", "));
}

std::string to_text(const Column& column, const Summary& summary) {
  const Column::Cell c = column.cell(summary);
  const std::string_view name = column.name;
  if (const auto* text = std::get_if<std::string>(&c))
    return text->empty() ? "-" : name == "started" ? readable_time(*text) : *text;
  const std::optional<double> v = number_of(c);
  if (!v) return "-";
  if (name == "seconds") return duration_text(*v);
  if (const auto* i = std::get_if<std::optional<int64_t>>(&c)) return grouped(**i);
  if (name == "tokens_per_second") return *v < 1e15 ? grouped(std::llround(*v)) : number_text(*v);
  return name == "lr" ? fmt::format("{:.3g}", *v) : fmt::format("{:.4f}", *v);
}

nlohmann::ordered_json to_json(const Summary& summary) {
  nlohmann::ordered_json j;
  for (const Column& c : kColumns) {
    const Column::Cell cell = c.cell(summary);
    j[c.name] = nullptr;
    if (const auto* text = std::get_if<std::string>(&cell)) j[c.name] = *text;
    if (const auto* d = std::get_if<std::optional<double>>(&cell); d && *d) j[c.name] = **d;
    if (const auto* i = std::get_if<std::optional<int64_t>>(&cell); i && *i) j[c.name] = **i;
  }
  return j;
}

Summary summarize(const Log& log, const std::string& folder, bool running) {
  Summary s = empty_summary(folder, running);
  for (const Event& e : log.events) take(s, e);
  return s;
}

Summary summarize_file(const std::string& path, const std::string& folder, bool running) {
  Summary s = empty_summary(folder, running);
  bool once = true;  // is there one event of each step and name? Else only the last counts, which comes later
  int64_t last_step = INT64_MIN, last_eval[2] = {INT64_MIN, INT64_MIN};
  const auto follows = [&](int64_t& last, const Event& e) {
    once = once && e.step.value_or(0) > last;
    last = e.step.value_or(0);
  };
  visit_events(path, [&](Event&& e) {
    if (e.as<Step>()) follows(last_step, e);
    if (const auto* eval = e.as<Eval>()) follows(last_eval[eval->whole], e);
    take(s, e);
  });
  return once ? s : summarize(read_events(path), folder, running);
}

std::vector<OptionDifference> option_differences(std::span<const Summary> runs) {
  std::vector<OptionDifference> list;
  std::vector<std::string> names;
  std::vector<nlohmann::ordered_json> configs;
  for (const Summary& s : runs) configs.push_back(parse_json<nlohmann::ordered_json>(s.config.text));
  for (const auto& config : configs)
    for (const auto& [name, value] : config.items())
      if (!only_shows(name) && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  for (const std::string& name : names) {
    OptionDifference d{name, {}};
    for (const auto& config : configs) d.values.push_back(option_text(config, name));
    if (std::count(d.values.begin(), d.values.end(), d.values[0]) < std::ptrdiff_t(d.values.size()))
      list.push_back(std::move(d));
  }
  return list;
}

void sort_by(std::vector<Summary>& runs, const Column& column, bool descending) {
  std::stable_sort(runs.begin(), runs.end(), [&](const Summary& a, const Summary& b) {
    return comes_before(column.cell(a), column.cell(b), descending);
  });
}

bool have_same_tokens(std::span<const Summary> runs) {
  const auto bytes_per_token = [](const Summary& s) {
    if (s.rewards.accuracy) return 0.0;  // the loss of preferences is not per token
    return s.validation_loss && s.nats_per_byte && *s.nats_per_byte > 0 ? *s.validation_loss / *s.nats_per_byte : 0.0;
  };
  constexpr double kAlike = 1e-3;
  for (const Summary& s : runs)
    for (const Summary& o : runs) {
      if (s.vocab != o.vocab || (!s.tokenizer.empty() && !o.tokenizer.empty() && s.tokenizer != o.tokenizer))
        return false;
      const double a = bytes_per_token(s), b = bytes_per_token(o);
      if (a > 0 && b > 0 && std::fabs(a / b - 1) > kAlike) return false;
    }
  return true;
}

void name_apart(std::span<Summary> runs) {
  std::map<std::string, int> runs_of;
  for (const Summary& s : runs) ++runs_of[s.id];
  for (Summary& s : runs)
    if (runs_of[s.id] > 1) s.id = s.folder;
}

std::vector<std::string> short_names(std::span<const Summary> runs) {
  std::string_view same = runs.empty() ? "" : std::string_view(runs[0].id);
  for (const Summary& s : runs)
    same =
        same.substr(0, size_t(std::mismatch(same.begin(), same.end(), s.id.begin(), s.id.end()).first - same.begin()));
  same = same.substr(0, same.find_last_of("-_/") + 1);
  std::vector<std::string> names;
  for (const Summary& s : runs) names.push_back(s.id.size() > same.size() ? s.id.substr(same.size()) : s.id);
  return names;
}

std::vector<Compare> compare(std::span<const Summary> runs) {
  std::vector<Compare> list;
  // What rewards and preferences minimize is no loss of text.
  const auto kind = [](const Summary& s) { return s.recipe == "grpo" ? 2 : s.rewards.accuracy ? 1 : 0; };
  const bool same_tokens = have_same_tokens(runs) && std::ranges::all_of(runs, [&](const Summary& s) {
                             return kind(s) < 2 && kind(s) == kind(runs.front());
                           });
  for (const Column& c : kColumns) {
    if (c.better == neither) continue;
    Compare e{c.name, {}, {}, {}};
    std::optional<double> best;
    for (const Summary& s : runs) {
      const std::optional<double> v = number_of(c.cell(s));
      e.runs.push_back(s.id);
      e.values.push_back(v.value_or(kUnknown));
      if (v && (same_tokens || !is_per_token(c.name)) && (!best || (c.better == less ? *v < *best : *v > *best)))
        best = v, e.best = s.id;
    }
    list.push_back(std::move(e));
  }
  return list;
}

}  // namespace toy::runs
