// toy infer: continue prompts.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/classify.h"
#include "cli/run/draft.h"
#include "cli/run/prompts.h"
#include "cli/run/sampling.h"
#include "talk/markdown.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/decode/service.h"
#include "toy/grammar/grammar.h"
#include "toy/models/embedding_rule.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

void write_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// Results in the order of their prompts. The first that is not finished is shown as it grows, the others wait.
class InOrder {
 public:
  InOrder(size_t count, bool headings) : parts_(count), headings_(headings) {}

  void add(size_t i, std::string_view text, bool is_last = false) {
    parts_[i].text += text;
    parts_[i].done = is_last;
    for (; at_ < parts_.size(); ++at_) {
      Part& p = parts_[at_];
      if (headings_ && !std::exchange(p.begun, true)) write_out(fmt::format("--- prompt {} ---\n", at_ + 1));
      write_out(std::exchange(p.text, {}));
      if (!p.done) break;
    }
    std::fflush(stdout);
  }

 private:
  struct Part {
    std::string text;
    bool begun = false, done = false;
  };
  std::vector<Part> parts_;
  bool headings_;
  size_t at_ = 0;
};

// Texts that cannot go on, while others do.
class Failures {
 public:
  void add(size_t i, const std::exception_ptr& error) {
    if (count_++ == 0) at_ = i, first_ = error;
    of_all_ = of_all_ || (count_ > 1 && error == first_);  // an error of the decoder, not of a text
  }
  // The first one, with the name of its prompt.
  void rethrow(const PromptOptions& prompts) const {
    if (!first_) return;
    if (of_all_ || !prompts.several()) std::rethrow_exception(first_);
    try {
      std::rethrow_exception(first_);
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("{}: {}{}", prompts.where(at_), e.what(),
                                        count_ > 1 ? fmt::format(" ({} more failed)", count_ - 1) : ""));
    }
  }

 private:
  std::exception_ptr first_;
  size_t at_ = 0, count_ = 0;
  bool of_all_ = false;
};

struct Infer : Command {
  std::string model_path;
  PromptOptions prompts;
  SamplingOptions sampling;
  GenerateOptions g;
  std::vector<std::string> stops;
  DeviceOptions device;
  DecodingOptions decoding;
  AdapterOptions adapters;
  DraftOptions draft;
  int64_t context = 0, parallel = 16;
  bool json = false;
  std::string schema_file, grammar_file;
  ClassifyOptions pictures;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    prompts.add(app);
    pictures.add(app);
    sampling.sampler.temperature = 0;  // texts that are the same every time
    sampling.add(app);
    draft.add(app);
    begin_group(app, "Output");
    CLI::Option* schema =
        add_option(app, "--json-schema", schema_file, "File with a JSON Schema that the text follows", file_name());
    add_option(app, "--grammar", grammar_file, "File with a grammar (GBNF) that the text follows", file_name())
        ->excludes(schema);
    add_option(app, "-n,--n", g.max_tokens, "Tokens to generate; -1 for as many as fit (default: at most 128)",
               at_least(-1));
    add_text_option(app, "--stop", stops, "End the text before this string");
    app.add_flag("--ignore-eos", g.ignore_eos, "Continue after a token that ends a text");
    app.add_flag("--json", json, "Print one JSON object per prompt: ids, text, logprobs, finish_reason, ...");
    add_option(app, "--top-logprobs", g.top_logprobs, "With --json, also print the N best tokens at each position",
               at_least(0));
    begin_group(app, "Machine");
    add_context_option(app, context, "Positions to reserve; 0 takes what the prompt and --n need");
    add_option(app, "--parallel", parallel, "Prompts of --prompts to generate at once", from_to(1, 1024));
    decoding.add(app, {"check_finite"});
    device.add(app);
    show_in_help(app, {"--prompt", "--prompt-file", "--prompts", "--temperature", "--top-k", "--top-p", "--min-p",
                       "--seed", "--n", "--stop", "--json-schema", "--grammar", "--image", "--json", "--threads"});
    app.footer(
        "Logits pass through the chain of --samplers (toy help sampling.md). Logprobs are those of the unchanged "
        "model.\n\n"
        "Examples:\n"
        "  toy infer out/book --prompt \"Once upon a time\" --temperature 0.8\n"
        "  echo \"Once upon a time\" | toy infer out/book\n"
        "  toy infer out/book --prompts questions.txt --json > answers.jsonl\n"
        "  toy infer out/digits --image seven.png\n"
        "  toy infer out/mood --prompt \"what a lovely film\"");
  }

  // What needs the model's tokenizer.
  void add_to_sampler(const Model& model) {
    g.sampler = sampling.of(model);
    if (grammar_file.empty() && schema_file.empty()) return;
    require_tokenizer(model, model_path, schema_file.empty() ? "remove --grammar" : "remove --json-schema");
    const Grammar grammar = schema_file.empty() ? parse_gbnf(read_grammar(grammar_file), grammar_file)
                                                : json_schema_grammar(read_schema(schema_file), schema_file);
    g.sampler.constraint = grammar.constraint(TokenTrie(*model.tokenizer));
  }

  void check_options() const {
    check(json || g.top_logprobs == 0, "--top-logprobs needs JSON; add --json");
    check(prompts.several() || !given("--parallel"),
          "--parallel needs several prompts; add --prompts FILE or remove it");
    sampling.check_together(*parser);
    const StopFilter stops_are_sound(stops);
  }

  // What to do where a prompt and what follows do not fit.
  std::string way_out(int64_t tokens, int64_t n, int64_t room, const ModelSpec& spec) const {
    constexpr int64_t kFar = 4;  // times too long: no --ctx helps
    if (tokens > kFar * room && n < room)
      return fmt::format("at most {} prompt tokens fit; shorten it, or score the text: toy eval {} --file FILE",
                         room - n, shell_quoted(model_path));
    return fmt::format("use {}{}", tokens < room ? fmt::format("--n {} or less", room - tokens) : "a shorter prompt",
                       room_to_grow(spec));
  }

  // What else than fewer tokens would help.
  const char* room_to_grow(const ModelSpec& spec) const {
    if (context > 0) return ", or a larger --ctx";
    return spec.positions == PositionKind::learned ? "; the model has no more positions"
                                                   : ", or --ctx beyond the model's context";
  }

  // How much of each prompt's continuation fits. Throws when it was asked for and does not.
  std::vector<int64_t> lengths(const std::vector<std::vector<int32_t>>& ids, const Model& model) const {
    if (context > 0) model.spec.require_positions(context, "ctx");
    const int64_t room = context > 0 ? context : model.spec.context;
    int64_t longest = 0;
    for (const auto& prompt : ids) longest = std::max(longest, int64_t(prompt.size()));
    std::vector<int64_t> result;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t tokens = int64_t(ids[i].size());
      const int64_t fit = std::max<int64_t>(room - tokens, 1), n = g.max_tokens < 0 ? fit
                                                                   : given("--n")   ? g.max_tokens
                                                                                    : std::min(fit, g.max_tokens);
      const uint64_t needed = uint64_t(tokens) + uint64_t(n);
      check(needed <= uint64_t(room), "context: {} prompt tokens{} and {} to generate need {} positions of {}; {}",
            tokens, prompts.several() ? fmt::format(" ({})", prompts.where(i)) : "", n, needed, room,
            way_out(longest, n, room, model.spec));
      result.push_back(n);
    }
    return result;
  }

  void run() {
    if (!pictures.files.empty()) {
      refuse_options_of_text(*parser, "--image");
      model_path = model_file(model_path);
      return classify(*device.make(), model_path, pictures, json);
    }
    sampling.read(*parser);
    check_options();
    prompts.read();
    const bool by_prompt = prompts.any_lora(adapters.lora.size());
    model_path = model_file(model_path, given("text") ? parser->get_option("text")->as<std::string>() : "");
    const auto dev = device.make();
    require_room_to_decode(*dev, model_path,
                           {.context = std::max(g.max_tokens, kPagePositions),  // at least
                            .max_rows = 1,
                            .kv = decoding.decoder.kv,
                            .exact = decoding.decoder.exact});
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    if (model.spec.score.classifies()) {
      refuse_options_of_generation(*parser);
      prompts.read_piped();
      print_warnings(model_path, model.warnings);
      return classify_texts(*dev, model, model_path, prompts, pictures.top, json);
    }
    check(!given("--top"), "--top is for classes, of pictures (--image) or of a classifier of texts; remove it");
    if (const CLI::Option* text = parser->get_option("text"); text->count() > 0 && model.spec.vision.there()) {
      std::error_code error;
      check(!std::filesystem::exists(text->as<std::string>(), error),
            "{0}: the model tells classes of pictures: toy infer {0} --image {1}", shell_quoted(model_path),
            shell_quoted(text->as<std::string>()));
    }
    require_causal(model.spec);
    prompts.read_piped();
    if (!stops.empty()) require_tokenizer(model, model_path, "remove --stop");
    for (const std::string& stop : stops) note_line_breaks(stop);
    const std::vector<std::vector<int32_t>> ids = prompts.tokens(model, model_path);
    add_to_sampler(model);
    print_warnings(model_path, model.warnings);
    if (const std::string chosen = sampling.chosen(model); !chosen.empty()) to_stderr(fmt::format("toy: {}\n", chosen));
    const std::vector<int64_t> n = lengths(ids, model);
    int64_t needed = 0, longest = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      longest = std::max(longest, int64_t(ids[i].size()));
      needed = std::max(needed, int64_t(ids[i].size()) + n[i]);
    }
    const int64_t sequences = std::min<int64_t>(parallel, int64_t(ids.size()));
    warn_of_long_context(model_path, model.spec, std::max(context, needed));
    Draft proposes = draft.load(*dev, model);
    const int64_t rows = std::max(proposes.rows(sequences), std::min<int64_t>(sequences * longest, 512));
    int64_t all = std::accumulate(n.begin(), n.end(), int64_t(0));
    if (proposes.proposes()) all *= 4;  // rows, about: proposed ones need fast products as well
    Decoder decoder(*dev, model,
                    {.sequences = int(sequences),
                     .context = needed,
                     .max_rows = rows,
                     .check_finite = decoding.decoder.check_finite,
                     .kv = decoding.decoder.kv,
                     .exact = decoding.decoder.exact,
                     .adapters_by_sequence = by_prompt,
                     .repack = decoding.repacks(model, all, 0)});
    proposes.follow(*dev, decoder, decoding, all);
    generate_all(decoder, model, ids, n, proposes.options);
  }

  void generate_all(Decoder& decoder, const Model& model, const std::vector<std::vector<int32_t>>& ids,
                    const std::vector<int64_t>& n, const SpeculationOptions& speculation) const {
    InOrder out(ids.size(), prompts.several() && !json);
    if (const std::string shown = prompts.shown(); !json && is_terminal(STDOUT_FILENO))
      write_out(has_color(STDOUT_FILENO) ? talk::dimmed(shown) : shown);
    const bool has_text = model.tokenizer != nullptr;  // else it is the ids
    std::vector<std::string> whole(ids.size());
    Failures failures;
    GenerationService service(decoder, model.tokenizer.get(), SIZE_MAX, speculation);
    for (size_t i = 0; i < ids.size(); ++i) {
      TextRequest r{.prompt = ids[i], .options = g, .adapters = prompts.lora(i), .stops = stops};
      r.options.max_tokens = n[i];
      r.options.logprobs = json;
      r.on_text = [&, i](const GeneratedToken& token, const std::string& text) {
        if (json)
          whole[i] += text;
        else
          out.add(i, has_text ? text : fmt::format("{} ", token.chosen.id));
        return std::ferror(stdout) == 0;
      };
      r.on_end = [&, i](const TextEnd& end) {
        if (end.error) {
          failures.add(i, end.error);
          if (prompts.several()) out.add(i, json ? failed_line(i, end.error) : "\n", true);
          return;
        }
        if (g.sampler.constraint && end.generated.reason == FinishReason::length)
          to_stderr(fmt::format("toy: the text{} was cut before it was complete; use a larger --n\n",
                                prompts.several() ? fmt::format(" of prompt {}", i + 1) : ""));
        const bool at_once = end.generated.reason == FinishReason::eos && end.generated.tokens.size() <= 1;
        if (at_once && !json)
          to_stderr(
              fmt::format("toy: the model ended the text{} at once; {}\n",
                          prompts.several() ? fmt::format(" of prompt {}", i + 1) : "",
                          model.metadata.contains("tokenizer.chat_template")
                              ? fmt::format("it is trained for conversations: toy chat {}", shell_quoted(model_path))
                              : "--ignore-eos continues it"));
        out.add(i, json ? line_of(decoder, model, i, ids[i], end.generated, whole[i] + end.text) : end.text + "\n",
                true);
      };
      service.submit(std::move(r));
    }
    with_sound_weights({model_path}, [&] {
      service.run();
      failures.rethrow(prompts);
    });
    if (const ServiceCounts c = service.counts(); speculation.active() && !json && c.tokens > 0)
      to_stderr(fmt::format("toy: draft: {} of {} proposed tokens accepted, {:.2f} tokens per call and text\n",
                            c.accepted, c.proposed, double(c.tokens) / double(c.tokens - c.accepted)));
  }

  static std::string failed_line(size_t i, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      return json_text(ordered_json{{"index", i}, {"error", e.what()}}) + "\n";
    }
  }

  std::string line_of(const Decoder& decoder, const Model& model, size_t i, const std::vector<int32_t>& prompt,
                      const Generated& result, const std::string& text) const {
    const ordered_json none = ordered_json::array();
    ordered_json ids = none, logprobs = none, top_logprobs = none, j;
    for (const GeneratedToken& t : result.tokens) {
      ids.push_back(t.chosen.id);
      logprobs.push_back(t.chosen.logprob);
      ordered_json& best = top_logprobs.emplace_back(none);
      for (const TokenLogprob& b : t.best) {
        best.push_back({{"id", b.id}, {"logprob", b.logprob}});
        if (model.tokenizer) best.back()["text"] = model.tokenizer->written(b.id);
      }
    }
    if (prompts.several()) j["index"] = i;
    j["prompt_ids"] = prompt, j["ids"] = ids, j["text"] = text, j["logprobs"] = logprobs;
    if (g.top_logprobs > 0) j["top_logprobs"] = top_logprobs;
    const FinishReason reason = result.reason;
    j["finish_reason"] = reason == FinishReason::length     ? "length"
                         : reason == FinishReason::eos      ? "eos"
                         : reason == FinishReason::complete ? "complete"
                                                            : "stop";
    if (!draft.draft.empty())
      j["draft"] = {{"proposed", result.speculation.proposed}, {"accepted", result.speculation.accepted}};
    if (g.sampler.temperature > 0) j["seed"] = g.sampler.seed;
    j["products"] = products_name(decoder.rounds()), j["kv"] = name_of(decoder.kv());
    j["repacked_bytes"] = decoder.repacked_bytes();
    return json_text(j) + "\n";
  }
};

}  // namespace

void add_infer(CLI::App& app) { add_subcommand<Infer>(app, "infer", "Generate text with a GGUF model"); }

}  // namespace toy::cli
