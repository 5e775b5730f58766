// toy infer: continue a prompt.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/decode/generate.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  const char *p = text.data(), *end = p + text.size();
  while (p < end) {
    int32_t id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    check(error == std::errc() && (next == end || *next == ',' || *next == ' '),
          "prompt-ids '{}': expected numbers separated by commas", text);
    ids.push_back(id);
    p = next == end ? end : next + 1;
  }
  check(!ids.empty(), "prompt-ids: no numbers given");
  return ids;
}

struct Infer {
  std::string model_path, prompt, prompt_ids;
  GenerateOptions g;
  DeviceOptions device;
  int64_t context = 0;
  bool json = false, no_bos = false;
  CLI::Option *prompt_option = nullptr, *ids_option = nullptr, *n_option = nullptr;

  void add(CLI::App& app) {
    app.add_option("model", model_path, "a GGUF file")->required();
    prompt_option = add_text_option(app, "--prompt", prompt, "text to continue");
    ids_option = app.add_option("--prompt-ids", prompt_ids, "token ids to continue, as 1,2,3 (nothing is added)");
    prompt_option->excludes(ids_option);
    n_option = app.add_option("-n,--n", g.max_tokens, "tokens to generate (default: 128, or as many as fit)");
    app.add_option("--temperature", g.sampler.temperature, "0: always the likeliest token; 1: as the model says")
        ->capture_default_str();
    app.add_option("--top-k", g.sampler.top_k, "choose among the k likeliest; 0: all")->capture_default_str();
    app.add_option("--top-p", g.sampler.top_p, "choose among the likeliest that together reach p")
        ->capture_default_str();
    app.add_option("--seed", g.sampler.seed, "seed of the choices")->capture_default_str();
    app.add_option("--ctx", context,
                   "positions to make room for; 0: what prompt and n need, within the model's context")
        ->capture_default_str();
    app.add_option("--top-logprobs", g.top_logprobs, "with --json: the K best tokens at each position")
        ->capture_default_str();
    app.add_flag("--ignore-eos", g.ignore_eos, "go on after the end-of-sequence token");
    app.add_flag("--no-bos", no_bos, "do not put the beginning-of-sequence token in front of the prompt");
    app.add_flag("--json", json, "one JSON object on stdout: prompt_ids, ids, text, logprobs");
    device.add(app);
    app.footer(
        "\nExample:\n  toy infer out/model.gguf --prompt \"Once upon a time\" --n 100 --temperature 0.8 --seed 1");
    app.callback([this] { run(); });
  }

  std::vector<int32_t> prompt_tokens(const Model& model) const {
    if (ids_option->count()) return parse_ids(prompt_ids);
    check(model.tokenizer != nullptr, "{}: the file has no tokenizer; give the prompt as --prompt-ids", model_path);
    std::vector<int32_t> ids = model.tokenizer->encode(prompt);
    if (!no_bos && model.tokenizer->adds_bos() && model.tokenizer->bos())
      ids.insert(ids.begin(), *model.tokenizer->bos());
    check(!ids.empty(),
          "prompt: it is empty, and this model's tokenizer has no beginning-of-sequence token; give --prompt TEXT");
    return ids;
  }

  void run() {
    check(g.max_tokens >= 0, "n is {}, expected 0 or more", g.max_tokens);
    check(g.top_logprobs >= 0, "top-logprobs is {}, expected 0 or more", g.top_logprobs);
    check(context >= 0, "ctx is {}, expected 0 or more", context);
    const Sampler options_are_sound(g.sampler);
    const auto dev = device.make();
    const Model model = load_model(model_path, *dev);
    print_warnings(model_path, model.warnings);
    const std::vector<int32_t> ids = prompt_tokens(model);
    for (const int32_t id : ids)
      check(id >= 0 && id < model.spec.vocab, "prompt: token id {} is outside the vocabulary (0 to {})", id,
            model.spec.vocab - 1);
    const int64_t room = context > 0 ? context : model.spec.context;
    if (n_option->count() == 0) g.max_tokens = std::clamp<int64_t>(room - int64_t(ids.size()), 1, g.max_tokens);
    const int64_t needed = int64_t(ids.size()) + g.max_tokens;
    check(needed <= room,
          "context: {} prompt tokens and {} to generate need {} positions, there are {}; use a smaller --n{}",
          ids.size(), g.max_tokens, needed, room,
          context > 0 ? " or a larger --ctx" : " or --ctx beyond the model's own");
    const LayerSpec& l = model.spec.layers.front();
    require_memory(size_t(2 * 4 * needed * l.kv_heads * l.d_head) * model.spec.layers.size(),
                   "the cache of keys and values");
    Decoder decoder(*dev, model,
                    {.sequences = 1, .context = needed, .max_rows = std::min<int64_t>(int64_t(ids.size()), 512)});
    json ? print_json(decoder, model, ids) : print_text(decoder, model, ids);
  }

  // Bytes of the next token. Where a tokenizer puts a space in front of a text, the first token of a text loses it.
  static std::string piece(const Tokenizer& t, std::span<const int32_t> before, int32_t id) {
    return t.decode(before).empty() ? t.decode(std::span(&id, 1)) : t.token_bytes(id);
  }

  void print_text(Decoder& decoder, const Model& model, const std::vector<int32_t>& ids) const {
    std::vector<int32_t> all = ids;
    bool begun = model.tokenizer && !model.tokenizer->decode(ids).empty();
    Utf8Stream stream;
    const auto eos = model.tokenizer ? model.tokenizer->eos() : std::nullopt;
    generate(decoder, 0, ids, eos, g, [&](const GeneratedToken& t) {
      std::string bytes;
      if (!model.tokenizer)
        bytes = fmt::format("{} ", t.chosen.id);
      else if (!(eos && t.chosen.id == *eos))
        bytes = begun ? model.tokenizer->token_bytes(t.chosen.id) : piece(*model.tokenizer, {}, t.chosen.id);
      begun = begun || !bytes.empty();
      const std::string ready = stream.push(bytes);
      std::fwrite(ready.data(), 1, ready.size(), stdout);
      std::fflush(stdout);
      return std::ferror(stdout) == 0;
    });
    const std::string rest = stream.finish() + "\n";
    std::fwrite(rest.data(), 1, rest.size(), stdout);
  }

  void print_json(Decoder& decoder, const Model& model, const std::vector<int32_t>& ids) const {
    const auto eos = model.tokenizer ? model.tokenizer->eos() : std::nullopt;
    const std::vector<GeneratedToken> tokens = generate(decoder, 0, ids, eos, g);
    ordered_json j{
        {"prompt_ids", ids}, {"ids", ordered_json::array()}, {"text", ""}, {"logprobs", ordered_json::array()}};
    std::string text;
    std::vector<int32_t> shown;
    for (const GeneratedToken& t : tokens) {
      j["ids"].push_back(t.chosen.id);
      j["logprobs"].push_back(t.chosen.logprob);
      if (!(eos && t.chosen.id == *eos)) shown.push_back(t.chosen.id);
      if (g.top_logprobs > 0) {
        ordered_json best = ordered_json::array();
        for (const TokenLogprob& b : t.best) best.push_back({{"id", b.id}, {"logprob", b.logprob}});
        j["top_logprobs"].push_back(best);
      }
    }
    if (model.tokenizer) {
      bool begun = !model.tokenizer->decode(ids).empty();
      for (const int32_t id : shown) {
        text += begun ? model.tokenizer->token_bytes(id) : piece(*model.tokenizer, {}, id);
        begun = begun || !text.empty();
      }
    }
    j["text"] = text;
    fmt::print("{}\n", j.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  }
};

}  // namespace

void add_infer(CLI::App& app) {
  auto command = std::make_shared<Infer>();
  command->add(app);
  app.parse_complete_callback([command] {});
}

}  // namespace toy::cli
