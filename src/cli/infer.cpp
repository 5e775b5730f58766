// toy infer: continue prompts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/prompts.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/decode/scheduler.h"
#include "toy/decode/text_stream.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

void write_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::length:
      return "length";
    case FinishReason::eos:
      return "eos";
    case FinishReason::stopped:
      return "stop";
  }
  return "";
}

// Results in the order of their prompts. The first that is not finished is shown as it grows, the others wait.
class InOrder {
 public:
  InOrder(size_t count, bool headings) : parts_(count), headings_(headings) {}

  void add(size_t i, std::string_view text) {
    parts_[i].text += text;
    show();
  }
  void done(size_t i) {
    parts_[i].done = true;
    show();
  }

 private:
  struct Part {
    std::string text;
    bool begun = false, done = false;
  };
  void show() {
    for (; at_ < parts_.size(); ++at_) {
      Part& p = parts_[at_];
      if (headings_ && !p.begun && (p.done || !p.text.empty())) write_out(fmt::format("--- prompt {} ---\n", at_ + 1));
      p.begun = p.begun || p.done || !p.text.empty();
      write_out(p.text);
      p.text.clear();
      if (!p.done) break;
    }
    std::fflush(stdout);
  }
  std::vector<Part> parts_;
  bool headings_;
  size_t at_ = 0;
};

// The text of one result while it grows. Without a tokenizer it is the ids.
class Text {
 public:
  Text(const Model& model, std::span<const int32_t> prompt, const std::vector<std::string>& stops) {
    if (model.tokenizer) stream_.emplace(*model.tokenizer, prompt, stops);
  }
  std::string push(int32_t id) { return stream_ ? stream_->push(id) : fmt::format("{} ", id); }
  std::string finish() { return stream_ ? stream_->finish() : ""; }
  bool stopped() const { return stream_ && stream_->stopped(); }

 private:
  std::optional<TextStream> stream_;
};

ordered_json to_json(const std::vector<int32_t>& prompt, const Generated& g, const std::string& text, bool with_best) {
  ordered_json j{
      {"prompt_ids", prompt}, {"ids", ordered_json::array()}, {"text", text}, {"logprobs", ordered_json::array()}};
  if (with_best) j["top_logprobs"] = ordered_json::array();
  for (const GeneratedToken& t : g.tokens) {
    j["ids"].push_back(t.chosen.id);
    j["logprobs"].push_back(t.chosen.logprob);
    if (!with_best) continue;
    ordered_json best = ordered_json::array();
    for (const TokenLogprob& b : t.best) best.push_back({{"id", b.id}, {"logprob", b.logprob}});
    j["top_logprobs"].push_back(best);
  }
  j["finish_reason"] = name_of(g.reason);
  return j;
}

struct Infer {
  std::string model_path;
  PromptOptions prompts;
  GenerateOptions g;
  std::vector<std::string> stops;
  DeviceOptions device;
  int64_t context = 0, parallel = 16;
  bool json = false, check_finite = false;
  CLI::Option *n_option = nullptr, *parallel_option = nullptr, *last_n_option = nullptr;
  std::vector<const CLI::Option*> of_chance;  // what temperature 0 has no use for

  void add(CLI::App& app) {
    app.add_option("model", model_path, "a GGUF file")->required();
    prompts.add(app);
    n_option = app.add_option("-n,--n", g.max_tokens, "tokens to generate (default: 128, or as many as fit)");
    add_text_list_option(app, "--stop", stops,
                         "end before this text; may be given several times. A line break is written --stop $'\\n' in "
                         "bash");
    add_sampling(app);
    app.add_option("--ctx", context,
                   "positions to make room for; 0: what prompt and n need, within the model's context")
        ->capture_default_str();
    parallel_option =
        app.add_option(
               "--parallel", parallel,
               "with --prompts: how many are generated at once; a finished one makes room for the next. Changes "
               "time and memory, not the results")
            ->capture_default_str();
    app.add_option("--top-logprobs", g.top_logprobs, "with --json: the K best tokens at each position")
        ->capture_default_str();
    add_check_finite(app, check_finite);
    app.add_flag("--ignore-eos", g.ignore_eos, "go on after the end-of-sequence token");
    app.add_flag("--json", json,
                 "JSON on stdout, one object for each prompt: prompt_ids, ids, text, logprobs, finish_reason (length, "
                 "eos, stop). ids are all that were generated, text ends before a stop string");
    device.add(app);
    app.footer(
        "\nWhat happens to the model's logits, in this order: penalties, temperature, top-k, top-p, min-p, and a draw\n"
        "that depends on the seed, the number of tokens generated so far, and what is left. Logprobs are the model's\n"
        "own: before all of these.\n"
        "\nExamples:\n"
        "  toy infer out/model.gguf --prompt \"Once upon a time\" --n 100 --temperature 0.8 --min-p 0.05 --seed 1\n"
        "  echo \"Once upon a time\" | toy infer out/model.gguf --prompt-file - --stop \"The end\"\n"
        "  toy infer out/model.gguf --prompts questions.txt --n 50 --json > answers.jsonl");
    app.callback([this] { run(); });
  }

  void add_sampling(CLI::App& app) {
    SamplerOptions& s = g.sampler;
    app.add_option(
           "--temperature", s.temperature,
           "0: always the likeliest token, whatever --top-k, --top-p, --min-p and --seed say; 1: as the model says")
        ->capture_default_str();
    of_chance = {
        app.add_option("--top-k", s.top_k, "choose among the k likeliest; 0: all")->capture_default_str(),
        app.add_option("--top-p", s.top_p, "choose among the likeliest that together reach p")->capture_default_str(),
        app.add_option("--min-p", s.min_p, "choose among those at least p times as likely as the likeliest; 0: all")
            ->capture_default_str()};
    app.add_option("--repeat-penalty", s.repeat_penalty,
                   "logits of tokens that occurred are divided by it where positive, multiplied where not (as "
                   "llama.cpp); 1: none")
        ->capture_default_str();
    app.add_option("--frequency-penalty", s.frequency_penalty,
                   "taken from a token's logit for each time it occurred (as OpenAI); 0: none")
        ->capture_default_str();
    app.add_option("--presence-penalty", s.presence_penalty,
                   "taken from a token's logit if it occurred at all (as OpenAI); 0: none")
        ->capture_default_str();
    last_n_option =
        app.add_option("--repeat-last-n", s.penalty_last_n,
                       "the last N tokens of prompt and text are what the penalties look at (as llama.cpp); -1: all, "
                       "0: no penalties")
            ->capture_default_str();
    of_chance.push_back(add_seed_option(app, s.seed, "seed of the choices, the same for every prompt"));
  }

  void check_options() const {
    check(g.max_tokens >= 0, "n is {}, expected 0 or more", g.max_tokens);
    check(g.top_logprobs >= 0, "top-logprobs is {}, expected 0 or more", g.top_logprobs);
    check(json || g.top_logprobs == 0, "top-logprobs shows in JSON only; add --json");
    check_context(context);
    check(parallel >= 1 && parallel <= 1024, "parallel is {}, expected 1 to 1024", parallel);
    check(
        prompts.several() || parallel_option->count() == 0,
        "--parallel is how many prompts are generated at once, and there is one; give several with --prompts FILE, or "
        "leave it out");
    const Sampler options_are_sound(g.sampler);
    std::vector<std::string> unused;  // no error: greedy runs of scripts that always give a seed are what they seem
    for (const CLI::Option* option : of_chance)
      if (option->count() > 0 && g.sampler.temperature == 0) unused.push_back(option->get_name());
    if (!unused.empty())
      to_stderr(
          fmt::format("toy: {} changes nothing at temperature 0, which always takes the likeliest token; add "
                      "--temperature 0.8, say\n",
                      fmt::join(unused, ", ")));
    const SamplerOptions& s = g.sampler;
    if (last_n_option->count() > 0 && s.repeat_penalty == 1 && s.frequency_penalty == 0 && s.presence_penalty == 0)
      to_stderr(
          "toy: --repeat-last-n changes nothing without a penalty; add --repeat-penalty 1.1, say, or "
          "--frequency-penalty or --presence-penalty\n");
    const StopFilter stops_are_sound(stops);
  }

  // What else than fewer tokens would help.
  const char* room_to_grow(const ModelSpec& spec) const {
    if (context > 0) return " or a larger --ctx";
    return spec.positions == PositionKind::learned ? ": these are all that the model has learned"
                                                   : " or --ctx beyond the model's own";
  }

  // How much of each prompt's continuation fits. Throws when it was asked for and does not.
  std::vector<int64_t> lengths(const std::vector<std::vector<int32_t>>& ids, const Model& model) const {
    if (context > 0) model.spec.require_positions(context, "ctx");
    const int64_t room = context > 0 ? context : model.spec.context;
    std::vector<int64_t> result;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t tokens = int64_t(ids[i].size());
      int64_t n = std::min<int64_t>(g.max_tokens, int64_t(1) << 40);  // beyond any context, and sums do not overflow
      if (n_option->count() == 0) n = std::clamp<int64_t>(room - tokens, 1, n);
      check(tokens + n <= room,
            "context: {} prompt tokens{} and {} to generate need {} positions, there are {}; use a {}{}", tokens,
            prompts.several() ? fmt::format(" ({})", prompts.where(i)) : "", n, tokens + n, room,
            tokens < room ? "smaller --n" : "shorter prompt", room_to_grow(model.spec));
      result.push_back(n);
    }
    return result;
  }

  void run() {
    check_options();
    prompts.read();
    const auto dev = device.make();
    const Model model = load_model(model_path, *dev);
    print_warnings(model_path, model.warnings);
    check(stops.empty() || model.tokenizer, "stop: {} has no tokenizer, so there is no text to stop at; use --n",
          model_path);
    const std::vector<std::vector<int32_t>> ids = prompts.tokens(model, model_path);
    const std::vector<int64_t> n = lengths(ids, model);
    int64_t needed = 0, longest = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      longest = std::max(longest, int64_t(ids[i].size()));
      needed = std::max(needed, int64_t(ids[i].size()) + n[i]);
    }
    const int64_t sequences = std::min<int64_t>(parallel, int64_t(ids.size()));
    warn_of_long_context(model_path, model.spec, std::max(context, needed));
    const int64_t rows = std::max(sequences, std::min<int64_t>(sequences * longest, 512));
    Decoder decoder(*dev, model,
                    {.sequences = int(sequences), .context = needed, .max_rows = rows, .check_finite = check_finite});
    generate_all(decoder, model, ids, n);
  }

  void generate_all(Decoder& decoder, const Model& model, const std::vector<std::vector<int32_t>>& ids,
                    const std::vector<int64_t>& n) const {
    InOrder out(ids.size(), prompts.several() && !json);
    std::vector<Text> texts;
    std::vector<std::string> whole(ids.size());
    for (const std::vector<int32_t>& prompt : ids) texts.emplace_back(model, prompt, stops);
    Scheduler scheduler(decoder);
    for (size_t i = 0; i < ids.size(); ++i) {
      GenerateRequest r{.prompt = ids[i], .eos = {}, .options = g, .on_token = {}, .on_done = {}};
      if (model.tokenizer) r.eos = model.tokenizer->eos();
      r.options.max_tokens = n[i];
      r.on_token = [&, i](const GeneratedToken& t) {
        const std::string ready = texts[i].push(t.chosen.id);
        json ? void(whole[i] += ready) : out.add(i, ready);
        return !texts[i].stopped() && std::ferror(stdout) == 0;
      };
      r.on_done = [&, i](const Generated& result) {
        const std::string rest = texts[i].finish();
        out.add(i, json ? line_of(i, ids[i], result, model.tokenizer ? whole[i] + rest : "") : rest + "\n");
        out.done(i);
      };
      scheduler.add(std::move(r));
    }
    scheduler.run();
  }

  std::string line_of(size_t i, const std::vector<int32_t>& prompt, const Generated& result,
                      const std::string& text) const {
    ordered_json j;
    if (prompts.several()) j["index"] = i;
    j.update(to_json(prompt, result, text, g.top_logprobs > 0));
    return json_text(j) + "\n";
  }
};

}  // namespace

void add_infer(CLI::App& app) {
  auto command = std::make_shared<Infer>();
  command->add(app);
  app.parse_complete_callback([command] {});
}

}  // namespace toy::cli
