#include "cli/parse_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/synonyms.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"
#include "toy/base/options.h"
#include "toy/base/run_files.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/decode/sampler.h"
#include "toy/formats/gguf.h"
#include "toy/formats/requantize.h"
#include "toy/train/recipe.h"

namespace toy::cli {
namespace {

// "toy train from-scratch"
std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* s : app.get_subcommands({})) names.push_back(s->get_name());
  return names;
}

// What the words after an app's name are called.
std::string kind_of_commands(const CLI::App& app) {
  return app.get_parent() == nullptr ? "command" : app.get_name() == "train" ? "recipe" : app.get_name() + " command";
}

// "--optimizer 'muon(momentum=...)'" for an option that is written in the brackets of another one, or "".
template <class Options>
std::string in_brackets(const CLI::App& app, const std::string& of, const std::string& option) {
  std::string instead;
  const Options options;
  if (app.get_option_no_throw(of))
    Options::fields(options, [&](const Option& o, const auto&) {
      const auto dashed = [](std::string_view name) {
        std::string text = "--" + std::string(name);
        std::replace(text.begin(), text.end(), '_', '-');
        return text;
      };
      if (instead.empty() && o.group.empty() && !o.of.empty() &&
          (dashed(o.name) == option || dashed(o.name_in_brackets()) == option))
        instead = fmt::format("{} '{}({}=...)'", of, o.of.substr(0, o.of.find(' ')), o.name_in_brackets());
    });
  return instead;
}

// "did you mean '--clip'?", options that begin with the word, or who has an option of that name.
std::string instead_of(const CLI::App& app, const std::string& option) {
  if (const std::string reason = needless_option(app, option); !reason.empty()) return reason;
  if (app.get_parent() && app.get_parent()->get_parent()) {  // other recipes, say
    std::vector<std::string> have;
    for (const CLI::App* other : app.get_parent()->get_subcommands({}))
      if (other->get_option_no_throw(option)) have.push_back(have.empty() ? full_name(*other) : other->get_name());
    if (!have.empty()) return fmt::format("`{}` {} it", fmt::join(have, "`, `"), have.size() > 1 ? "have" : "has");
  }
  for (const std::string& list :
       {in_brackets<OptimizerOptions>(app, "--optimizer", option),
        in_brackets<RecipeOptions>(app, "--schedule", option), in_brackets<SamplerOptions>(app, "--samplers", option)})
    if (!list.empty()) return fmt::format("write {}", list);
  std::vector<std::string> names, longer;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& l : o->get_lnames())
      if (!l.starts_with("help")) names.push_back("--" + l);
  std::copy_if(names.begin(), names.end(), std::back_inserter(longer), [&](const std::string& name) {
    return name.starts_with(option) || (option.size() == 2 && name.starts_with("-" + option));
  });
  if (longer.size() > 1 && longer.size() <= 4) return fmt::format("did you mean {}?", fmt::join(longer, " or "));
  std::string near = longer.size() == 1 ? longer.front() : nearest(option, names);
  if (near.empty()) near = nearest(option, known_synonyms(app));
  return near.empty() ? fmt::format("`{} --help-all` shows all", full_name(app))
                      : fmt::format("did you mean '{}'?", near);
}

// The first option that the command it belongs to does not know, if there is one.
std::string explain_unknown_option(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  for (size_t i = 0; i < words.size(); ++i) {
    if (const CLI::App* sub = find_command(*app, words[i])) app = sub;
    const std::string name = words[i].substr(0, words[i].find('='));
    if (name.size() < 2 || name[0] != '-') continue;
    const bool letter_with_value = name[1] != '-' && app->get_option_no_throw(name.substr(0, 2));  // "-n3"
    if (!app->get_option_no_throw(name) && !letter_with_value)
      return fmt::format("unknown option '{}'; {}", name, instead_of(*app, name));
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option && name == words[i] && option->get_items_expected_min() > 0) ++i;  // its value
  }
  return {};
}

// The command that was being parsed: the last one whose name was read.
const CLI::App& deepest(const CLI::App& root) {
  const auto parsed = root.get_subcommands();
  return parsed.empty() ? root : deepest(*parsed.back());
}

// "--out", "MODEL"
std::string shown_name(const CLI::Option& option) {
  std::string name = option.get_positional() ? option.get_name(true) : option.get_name();
  if (option.get_positional())
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

// The words that are neither commands nor options nor their values.
std::vector<std::string> arguments_of(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  std::vector<std::string> arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    if (const CLI::App* sub = arguments.empty() ? find_command(*app, words[i]) : nullptr) {
      app = sub;
      continue;
    }
    if (!words[i].starts_with("-")) arguments.push_back(words[i]);
    const CLI::Option* option = words[i].starts_with("-") ? app->get_option_no_throw(words[i]) : nullptr;
    if (option && option->get_items_expected_min() > 0) ++i;
  }
  return arguments;
}

// "--a out/one --b out/two": files as the values of the options that are missing.
std::string as_options(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::string all;
  size_t next = 0;
  std::error_code error;
  for (const CLI::Option* o : app.get_options())
    if ((o->get_required() || o->get_name() == "--model") && o->count() == 0 && o->get_name() != "--out" &&
        next < arguments.size() && std::filesystem::exists(arguments[next], error))
      all += fmt::format("{}{} {}", all.empty() ? "" : " ", o->get_name(), shell_quoted(arguments[next++]));
  return all;
}

std::string explain_missing(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (app.get_require_subcommand_min() > 0 && app.get_subcommands().empty())
    return fmt::format("no {} given; use one of {}", kind_of_commands(app), fmt::join(commands_of(app), ", "));
  const CLI::Option* before = nullptr;  // the argument before it
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_positional() && o->count() > 0) before = o;
    if (o->get_required() && o->count() == 0 && o->get_positional() && before)
      return fmt::format("{} is missing ({}); '{}' was taken for {}", shown_name(*o), o->get_description(),
                         one_line(before->as<std::string>()), shown_name(*before));
    std::error_code error;
    const bool has_arguments =
        std::ranges::any_of(app.get_options(), [](auto* other) { return other->get_positional(); });
    if (o->get_required() && o->count() == 0 && !has_arguments && !arguments.empty() && o->get_name() != "--out" &&
        std::filesystem::exists(arguments[0], error))
      return fmt::format("{} is missing ({}); did you mean {}?", shown_name(*o), o->get_description(),
                         as_options(app, arguments));
    if (o->get_required() && o->count() == 0 && o->get_name() == "--out" && !arguments.empty()) {
      if (!has_arguments && std::filesystem::exists(arguments[0], error)) return {};  // that is said of it
      if (has_arguments && !std::filesystem::exists(arguments.back(), error))
        return fmt::format("--out is missing ({}); did you mean --out {}?", o->get_description(),
                           shell_quoted(arguments.back()));
    }
    if (o->get_required() && o->count() == 0)
      return fmt::format("{} is missing ({}); see `{} --help`", shown_name(*o), o->get_description(), full_name(app));
  }
  return {};
}

bool is_type_name(const std::string& word) {
  const std::string lower = CLI::detail::to_lower(word);
  return std::ranges::any_of(gguf::mix_names(),
                             [&](const auto& name) { return CLI::detail::to_lower(std::string(name)) == lower; });
}

// A path with spaces is several words for the shell.
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

// `toy --steps 5 train from-scratch`: an option in front of the command it belongs to.
std::string explain_early_option(const CLI::App& root, const std::vector<std::string>& words) {
  const std::string option = words[0].substr(0, words[0].find('='));
  if (!option.starts_with("-") || root.get_option_no_throw(option)) return {};
  for (size_t i = 1; i < words.size(); ++i) {
    const CLI::App* app = find_command(root, words[i]);
    if (!app) continue;
    if (const CLI::App* sub = i + 1 < words.size() ? find_command(*app, words[i + 1]) : nullptr) app = sub;
    if (!app->get_option_no_throw(option)) return {};
    return fmt::format("{0} comes before its command; write it after that: {1} {0} ...", option, full_name(*app));
  }
  return {};
}

// A text between the quotes of a text program is several words for the shell.
std::string explain_quotes(const std::vector<std::string>& words) {
  for (const std::string& word : words)
    for (const char* quote : {"\u201c", "\u201d", "\u201e", "\u2018", "\u2019", "\u00ab", "\u00bb"})
      if (word.starts_with(quote) || word.ends_with(quote))
        return fmt::format("too many arguments; the shell knows only the quotes \" and ', and not those of '{}'",
                           one_line(word));
  return {};
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

// `toy merge MODEL ADAPTER`, before it says what else is missing.
std::string explain_adapter(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (app.get_name() != "merge" || arguments.size() != 2 || app.get_option("--lora")->count() > 0) return {};
  return fmt::format("'{}' is one argument too many; did you mean --lora {}?", one_line(arguments[1]),
                     shell_quoted(arguments[1]));
}

// The command of the same group that takes a model as its argument.
const CLI::App* with_model(const CLI::App& app) {
  for (const CLI::App* other : app.get_parent()->get_subcommands({}))
    if (other->get_option_no_throw("model")) return other;
  return nullptr;
}

// A text option has taken the next option as its value.
std::string explain_swallowed(const CLI::App& app) {
  for (const CLI::Option* o : app.get_options())
    for (const std::string& value : o->count() ? o->results() : std::vector<std::string>())
      if (takes_any_text(o->get_name())) {
        const std::string option = value.substr(value.starts_with('\x01') ? 1 : 0);  // the mark of a text
        if (option.starts_with("--") && app.get_option_no_throw(option))
          return fmt::format("{} has no value: what follows is the option {}; give one", o->get_name(), option);
      }
  return {};
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

bool is_eval(const CLI::App& app) { return app.get_name() == "eval"; }

// Options that may read a file of this name, the likeliest first.
std::vector<const char*> options_that_read(const std::string& name) {
  if (name.ends_with(".jsonl")) return {"--data", "--corpus", "--file"};
  if (name.ends_with(".json")) return {"--config", "--data", "--corpus", "--file"};
  return {"--corpus", "--file", "--data"};
}

// A word that is no value of an option and no argument. The parser's text ends with ": WORD".
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
  if (is_eval(app) && model && model->count() > 0 && is_file)
    if (const std::string given = model->as<std::string>(); !std::filesystem::exists(given, error)) {
      if (const std::string reason = needless_command(app, given); !reason.empty())
        return fmt::format("there is no `{} {}`; {}", full_name(app), one_line(given), reason);
      if (given == "perplexity" || given == "ppl" || given == "loss")
        return fmt::format("'{}' is what toy eval prints of a text anyway; write toy eval {} --file TEXT", given,
                           shell_quoted(word));
    }
  if (model && model->count() > 0 && is_file &&
      (word.ends_with(".gguf") || std::filesystem::exists(word + "/model.gguf", error)))
    if (const auto first = model->as<std::string>();
        !std::filesystem::exists(first, error) && first.find('/') == first.npos)
      return fmt::format("'{}' is a model, and '{}' is none; the model comes first", one_line(word), one_line(first));
  if (word.empty() || !is_one) return fmt::format("too many arguments; see `{} --help`", full_name(app));
  if (const std::string own = explain_switch(app, word, words); !own.empty()) return own;
  if (is_eval(app) && model && model->count() > 0)
    if (const std::string reason = needless_command(app, model->as<std::string>()); !reason.empty())
      return fmt::format("there is no `{} {}`; {}", full_name(app), one_line(model->as<std::string>()), reason);
  if (is_eval(app) && model && model->count() > 0 &&
      (word.ends_with(".gguf") || std::filesystem::is_directory(word, error)))
    return fmt::format("'{}' is one model too many; toy eval kl --base A --model B --file TEXT compares two",
                       one_line(word));
  for (const char* option : options_that_read(word))
    if (const CLI::Option* o = app.get_option_no_throw(option);
        o && is_file && (o->count() == 0 || std::string_view(option) == "--corpus"))
      return fmt::format("'{}' is no option; did you mean {} {}?", one_line(word), option, shell_quoted(word));
  const bool is_corpus = app.get_parent() && app.get_parent()->get_name() == "corpus";
  const bool is_number = std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c); });
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
  std::vector<std::string> arguments;
  for (const CLI::Option* o : app.get_options())
    if (o->get_positional()) arguments.push_back(shown_name(*o));
  const CLI::App* other = app.get_parent() && word.ends_with(".gguf") && arguments.empty() ? with_model(app) : nullptr;
  return fmt::format("'{}' is one argument too many; `{}` takes {}{}", one_line(word), full_name(app),
                     arguments.empty() ? "none" : fmt::format("{}", fmt::join(arguments, " ")),
                     other ? fmt::format(", and `{}` a model", full_name(*other)) : "");
}

// "--prompt": the given option that excludes this one.
std::string excluded_by(const CLI::Option& option) {
  for (const CLI::Option* other : option.get_excludes())
    if (other->count()) return other->get_name();
  return "another one";
}

std::string explain_exclusion(const CLI::App& app) {
  for (const CLI::Option* o : app.get_options())
    for (const CLI::Option* other : o->get_excludes())
      if (o->count() && other->count())
        return fmt::format("{} and {} exclude each other; give one of them", o->get_name(), other->get_name());
  return {};
}

// No value of an option. The parser's text begins with the option's name.
std::string explain_count(const CLI::App& app, const std::string& text) {
  const CLI::Option* o = app.get_option_no_throw(text.substr(0, text.find(':')));
  if (!o) return {};
  const std::string type = o->get_type_name();
  const std::vector<std::string> words = notes_of(*o).words;
  const std::string value = !words.empty()              ? alternatives(words)
                            : type.find("INT") < 2      ? "a whole number"
                            : type.starts_with("FLOAT") ? "a number"
                                                        : "one";
  return fmt::format("{} has no value; give {} ({})", o->get_name(), value, o->get_description());
}

// Numbers are checked before they are converted; what is left are flags.
std::string explain_conversion(const CLI::App& app, const std::string& text) {
  for (const CLI::Option* o : app.get_options())
    if (is_flag(*o) && o->count() > 0 && text.find(o->get_name()) != std::string::npos)
      return fmt::format("{} takes no value; remove '{}'", o->get_name(), fmt::join(o->results(), " "));
  return {};
}

// How the commands of a group are called on files.
std::string usual_call(const CLI::App& app) {
  if (app.get_name() == "data")
    return "toy data show FILE --model MODEL prints its rows as a model sees them, toy data check FILE looks for "
           "faults";
  if (app.get_name() == "bench") return "toy bench infer MODEL measures a model, and toy bench machine this computer";
  if (app.get_name() == "search")
    return "toy search build MODEL FOLDER --out INDEX comes first, then toy search query INDEX TEXT";
  return {};
}

}  // namespace

std::string explain_unknown_command(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  std::string option;  // that stands before the word
  bool is_value = false;
  for (const std::string& word : words) {
    const std::vector<std::string> names = commands_of(*app);
    if (std::exchange(is_value, false)) continue;
    if (word.starts_with("-")) {
      option = word.substr(0, word.find('='));
      const CLI::Option* of = app->get_option_no_throw(option);
      is_value = of && of->get_expected_min() > 0 && option == word;
    }
    if (word.starts_with("-") || names.empty()) continue;
    if (const CLI::App* sub = find_command(*app, word)) {
      app = sub;
      continue;
    }
    if (app->get_require_subcommand_min() == 0) return {};  // the word is an argument
    for (const CLI::App* s : app->get_subcommands({}))
      if (!option.empty() && s->get_option_no_throw(option) && !app->get_option_no_throw(option))
        return fmt::format("{0} is an option of `{1}`; write {1} {0} ...", option, full_name(*s));
    std::error_code error;
    const bool is_run = std::filesystem::exists(word + "/config.json", error);
    if (app->get_name() == "train" && (is_run || word.ends_with(".gguf")) && std::filesystem::exists(word, error))
      return fmt::format("'{0}' is no recipe; did you mean `toy train lora --model {1} --data FILE`{2}?",
                         one_line(word), shell_quoted(word),
                         is_run ? fmt::format(" or `toy train --resume --out {}`", shell_quoted(word)) : "");
    if (app->get_name() == "train" && (word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".toml")))
      return fmt::format(
          "'{}' is no recipe; options are read from JSON, such as {{\"steps\": 500}}, and belong to one: toy train "
          "lora "
          "--config FILE.json",
          one_line(word));
    if (app->get_name() == "train" && word.ends_with(".json") && std::filesystem::exists(word, error))
      return fmt::format("'{0}' is no recipe; a file of options belongs to one: toy train lora --config {1}",
                         one_line(word), shell_quoted(word));
    if (app->get_name() == "train" && std::filesystem::exists(word, error))
      return fmt::format("'{}' is no recipe; did you mean `toy train from-scratch {} {}`?", one_line(word),
                         word.ends_with(".jsonl") ? "--data" : "--corpus", shell_quoted(word));
    if (const std::string usual = usual_call(*app);
        !usual.empty() && (std::filesystem::exists(word, error) || nearest(word, names).empty()))
      return fmt::format("'{}' is no command; {}", one_line(word), usual);
    if (const std::string reason = needless_command(*app, word); !reason.empty())
      return fmt::format("there is no `{} {}`; {}", full_name(*app), word, reason);
    if (app == &root && word.ends_with(".gguf") && std::filesystem::exists(word, error))
      return fmt::format("'{0}' is no command; write one first, such as toy infer {1} or toy describe {1}",
                         one_line(word), shell_quoted(word));
    std::string near = nearest(word, names);
    if (near.empty() && app == &root) near = known_command(word);
    return fmt::format("unknown {} '{}'; {}", kind_of_commands(*app), word,
                       near.empty() ? fmt::format("use {}{}", names.size() > 1 ? "one of " : "", fmt::join(names, ", "))
                                    : "did you mean '" + near + "'?");
  }
  return {};
}

std::string explain(const CLI::App& root, const CLI::ParseError& error, const std::vector<std::string>& words) {
  if (words.empty()) return "no command given; `toy --help` lists them";
  const CLI::App& app = deepest(root);
  const std::string text = error.what();
  const std::vector<std::string> arguments = arguments_of(root, words);
  const bool is_missing = CLI::ExitCodes(error.get_exit_code()) == CLI::ExitCodes::RequiredError;
  std::string own;
  switch (CLI::ExitCodes(error.get_exit_code())) {
    case CLI::ExitCodes::ExtrasError:
    case CLI::ExitCodes::RequiredError:
      own = explain_early_option(root, words);
      if (own.empty()) own = explain_unknown_command(root, words);
      if (own.empty()) own = explain_spaces(words);
      if (own.empty()) own = explain_unknown_option(root, words);
      if (own.empty()) own = explain_adapter(app, arguments);
      if (own.empty()) own = explain_missing(app, arguments);
      if (own.empty()) own = explain_swallowed(app);
      if (own.empty()) own = explain_quotes(words);
      if (own.empty() && (app.get_option_no_throw("text") || app.get_option_no_throw("query")))
        own = fmt::format("too many arguments; put quotes around a text of several words{}",
                          app.get_option_no_throw("--file") ? ", or give several with --file" : "");
      if (own.empty()) own = explain_extra(app, is_missing && !arguments.empty() ? ": " + arguments[0] : text, words);
      break;
    case CLI::ExitCodes::ExcludesError:
      if (app.get_option_no_throw("text")) own = explain_unknown_option(root, words);  // its value may have become it
      if (own.empty()) own = explain_quotes(words);
      if (const CLI::Option* o = app.get_option_no_throw("text"); own.empty() && o && o->count() > 0)
        own = "there is a text and " + excluded_by(*o) + "; put quotes around a text of several words";
      if (own.empty()) own = explain_exclusion(app);
      break;
    case CLI::ExitCodes::ArgumentMismatch:
      own = explain_count(app, text);
      break;
    case CLI::ExitCodes::ConversionError:
      own = explain_conversion(app, text);
      break;
    case CLI::ExitCodes::ValidationError:  // "--lr: is -1; use ..."
      own = text;
      if (const size_t colon = own.find(": "); colon != own.npos) {
        if (const CLI::Option* o = app.get_option_no_throw(own.substr(0, colon)); o && own.ends_with("a whole number"))
          own += fmt::format(": {}", o->get_description());
        own.erase(colon, 1);
      }
      if (app.get_name() == "convert" && own.starts_with("--type")) own += "; toy quantize writes quantized types";
      break;
    default:
      break;
  }
  return own.empty() ? text : own;
}

}  // namespace toy::cli
