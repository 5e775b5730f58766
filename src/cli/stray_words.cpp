#include "cli/stray_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/synonyms.h"
#include "toy/base/error.h"
#include "toy/base/run_files.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/formats/gguf.h"
#include "toy/formats/requantize.h"

namespace toy::cli {

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

std::string shown_name(const CLI::Option& option) {
  std::string name = option.get_positional() ? option.get_name(true) : option.get_name();
  if (option.get_positional())
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

bool is_model_file(const std::string& path) {
  std::error_code error;
  return path.ends_with(".gguf") || std::filesystem::exists(path + "/model.gguf", error);
}

bool is_gguf_there(const std::string& text) {
  std::error_code error;
  return text.ends_with(".gguf") && std::filesystem::is_regular_file(text, error);
}

std::string explain_spaces(const std::vector<std::string>& words) {
  constexpr size_t kMostWords = 8;
  std::error_code error;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string path = words[i].starts_with("-") ? words[i].substr(words[i].find('=') + 1) : words[i];
    for (size_t k = i + 1; k < std::min(words.size(), i + kMostWords); ++k) {
      path += " " + words[k];
      if (std::filesystem::exists(path, error))
        return fmt::format("a path with spaces needs quotes: {}", shell_quoted(path));
    }
  }
  return {};
}

std::string explain_repeated(const CLI::App& app, const std::vector<std::string>& words) {
  const auto is_option = [](const std::string& word) { return word.starts_with("-"); };
  const auto comes_before = [&](const CLI::Option* argument, size_t i) {
    const auto end = words.begin() + std::ptrdiff_t(i);
    return argument->get_positional() && argument->count() > 0 &&
           std::find(words.begin(), end, argument->results()[0]) != end;
  };
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    const CLI::Option* o = is_option(words[i]) ? app.get_option_no_throw(words[i]) : nullptr;
    const auto begin = words.begin() + std::ptrdiff_t(i) + 1, end = std::find_if(begin, words.end(), is_option);
    if (std::ranges::none_of(app.get_options(), [&](auto* argument) { return comes_before(argument, i); })) continue;
    if (!o || o->get_items_expected_max() <= 1 || o->get_delimiter() != 0 || end - begin < 2) continue;
    const auto has_space = [](const std::string& word) { return word.find(' ') != word.npos; };
    const auto exists = [](const std::string& word) {
      std::error_code error;
      return std::filesystem::exists(word, error);
    };
    const bool are_values =
        takes_any_text(words[i]) ? std::any_of(begin, end, has_space) : std::all_of(begin, end, exists);
    if (end - begin > 2 && !are_values) continue;  // words of a text
    std::vector<std::string> each;
    for (auto word = begin; word != end; ++word) each.push_back(words[i] + " " + shell_quoted(*word));
    return fmt::format("{} takes one value, and may be given several times: {}{}", words[i], fmt::join(each, " "),
                       takes_any_text(words[i]) ? "; a text of several words needs quotes" : "");
  }
  return {};
}

std::string explain_quotes(const std::vector<std::string>& words) {
  for (const std::string& word : words)
    for (const char* quote : {"\u201c", "\u201d", "\u201e", "\u2018", "\u2019", "\u00ab", "\u00bb"})
      if (word.starts_with(quote) || word.ends_with(quote))
        return fmt::format("too many arguments; the shell knows only the quotes \" and ', and not those of '{}'",
                           one_line(word));
  return {};
}

namespace {

bool is_type_name(const std::string& word) {
  const std::string lower = CLI::detail::to_lower(word);
  return std::ranges::any_of(gguf::mix_names(),
                             [&](const auto& name) { return CLI::detail::to_lower(std::string(name)) == lower; });
}

// A file or folder with an adapter, or a name of one that is not there.
bool is_adapter(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return path.ends_with("adapter.gguf");
  if (std::filesystem::is_directory(path, error))
    return std::filesystem::exists(path + "/adapter_config.json", error) ||
           std::filesystem::exists(path + "/" + std::string(runs::kAdapterFile), error);
  try {
    return path.ends_with(".gguf") && gguf::File::open(path).get_string("general.type", "") == "adapter";
  } catch (const Error&) {
    return false;
  }
}

// The command of the same group that takes a model as its argument.
const CLI::App* with_model(const CLI::App& app) {
  for (const CLI::App* other : app.get_parent()->get_subcommands({}))
    if (other->get_option_no_throw("model")) return other;
  return nullptr;
}

// "--resume false": a switch takes no word.
std::string explain_switch(const CLI::App& app, const std::string& word, const std::vector<std::string>& words) {
  const auto at = std::ranges::find(words, word);
  if (at == words.begin() || at == words.end()) return {};
  const CLI::Option* before = app.get_option_no_throw(*std::prev(at));
  const bool is_truth =
      std::ranges::count(std::initializer_list<const char*>{"true", "false", "yes", "no", "on", "off", "1", "0"},
                         CLI::detail::to_lower(word)) > 0;
  return before && is_flag(*before) && is_truth
             ? fmt::format("{0} is a switch; write {0}={1}", before->get_name(), word)
             : "";
}

// "--targets q_proj v_proj": a list without its commas.
std::string explain_list(const CLI::App& app, const std::vector<std::string>& words) {
  const auto is_option = [](const std::string& word) { return word.starts_with("-"); };
  const auto is_argument = [](const CLI::Option* o) { return o->get_positional(); };  // may come after the value
  if (std::ranges::any_of(app.get_options(), is_argument)) return {};
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    const CLI::Option* o = is_option(words[i]) ? app.get_option_no_throw(words[i]) : nullptr;
    if (!o || (o->get_delimiter() != ',' && o->get_name() != "--targets") || is_option(words[i + 2])) continue;
    const auto begin = words.begin() + std::ptrdiff_t(i) + 1;
    return fmt::format("values of a list are separated by commas: {} {}", words[i],
                       fmt::join(begin, std::find_if(begin, words.end(), is_option), ","));
  }
  return {};
}

bool is_digits(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c); });
}

// `toy data show MODEL FILE`: the model is an option, and its file was taken for what it is asked about.
std::string explain_model_first(const CLI::App& app, const std::string& word) {
  const CLI::Option* model = app.get_option_no_throw("--model");
  if (!model || model->count() > 0 || is_model_file(word)) return {};
  for (const CLI::Option* o : app.get_options())
    if (o->get_positional() && o->count() > 0 && is_model_file(o->results()[0]))
      return fmt::format("'{0}' is a model; write {1} {2} --model {0}", shell_quoted(o->results()[0]), full_name(app),
                         shell_quoted(word));
  return {};
}

bool is_eval(const CLI::App& app) { return app.get_name() == "eval"; }

// Options that may read a file of this name, the likeliest first.
std::vector<const char*> options_that_read(const std::string& name) {
  if (name.ends_with(".jsonl")) return {"--data", "--corpus", "--file"};
  if (name.ends_with(".json")) return {"--config", "--data", "--corpus", "--file"};
  return {"--corpus", "--file", "--data"};
}

}  // namespace

std::string explain_adapter(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (app.get_name() != "merge" || app.get_option("--lora")->count() > 0) return {};
  std::error_code error;
  if (arguments.size() == 3 && app.get_option("--out")->count() == 0 && is_adapter(arguments[1]) &&
      !std::filesystem::exists(arguments[2], error))
    return fmt::format("adapter and result follow options; write toy merge {} --lora {} --out {}",
                       shell_quoted(arguments[0]), shell_quoted(arguments[1]), shell_quoted(arguments[2]));
  if (arguments.size() != 2) return {};
  const std::string& second = arguments[1];
  const std::string out = app.get_option("--out")->count() > 0 ? app.get_option("--out")->as<std::string>() : "FILE";
  if (second.ends_with(".gguf") && !is_adapter(second) && !std::filesystem::exists(second, error))
    return fmt::format("the adapter is missing; write toy merge {} --lora ADAPTER --out {}", shell_quoted(arguments[0]),
                       shell_quoted(second));
  if (is_model_file(second) && !is_adapter(second))
    return fmt::format(
        "'{}' is a whole model, and toy merge adds adapters to one; write toy merge {} --lora ADAPTER "
        "--out FILE",
        one_line(second), shell_quoted(arguments[0]));
  return fmt::format("'{}' is one argument too many; write toy merge {} --lora {} --out {}", one_line(second),
                     shell_quoted(arguments[0]), shell_quoted(second), shell_quoted(out));
}

std::string explain_extra(const CLI::App& app, const std::string& text, const std::vector<std::string>& words) {
  const size_t colon = text.rfind(": ");
  const std::string word = colon == text.npos ? "" : text.substr(colon + 2);
  std::error_code error;
  const bool is_one = std::ranges::find(words, word) != words.end();  // with spaces, perhaps
  const bool is_file = is_one && std::filesystem::exists(word, error);
  if (const CLI::Option* o = app.get_option_no_throw("--text"); o && o->count() == 0 && !word.empty() && !is_file)
    return is_one ? fmt::format("'{}' is no option; did you mean --text {}?", one_line(word), shell_quoted(word))
                  : "too many arguments; write --text before a text, and quotes around it";
  const CLI::Option* model = app.get_option_no_throw("model");
  if (is_eval(app) && model && model->count() > 0)
    if (const std::string given = model->as<std::string>(); !std::filesystem::exists(given, error)) {
      if (const std::string reason = needless_command(app, given); !reason.empty())
        return fmt::format("there is no `{} {}`; {}", full_name(app), one_line(given), reason);
      const auto at = std::ranges::find(words, given);
      if (words.end() - at > 1 && (given == "perplexity" || given == "ppl" || given == "loss"))
        return fmt::format("'{}' is what toy eval prints of a text anyway; write toy eval {} --file {}", given,
                           shell_quoted(at[1]),
                           words.end() - at > 2 && !at[2].starts_with("-") ? shell_quoted(at[2]) : "TEXT");
    }
  if (model && model->count() > 0 && is_file && is_model_file(word))
    if (const auto first = model->as<std::string>();
        !std::filesystem::exists(first, error) && first.find('/') == first.npos)
      return fmt::format("'{}' is a model, and '{}' is none; the model comes first", one_line(word), one_line(first));
  if (const std::string own = explain_list(app, words); !own.empty()) return own;
  if (word.empty() || !is_one) return fmt::format("too many arguments; see `{} --help`", full_name(app));
  if (const std::string own = explain_switch(app, word, words); !own.empty()) return own;
  if (const std::string own = is_file ? explain_model_first(app, word) : ""; !own.empty()) return own;
  if (const size_t sign = word.rfind(':');
      app.get_option_no_throw("--port") && sign != word.npos && is_digits(word.substr(sign + 1)))
    return fmt::format("'{}' is one argument too many; write --host {} --port {}", word, word.substr(0, sign),
                       word.substr(sign + 1));
  if (is_eval(app) && model && model->count() > 0 &&
      (word.ends_with(".gguf") || std::filesystem::is_directory(word, error)))
    return fmt::format("'{}' is one model too many; toy eval kl --base A --model B --file TEXT compares two",
                       one_line(word));
  for (const char* option : options_that_read(word))
    if (const CLI::Option* o = app.get_option_no_throw(option);
        o && is_file && (o->count() == 0 || std::string_view(option) == "--corpus"))
      return fmt::format("'{}' is no option; did you mean {} {}?", one_line(word), option, shell_quoted(word));
  const bool is_corpus = app.get_parent() && app.get_parent()->get_name() == "corpus";
  const bool is_number = is_digits(word);
  for (const char* amount : {"--bytes", "--rows", "--images", "--port"})
    if (const CLI::Option* o = app.get_option_no_throw(amount);
        o && o->count() == 0 && (is_corpus || amount == std::string_view("--port")) && is_number)
      return fmt::format("'{0}' is one argument too many; did you mean {1} {0}?", word, amount);
  const bool is_model = word.ends_with(".gguf") || std::filesystem::is_directory(word, error);
  const char* likely = is_adapter(word)                                            ? "--lora"
                       : is_type_name(word)                                        ? "--type"
                       : is_file && is_model && app.get_option_no_throw("--model") ? "--model"
                                                                                   : "";
  if (const CLI::Option* o = app.get_option_no_throw(likely); o && o->count() == 0)
    return fmt::format("'{0}' is one argument too many; did you mean {1} {0}?", one_line(word), likely);
  if (model && model->count() > 0 && is_file && is_model_file(word))
    return fmt::format(
        "'{}' is one model too many; `{}` takes one{}", one_line(word), full_name(app),
        app.get_option_no_throw("--port") ? "; serve the other one with another --port, such as 8081" : "");
  std::vector<std::string> arguments;
  for (const CLI::Option* o : app.get_options())
    if (o->get_positional()) arguments.push_back(shown_name(*o));
  const CLI::App* other = app.get_parent() && word.ends_with(".gguf") && arguments.empty() ? with_model(app) : nullptr;
  const std::string all = needless_option(app, "--list");  // of a command that lists all
  return fmt::format("'{}' is one argument too many; `{}` takes {}{}{}", one_line(word), full_name(app),
                     arguments.empty() ? "none" : fmt::format("{}", fmt::join(arguments, " ")),
                     other ? fmt::format(", and `{}` a model", full_name(*other)) : "", all.empty() ? "" : "; " + all);
}

}  // namespace toy::cli
