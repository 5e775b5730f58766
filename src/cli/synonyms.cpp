#include "cli/synonyms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"
#include "toy/base/options.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

using Words = std::vector<std::string>;

struct Synonym {
  std::string_view theirs, ours;
};

// Commands of llama.cpp, Ollama, Hugging Face, MLX and Axolotl. `ours` may be a command and its subcommand.
constexpr Synonym kCommands[] = {
    {"run", "chat"},
    {"generate", "infer"},
    {"inference", "infer"},
    {"server", "serve"},
    {"embedding", "embed"},
    {"embeddings", "embed"},
    {"encode", "embed"},
    {"pull", "fetch"},
    {"download", "fetch"},
    {"models", "list"},
    {"ls", "list"},
    {"show", "describe"},
    {"info", "describe"},
    {"inspect", "describe"},
    {"export", "convert"},
    {"import", "convert"},
    {"perplexity", "eval"},
    {"evaluate", "eval"},
    {"benchmark", "bench"},
    {"sample", "infer"},
    {"plot", "runs report"},
    {"tokenize", "tokenizer encode"},
    {"detokenize", "tokenizer decode"},
    {"imatrix", "quantize imatrix"},
    {"finetune", "train lora"},
    {"fine-tune", "train lora"},
    {"sft", "train lora"},
    {"pretrain", "train from-scratch"},
    {"init", "new"},
    {"version", "--version"},
};
constexpr Synonym kRecipes[] = {
    {"finetune", "lora"},        {"fine-tune", "lora"},     {"sft", "lora"},
    {"qlora", "lora"},           {"full", "full-finetune"}, {"pretrain", "from-scratch"},
    {"scratch", "from-scratch"},
};

// Options, after _ has become -. The first of several that the command has is meant. "model", "in" and "out" are
// arguments.
constexpr Synonym kOptions[] = {
    {"-m", "--model"},
    {"-m", "--init"},
    {"-m", "model"},
    {"-m", "in"},
    {"--model", "--init"},
    {"--model", "model"},
    {"--model", "in"},
    {"--model-path", "--model"},
    {"--model-path", "--init"},
    {"--model-path", "model"},
    {"--model-name-or-path", "--model"},
    {"--base-model", "--model"},
    {"--base-model", "model"},
    {"--max-tokens", "--n"},
    {"--max-new-tokens", "--n"},
    {"--max-completion-tokens", "--n"},
    {"--length", "--n"},
    {"--num-tokens", "--n"},
    {"--n-predict", "--n"},
    {"--num-predict", "--n"},
    {"--predict", "--n"},
    {"--temp", "--temperature"},
    {"--repetition-penalty", "--repeat-penalty"},
    {"--random-seed", "--seed"},
    {"-s", "--seed"},
    {"-t", "--threads"},
    {"--num-threads", "--threads"},
    {"--n-threads", "--threads"},
    {"-c", "--ctx"},
    {"--ctx-size", "--ctx"},
    {"--n-ctx", "--ctx"},
    {"--num-ctx", "--ctx"},
    {"--context-size", "--ctx"},
    {"--max-model-len", "--ctx"},
    {"--context", "--ctx"},
    {"--context-length", "--ctx"},
    {"--context-length", "--context"},
    {"-f", "--prompt-file"},
    {"-f", "--file"},
    {"--text", "--prompt"},
    {"--system-prompt", "--system"},
    {"-sys", "--system"},
    {"--stop-sequence", "--stop"},
    {"--reverse-prompt", "--stop"},
    {"-r", "--stop"},
    {"--grammar-file", "--grammar"},
    {"--json-schema-file", "--json-schema"},
    {"--chat-template-file", "--chat-template"},
    {"--adapter", "--lora"},
    {"--adapter-path", "--lora"},
    {"--lora-adapter", "--lora"},
    {"--model-draft", "--draft"},
    {"--draft-model", "--draft"},
    {"-md", "--draft"},
    {"-np", "--parallel"},
    {"--n-parallel", "--parallel"},
    {"--max-num-seqs", "--parallel"},
    {"--kv-cache-dtype", "--kv"},
    {"--cache-type", "--kv"},
    {"--served-model-name", "--alias"},
    {"--ssl-cert-file", "--tls-cert"},
    {"--ssl-certfile", "--tls-cert"},
    {"--ssl-key-file", "--tls-key"},
    {"--ssl-keyfile", "--tls-key"},
    {"--learning-rate", "--lr"},
    {"--batch-size", "--batch"},
    {"--per-device-train-batch-size", "--batch"},
    {"--micro-batch-size", "--batch"},
    {"--gradient-accumulation-steps", "--accumulate"},
    {"--grad-accumulation-steps", "--accumulate"},
    {"--num-epochs", "--epochs"},
    {"--num-train-epochs", "--epochs"},
    {"--n-epochs", "--epochs"},
    {"--max-steps", "--steps"},
    {"--iters", "--steps"},
    {"--max-iters", "--steps"},
    {"--iterations", "--steps"},
    {"--num-steps", "--steps"},
    {"--ppo-epochs", "--num-iterations"},
    {"--num-generations", "--group"},
    {"--max-completion-length", "--max-tokens"},
    {"--loss-type", "--loss"},
    {"--warmup-steps", "--warmup"},
    {"--warmup-iters", "--warmup"},
    {"--lr-scheduler", "--schedule"},
    {"--lr-scheduler-type", "--schedule"},
    {"--max-grad-norm", "--clip"},
    {"--grad-clip", "--clip"},
    {"--gradient-clip", "--clip"},
    {"--optim", "--optimizer"},
    {"--max-seq-length", "--tokens"},
    {"--max-seq-len", "--tokens"},
    {"--seq-len", "--tokens"},
    {"--sequence-len", "--tokens"},
    {"--block-size", "--tokens"},
    {"--max-length", "--tokens"},
    {"--base", "--model"},
    {"--base", "--init"},
    {"--base", "model"},
    {"--file", "--corpus"},
    {"--input", "--corpus"},
    {"--dataset", "--data"},
    {"--corpus", "--data"},
    {"--train-file", "--data"},
    {"--validation", "--val"},
    {"--valid", "--val"},
    {"--validation-file", "--val"},
    {"--eval-steps", "--eval-every"},
    {"--eval-interval", "--eval-every"},
    {"--save-steps", "--checkpoint-every"},
    {"--save-every", "--checkpoint-every"},
    {"--save-interval", "--checkpoint-every"},
    {"--save-total-limit", "--keep"},
    {"--logging-steps", "--log-every"},
    {"--log-interval", "--log-every"},
    {"--lora-rank", "--rank"},
    {"--lora-r", "--rank"},
    {"--lora-alpha", "--alpha"},
    {"--target-modules", "--targets"},
    {"--lora-target-modules", "--targets"},
    {"--use-dora", "--dora"},
    {"--use-rslora", "--rslora"},
    {"--input", "in"},
    {"--input", "text"},
    {"--repeats", "--repeat"},
    {"--repeats", "--steps"},
    {"--repeat", "--steps"},
    {"-o", "--out"},
    {"-o", "out"},
    {"--out", "out"},
    {"--outfile", "--out"},
    {"--outfile", "out"},
    {"--output-file", "--out"},
    {"--output-file", "out"},
    {"--output", "--out"},
    {"--output", "out"},
    {"--output-dir", "--out"},
    {"--out-dir", "--out"},
    {"--save-dir", "--out"},
    {"--quantization", "--type"},
    {"--qtype", "--type"},
    {"--outtype", "--type"},
};

// What reinforcement learning does without, and why.
constexpr std::string_view kDrawn =
    "answers are drawn at temperature 1 from all tokens, because training learns the probabilities that they are drawn "
    "with";
constexpr std::string_view kConstrained =
    "a constraint changes the probabilities that training learns; --reward json:FILE judges finished answers instead";
constexpr std::string_view kOtherBits =
    "the probabilities that answers are drawn with would have other bits than training's; both are in f32 and drop "
    "nothing";

// Options of other programs that have no counterpart, and why; `of`: only where the command has this option.
constexpr struct {
  std::string_view theirs, reason, of = {};
} kNeedless[] = {
    {"-ngl", "all layers run on --device"},
    {"--n-gpu-layers", "all layers run on --device"},
    {"--gpu-layers", "all layers run on --device"},
    {"--tensor-parallel-size", "a model runs on one device"},
    {"-tp", "a model runs on one device"},
    {"--gpu-memory-utilization", "--ctx and --parallel decide on the memory"},
    {"--flash-attn", "attention never stores its scores"},
    {"-fa", "attention never stores its scores"},
    {"--gpu", "--device cuda computes on a GPU (toy devices shows what this machine has)", "--device"},
    {"--cuda", "--device cuda computes on a GPU (toy devices shows what this machine has)", "--device"},
    {"--text", "--corpus takes a file or a folder; write the text into a file", "--corpus"},
    {"--prompt", "--file scores the text of a file, and --file - reads standard input", "--stride"},
    {"--message", "the message comes after the model: toy chat MODEL TEXT", "--tool-command"},
    {"--prompt", "the message comes after the model: toy chat MODEL TEXT", "--tool-command"},
    {"--mlock", "files are mapped, and the system keeps what is used"},
    {"--no-mmap", "files are always mapped"},
    {"--jinja", "chat templates and tools are always on"},
    {"--enable-auto-tool-choice", "chat templates and tools are always on"},
    {"--tool-call-parser", "the chat template decides how tools are called"},
    {"--reasoning-parser", "the chat template decides how reasoning is told apart"},
    {"--embedding", "embeddings are always served"},
    {"--embeddings", "embeddings are always served"},
    {"--verbose", "progress goes to stderr, and --json prints events for programs"},
    {"--bf16", "--compute bf16 chooses the type of products"},
    {"--fp16", "--compute bf16 chooses the type of products"},
    {"--load-in-4bit", "quantize the file first: toy quantize MODEL OUT --type Q4_K_M"},
    {"--qlora", "lora trains a quantized model as it is: toy quantize MODEL OUT --type Q4_K_M", "--corpus"},
    {"--lora", "a new adapter begins from a model; add the old one to it: toy merge MODEL --lora FILE --out OUT",
     "--corpus"},
    {"--tasks", "questions of a file are scored by toy eval choices MODEL FILE", "--stride"},
    {"--model-dir", "HF_HUB_CACHE, HF_HOME and OLLAMA_MODELS say where models are"},
    {"--models-dir", "HF_HUB_CACHE, HF_HOME and OLLAMA_MODELS say where models are"},
    {"--bytes", "--rows says how many", "--rows"},
    {"--bytes", "--images says how many", "--images"},
    {"--rows", "--images says how many", "--images"},
    {"--rows", "--bytes says how much", "--bytes"},
    {"--load-in-8bit", "quantize the file first: toy quantize MODEL OUT --type Q8_0"},
    {"--temp", kDrawn, "--reward"},
    {"--temperature", kDrawn, "--reward"},
    {"--top-p", kDrawn, "--reward"},
    {"--top-k", kDrawn, "--reward"},
    {"--min-p", kDrawn, "--reward"},
    {"--repeat-penalty", kDrawn, "--reward"},
    {"--samplers", kDrawn, "--reward"},
    {"--json-schema", kConstrained, "--reward"},
    {"--grammar", kConstrained, "--reward"},
    {"--compute", kOtherBits, "--reward"},
    {"--kv", kOtherBits, "--reward"},
    {"--dropout", kOtherBits, "--reward"},
    {"--lora-dropout", kOtherBits, "--reward"},
    {"--temp", "each request says how it is sampled", "--port"},
    {"--temperature", "each request says how it is sampled", "--port"},
    {"--top-p", "each request says how it is sampled", "--port"},
    {"--top-k", "each request says how it is sampled", "--port"},
    {"--api-key", "others can read a command line; put keys into a file for --api-key-file", "--api-key-file"},
    {"--gradient-checkpointing", "--memory SIZE recomputes activations where it has to"},
};

// Commands of a group that it does not have, and why.
constexpr struct {
  std::string_view of, theirs, reason;
} kNeedlessCommands[] = {
    {"runs", "delete", "a run is a folder; remove that"},
    {"runs", "remove", "a run is a folder; remove that"},
    {"runs", "rm", "a run is a folder; remove that"},
    {"runs", "rename", "a run is a folder; rename that"},
    {"runs", "resume", "toy train --resume --out FOLDER resumes it"},
};

// Values of other programs.
constexpr struct {
  std::string_view option, theirs, ours;
} kValues[] = {{"--device", "gpu", "cuda"}, {"--device", "cuda:0", "cuda"}};

void tell(std::string_view theirs, std::string_view ours) {
  to_stderr(fmt::format("toy: {} is {} here\n", one_line(std::string(theirs)), ours));
}

Words split(std::string_view words) { return CLI::detail::split(std::string(words), ' '); }

// The word before '=', with hyphens: "--max_tokens=5" is "--max-tokens".
std::string name_of(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// "true" or "false" where a flag is given one of the usual words for it, else the word.
std::string truth(const std::string& word) {
  const std::string lower = CLI::detail::to_lower(word);
  if (lower == "1" || lower == "yes" || lower == "on" || lower == "true") return "true";
  return lower == "0" || lower == "no" || lower == "off" || lower == "false" ? "false" : word;
}

std::string upper_case(std::string word) {
  for (char& c : word) c = char(std::toupper(uint8_t(c)));
  return word;
}

}  // namespace

std::string our_option(const CLI::App& app, const std::string& written) {
  const std::string theirs = name_of(written);
  const auto has = [&](const std::string& name) { return app.get_option_no_throw(name) != nullptr; };
  for (const std::string& name : {theirs, "-" + theirs}) {  // "-temp" is "--temp"
    if (name != theirs && (name.size() < 4 || !name.starts_with("--") || name.starts_with("---"))) continue;
    if (has(name)) return name;
    for (const Synonym& s : kOptions)
      if (s.theirs == name && has(std::string(s.ours))) return std::string(s.ours);
  }
  return {};
}

namespace {

// Our commands for a first word that is none of them, or the word. A recipe's name alone is `train` with it.
Words our_command(const CLI::App& root, const std::string& word) {
  if (find_command(root, word)) return {word};
  for (const Synonym& s : kCommands)
    if (s.theirs == word) return split(s.ours);
  if (const CLI::App* train = find_command(root, "train"); train && find_command(*train, word)) return {"train", word};
  return {word};
}

Words our_commands(const CLI::App& root, Words words) {
  const size_t first = words[0] == "help" ? 1 : 0;
  if (words.size() <= first || words[first].starts_with("-")) return words;
  if (std::error_code error; first == 0 && words.size() == 2 && words[1] == "help" && find_command(root, words[0]) &&
                             !std::filesystem::exists("help", error))
    return {words[0], "--help"};
  const auto replace = [&](size_t at, const Words& ours) {
    if (ours == Words{words[at]}) return;
    tell(fmt::format("'{}'", words[at]), fmt::format("`toy {}{}`", at > first ? "train " : "", fmt::join(ours, " ")));
    words.erase(words.begin() + std::ptrdiff_t(at));
    words.insert(words.begin() + std::ptrdiff_t(at), ours.begin(), ours.end());
  };
  replace(first, our_command(root, words[first]));
  if (const size_t second = first + 1; words[first] == "train" && words.size() > second)
    for (const Synonym& s : kRecipes)
      if (s.theirs == words[second]) return replace(second, split(s.ours)), words;
  return words;
}

// As text programs make of "--".
void refuse_typographic_dash(const CLI::App& app, const std::string& word) {
  for (const std::string_view dash : {"\u2013", "\u2014", "\u2212", "\u2010", "\u2011"}) {
    if (!word.starts_with(dash) || word.size() == dash.size()) continue;
    const std::string option = "--" + word.substr(dash.size());
    check(our_option(app, name_of(option)).empty(), "'{}' begins with a typographic dash; write {}", word, option);
  }
}

// "top_k,temp", and not "penalties(repeat=1.1,last=64)".
bool separates_by_commas(const std::string& chain) {
  int depth = 0;
  return std::ranges::any_of(chain, [&](char c) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    return c == ',' && depth == 0;
  });
}

// An option with a value that other programs have, or that belongs to another option, in our words.
void say_our_value(const CLI::App& app, const Words& all, std::string& name, std::string& value) {
  for (const auto& v : kValues)
    if (v.option == name && v.theirs == value) {
      tell(fmt::format("{} {}", name, v.theirs), v.ours);
      value = std::string(v.ours);
    }
  // A part of the text, and no file; alone, so that a contradiction stays one.
  double part = 0;
  const auto of_validation = [](const std::string& word) { return word.starts_with("--val"); };
  if (name != "--val" || !read_number(value, from_to_below(0, 1), part).empty() || std::filesystem::exists(value) ||
      !app.get_option_no_throw("--val-fraction") || std::ranges::count_if(all, of_validation) != 1)
    return;
  tell("--val " + value, "--val-fraction " + value);
  name = "--val-fraction";
}

}  // namespace

std::string needless_option(const CLI::App& app, const std::string& theirs) {
  const std::string name = name_of(theirs);
  for (const auto& n : kNeedless)
    if (n.theirs == name && (n.of.empty() || app.get_option_no_throw(std::string(n.of)))) return std::string(n.reason);
  return {};
}

Words known_synonyms(const CLI::App& app) {
  Words names;
  for (const Synonym& s : kOptions)
    if (s.theirs.size() > 3 && app.get_option_no_throw(std::string(s.ours))) names.emplace_back(s.theirs);
  return names;
}

std::string known_command(const std::string& word) {
  Words names;
  for (const Synonym& s : kCommands) names.emplace_back(s.theirs);
  const std::string near = nearest(word, names);
  for (const Synonym& s : kCommands)
    if (s.theirs == near) return std::string(s.ours);
  return {};
}

std::string needless_command(const CLI::App& app, const std::string& word) {
  for (const auto& n : kNeedlessCommands)
    if (n.theirs == word && n.of == app.get_name()) return std::string(n.reason);
  return {};
}

Words in_our_words(const CLI::App& root, const Words& given) {
  if (given.empty()) return given;
  const Words words = our_commands(root, given);
  const CLI::App* app = &root;
  size_t arguments = 0;  // where they begin
  Words ours, last;
  std::set<const CLI::Option*> texts;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    if (const CLI::App* sub = find_command(*app, word)) {
      app = sub;
      ours.push_back(word);
      arguments = ours.size();
      continue;
    }
    if (word == "--") return ours.insert(ours.end(), words.begin() + std::ptrdiff_t(i), words.end()), ours;
    refuse_typographic_dash(*app, word);
    std::string name = word.substr(0, word.find('='));
    const bool known = name.size() < 2 || name[0] != '-' || app->get_option_no_throw(name);
    std::string found = known ? "" : our_option(*app, name_of(word));
    if (!known && found.empty() && app == find_command(root, "train"))  // of a run whose recipe comes later
      found = our_option(*app->get_subcommands({})[0], name_of(word));
    if (found == name) found.clear();
    // The parser would read -ngl as -n gl.
    if (!known && found.empty() && name[1] != '-' && name.size() > 2 && app->get_option_no_throw(name.substr(0, 2)))
      if (const std::string reason = needless_option(*app, name); !reason.empty())
        fail("unknown option '{}'; {}", name, reason);
    if (!found.empty()) {
      if (found != name) tell(name, found.starts_with("-") ? found : "the argument " + upper_case(found));
      if (!found.starts_with("-")) {
        const bool joined = word.size() > name.size();
        if (!joined && i + 1 == words.size()) continue;  // the parser says that the argument is missing
        const std::string value = joined ? word.substr(name.size() + 1) : words[++i];
        if (found == "out" || found == "text")  // it comes after the model
          last.push_back(value);
        else
          ours.insert(ours.begin() + std::ptrdiff_t(arguments), value);
        continue;
      }
      word = found + word.substr(name.size());
      name = found;
    }
    const CLI::Option* option = name.size() > 1 && name[0] == '-' ? app->get_option_no_throw(name) : nullptr;
    if (option && is_flag(*option) && word != name) word = name + "=" + truth(word.substr(name.size() + 1));
    const bool has_value =
        option && option->get_items_expected_min() > 0;  // as it is, also where it begins with a dash
    if (!has_value || (word == name && i + 1 == words.size())) {
      ours.push_back(word);
      continue;
    }
    const bool joined = word != name;
    std::string value = joined ? word.substr(name.size() + 1) : words[++i];
    const std::string other = value.substr(0, value.find('='));
    check(
        joined || takes_any_text(name) || !other.starts_with("--") || other == "--" || !app->get_option_no_throw(other),
        "{} has no value: what follows is the option {}; give one, or write {}=VALUE for a value that looks so", name,
        other, name);
    check(name != "--samplers" || value.find(';') != value.npos || !separates_by_commas(value),
          "--samplers is '{}'; write ; between its steps, not a comma", value);
    if (option->get_items_expected_max() == 1 && takes_any_text(name))
      check(texts.insert(option).second, "{} is given twice; remove one{}", option->get_name(),
            app->get_option_no_throw("--prompts") ? ", or give several prompts with --prompts FILE" : "");
    say_our_value(*app, words, name, value);
    ours.push_back(joined ? name + "=" + value : name);
    if (!joined) ours.push_back(value);
  }
  ours.insert(ours.end(), last.begin(), last.end());
  return ours;
}

}  // namespace toy::cli
