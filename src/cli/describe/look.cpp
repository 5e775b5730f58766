// toy look: what a model does while it reads a text.
#include "toy/look/look.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/prompts.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

constexpr size_t kShownHeads = 5, kShownBest = 3;

struct LookCommand : Command {
  std::string model_path, out;
  PromptOptions prompt;
  LookOptions o;
  AdapterOptions adapters;
  DeviceOptions device;
  bool json = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    prompt.add(app, false);
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object with all numbers");
    add_option(app, "--out", out, "HTML file to write, which shows all of it without a network", file_name());
    add_listed(app, o);
    device.add(app);
    show_in_help(app, {"--prompt", "--prompt-file", "--prompt-ids", "--json", "--out", "--top", "--exact"});
    app.footer(
        "Shows attention by head, what each layer would predict (logit lens), what each block adds, and the states of "
        "recurrent layers. See toy help look.md.\n\n"
        "Examples:\n"
        "  toy look out/book --prompt \"Once upon a time\"\n"
        "  toy look out/book --prompt \"Once upon a time\" --out look.html\n"
        "  toy look model.gguf --prompt-ids 1,2,3 --json --exact");
  }

  void run() {
    if (!out.empty())
      refuse_replacing("out", out, [](std::string_view beginning) {
        return beginning.find("<meta name=\"generator\" content=\"toy look\">") != beginning.npos;
      });
    prompt.read();
    model_path = model_file(model_path);
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    const std::vector<int32_t> ids = prompt.tokens(model, model_path).at(0);
    print_warnings(model_path, model.warnings);
    warn_of_long_context(model_path, model.spec, int64_t(ids.size()));
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

  std::string title(const Model& model) const { return model.spec.name.empty() ? model_path : model.spec.name; }

  static std::string shown(const Tokenizer* tokenizer, int32_t id) {
    return tokenizer ? "'" + printable(tokenizer->written(id)) + "'" : fmt::format("{}", id);
  }

  static std::string best(const std::vector<TokenChance>& top, const Tokenizer* tokenizer) {
    std::string text;
    for (size_t i = 0; i < std::min(top.size(), kShownBest); ++i)
      text += fmt::format("  {} {:.2f}", shown(tokenizer, top[i].id), top[i].probability);
    return text;
  }

  static void print(const Look& look, const Tokenizer* tokenizer) {
    fmt::print("token            probability   what is predicted to follow\n");
    for (size_t t = 0; t < look.ids.size(); ++t)
      fmt::print("{:<16} {:>11} {}\n", shown(tokenizer, look.ids[t]),
                 t > 0 ? fmt::format("{:.4f}", look.output(t - 1).next) : "-", best(look.output(t).top, tokenizer));
    print_heads(look);
    const size_t last = look.ids.size() - 1;
    fmt::print("\nwhat the last token would predict after each layer\n{:<12}{}\n", "embedding",
               best(look.lens[last].top, tokenizer));
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
