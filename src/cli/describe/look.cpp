// toy look: what a model does while it reads a text.
#include "toy/look/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/run/prompts.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/models/embedding_rule.h"

namespace toy::cli {
namespace {

constexpr size_t kShownHeads = 5, kShownBest = 3;

struct LookCommand : Command {
  std::string model_path, out, compare;
  std::vector<std::string> ablate;
  PromptOptions prompt;
  LookOptions o;
  AdapterOptions adapters;
  DeviceOptions device;
  bool json = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    prompt.add(app, false);
    begin_group(app, "Comparison");
    add_option(app, "--compare", compare, "Model to compare with: before fine-tuning, or not quantized", file_name());
    add_option(app, "--ablate", ablate, "Show what changes without this head, counted from 0; repeatable")
        ->option_text("LAYER.HEAD");
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object with all numbers");
    add_option(app, "--out", out, "HTML file to write, which shows all of it without a network", file_name());
    add_listed(app, o);
    device.add(app);
    show_in_help(app, {"--prompt", "--prompt-file", "--prompt-ids", "--compare", "--ablate", "--json", "--out", "--top",
                       "--exact"});
    app.footer(
        "Shows attention by head, what each layer would predict (logit lens), what each block adds, the experts that "
        "tokens choose, and the states of recurrent layers. Encoders show what they fill in at [MASK], or the classes "
        "that they tell. See toy help look.md.\n\n"
        "Examples:\n"
        "  toy look out/book --prompt \"Once upon a time\"\n"
        "  toy look out/book --prompt \"Once upon a time\" --out look.html\n"
        "  toy look small.gguf --compare model.gguf --prompt \"Once upon a time\"\n"
        "  toy look out/book --ablate 3.1 --prompt \"Once upon a time\"\n"
        "  toy look model.gguf --prompt-ids 1,2,3 --json --exact");
  }

  void run() {
    refuse_other_ending("--out", out, ".html", "a page of HTML");
    if (!out.empty())
      refuse_replacing("out", out, [](std::string_view beginning) {
        return beginning.find("<meta name=\"generator\" content=\"toy look\">") != beginning.npos;
      });
    prompt.read();
    model_path = model_file(model_path);
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    if (model.spec.vision.there()) require_causal(model.spec);  // it says what the model is for
    adapters.apply(model);
    prompt.read_piped();
    const std::vector<int32_t> ids = prompt.tokens(model, model_path).at(0);
    print_warnings(model_path, model.warnings);
    o.output = json ? LookOptions::json : out.empty() ? LookOptions::numbers : LookOptions::page;
    if (!compare.empty() || !ablate.empty()) return compare_readings(*dev, model, ids);
    const int64_t tokens = int64_t(ids.size());
    if (!given("--rows") && !out.empty() && page_rows(tokens) < tokens) {
      o.rows = page_rows(tokens);
      to_stderr(fmt::format("toy: the page has the attention of the last {} of {} tokens; --rows keeps more\n", o.rows,
                            tokens));
    }
    const Look look = with_sound_weights({model_path}, [&] { return toy::look(*dev, model, ids, o); });
    const Tokenizer* tokenizer = model.tokenizer.get();
    if (!out.empty()) write_file(out, to_html(look, tokenizer, title(model)));
    if (json) {
      nlohmann::ordered_json j{{"model", model_path}};
      j.update(to_json(look, tokenizer));
      return print_json(j);
    }
    print(look, tokenizer);
    if (!out.empty()) fmt::print("{}\n", out);
  }

  // Of two models, or of one with and without some heads.
  void compare_readings(Device& dev, const Model& model, const std::vector<int32_t>& ids) {
    check(model.spec.causal,
          "{}: --compare and --ablate are for models that generate, not for encoders; leave them out", model_path);
    check(!given("--rows") && !given("--seed"), "--rows and --seed change nothing in a comparison; leave them out");
    check(compare.empty() || ablate.empty(),
          "--compare and --ablate exclude each other; a comparison has one difference");
    Reading after{.model = model};
    std::string all;
    for (const std::string& text : ablate) {
      after.without.push_back(parse_head(text));
      all += (all.empty() ? "" : ", ") + text;
    }
    std::optional<Model> other;
    std::string before_name = title(model), after_name = "without " + all;
    if (!compare.empty()) {
      compare = model_file(compare);
      other = load_model(compare, dev);
      print_warnings(compare, other->warnings);
      const std::string why = incomparable(*other, model);
      check(why.empty(), "{} and {} cannot be compared: {}; use a model and what was made of it", compare, model_path,
            why);
      before_name = compare, after_name = model_path;
      if (!adapters.lora.empty()) after_name += " with its adapter";
    }
    const Reading before{.model = other ? *other : model};
    const LookDifference d =
        with_sound_weights({model_path}, [&] { return compare_looks(dev, before, after, ids, o); });
    const Tokenizer* tokenizer = model.tokenizer.get();
    if (!out.empty()) write_file(out, to_html(d, tokenizer, title(model), before_name, after_name));
    if (json) {
      nlohmann::ordered_json j{{"model", model_path}};
      if (other) j["compare"] = compare;
      if (!ablate.empty()) j["ablate"] = ablate;
      j.update(to_json(d, tokenizer));
      return print_json(j);
    }
    print(d, tokenizer, before_name, after_name);
    if (!out.empty()) fmt::print("{}\n", out);
  }

  static void print(const LookDifference& d, const Tokenizer* tokenizer, const std::string& before,
                    const std::string& after) {
    fmt::print(
        "before: {}\nafter:  {}\n\ntoken            loss before    after      KL   what is predicted to follow\n",
        before, after);
    for (size_t t = 0; t < d.ids.size(); ++t) {
      const auto loss = [&](const std::vector<LensPoint>& of) {
        return t > 0 ? fmt::format("{:.4f}", -std::log(of[t - 1].next)) : "-";
      };
      fmt::print("{:<16} {:>11} {:>8} {:>7.4f} {} ->{}\n", shown(tokenizer, d.ids[t]), loss(d.before), loss(d.after),
                 d.after[t].kl, best(d.before[t].top, tokenizer, 1), best(d.after[t].top, tokenizer, 1));
    }
    if (d.ids.size() > 1) fmt::print("{:<16} {:>11.4f} {:>8.4f}\n", "mean", d.loss(d.before), d.loss(d.after));
    const auto mean = [](const std::vector<double>& list) {
      return std::accumulate(list.begin(), list.end(), 0.0) / double(list.size());
    };
    fmt::print("\nlayer        KL of the lens   difference of the rows   attention elsewhere, largest head\n");
    fmt::print("{:<12} {:>14.4f} {:>24.4f}\n", "embedding", mean(d.embedding.kl), mean(d.embedding.rows));
    for (size_t l = 0; l < d.layers.size(); ++l) {
      double most = 0;
      size_t head = 0;
      for (size_t h = 0; h < d.layers[l].attention.size(); ++h)
        if (const double m = mean(d.layers[l].attention[h]); m > most) most = m, head = h;
      fmt::print("{:<12} {:>14.4f} {:>24.4f}{}\n", fmt::format("layer {}", l), mean(d.layers[l].kl),
                 mean(d.layers[l].rows), most > 0 ? fmt::format("   {:.4f} in {}.{}", most, l, head) : "");
    }
  }

  std::string title(const Model& model) const { return model.spec.name.empty() ? model_path : model.spec.name; }

  static std::string shown(const Tokenizer* tokenizer, int32_t id) {
    std::string text = printable(text_of(tokenizer, id));
    if (!tokenizer) return text;
    for (size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 2) text.replace(at, 1, "\\n");
    return "'" + text + "'";
  }

  static std::string best(const std::vector<TokenChance>& top, const Tokenizer* tokenizer, size_t count = kShownBest) {
    std::string text;
    for (size_t i = 0; i < std::min(top.size(), count); ++i)
      text += fmt::format("  {} {:.2f}", shown(tokenizer, top[i].id), top[i].probability);
    return text;
  }

  static void print(const Look& look, const Tokenizer* tokenizer) {
    for (const ClassChance& c : look.classes) fmt::print("{:>7.3f}%  {}\n", 100 * c.probability, printable(c.name));
    if (!look.classes.empty()) fmt::print("\n");
    const char* const predicted = !look.predicts() ? ""
                                  : look.causal    ? "   what is predicted to follow"
                                                   : "   what is predicted in its place";
    fmt::print("token           {}{}\n", look.predicts() ? " probability" : "", predicted);
    for (size_t t = 0; t < look.ids.size(); ++t) {
      const std::string said =
          t > 0 || !look.causal ? fmt::format("{:.4f}", look.predicts() ? look.prediction(t).next : 0) : "-";
      fmt::print("{}\n", look.predicts() ? fmt::format("{:<16} {:>11} {}", shown(tokenizer, look.ids[t]), said,
                                                       best(look.output(t).top, tokenizer))
                                         : shown(tokenizer, look.ids[t]));
    }
    print_heads(look);
    if (look.predicts()) print_lens(look, tokenizer);
  }

  static void print_lens(const Look& look, const Tokenizer* tokenizer) {
    if (!look.causal) {  // where the token is least likely: a mask, mostly
      size_t at = 0;
      for (size_t t = 0; t < look.ids.size(); ++t)
        if (look.prediction(t).next < look.prediction(at).next) at = t;
      fmt::print("\nwhat each layer would predict in the place of token {}, {}\n", at, shown(tokenizer, look.ids[at]));
      print_points(look, tokenizer, at);
      return;
    }
    fmt::print("\nwhat the last token would predict after each layer\n");
    print_points(look, tokenizer, look.ids.size() - 1);
  }

  static void print_points(const Look& look, const Tokenizer* tokenizer, size_t last) {
    fmt::print("{:<12}{}\n", "embedding", best(look.lens[last].top, tokenizer));
    for (size_t l = 0; l < look.layers.size(); ++l)
      fmt::print("{:<12}{}\n", fmt::format("layer {}", l), best(look.layers[l].lens[last].top, tokenizer));
  }

  // The best heads of each role.
  static void print_heads(const Look& look) {
    constexpr std::pair<const char*, double HeadScores::*> kRoles[] = {{"previous token", &HeadScores::previous},
                                                                       {"first token", &HeadScores::first},
                                                                       {"induction", &HeadScores::induction},
                                                                       {"duplicate token", &HeadScores::duplicate}};
    bool any = false;
    for (const auto& [role, score] : kRoles) {
      std::vector<std::pair<double, std::string>> found;
      for (size_t l = 0; l < look.layers.size(); ++l)
        for (size_t h = 0; h < look.layers[l].heads.size(); ++h)
          if (const double s = look.layers[l].heads[h].scores.*score; s >= kHeadRole)
            found.emplace_back(s, fmt::format("  {}.{} {:.2f}", l, h, s));
      if (found.empty()) continue;
      if (!any) fmt::print("\nheads, as layer.head, and the share of their attention that goes there\n");
      any = true;
      std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
      fmt::print("{:<16}", role);
      for (size_t i = 0; i < std::min(found.size(), kShownHeads); ++i) fmt::print("{}", found[i].second);
      fmt::print("{}\n", found.size() > kShownHeads ? fmt::format("  and {} more", found.size() - kShownHeads) : "");
    }
  }
};

}  // namespace

void add_look(CLI::App& app) {
  add_subcommand<LookCommand>(app, "look", "Show attention, layers and states while a model reads a text");
}

}  // namespace toy::cli
