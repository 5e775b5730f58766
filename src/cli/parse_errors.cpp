#include "cli/parse_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/stray_words.h"
#include "cli/synonyms.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"
#include "toy/base/options.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/decode/sampler.h"
#include "toy/train/recipe.h"

namespace toy::cli {
namespace {

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

// "did you mean --size tiny?" for "--tiny", the word of an option, or "".
std::string as_word(const CLI::App& app, const std::string& option) {
  if (!option.starts_with("--")) return {};
  const auto is_it = [&](const std::string& word) { return CLI::detail::to_lower(word) == option.substr(2); };
  for (const char* name : {"--size", "--type", "--optimizer", "--schedule", "--chat-template", "--device"})
    if (const CLI::Option* o = app.get_option_no_throw(name))
      if (const std::vector<std::string> words = notes_of(*o).words; std::ranges::any_of(words, is_it))
        return fmt::format("did you mean {} {}?", name, *std::ranges::find_if(words, is_it));
  return {};
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
  if (const std::string word = as_word(app, option); !word.empty()) return word;
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
  if (near.empty() && names.size() <= 2) return fmt::format("`{}` has only {}", full_name(app), fmt::join(names, ", "));
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

// "--reward exact", as the example of the help has it; "" of files, which are others everywhere.
std::string example_of(const CLI::App& app, const CLI::Option& option) {
  const std::string text = app.get_footer(), name = " " + option.get_name() + " ";
  const size_t at = text.find(name);
  if (at == text.npos || option.get_positional()) return {};
  const size_t begin = at + name.size();
  const std::string value = text.substr(begin, text.find_first_of(" \n", begin) - begin);
  return value.find_first_of("./") == value.npos ? name.substr(1) + value : "";
}

// Arguments after a text: another text, where there are spaces, or the text's other words.
std::string explain_texts(const CLI::App& app, const std::vector<std::string>& arguments) {
  const bool has_file = app.get_option_no_throw("--file"), has_documents = app.get_option_no_throw("--document");
  const auto has_space = [](const std::string& text) { return text.find(' ') != text.npos; };
  const bool has_prompts = app.get_option_no_throw("--prompts");
  constexpr size_t kTaken = 2;  // the model and a text
  const auto is_file = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
  };
  if (has_file && arguments.size() == kTaken + 1)
    if (const auto file = std::find_if(arguments.begin() + 1, arguments.end(), is_file); file != arguments.end())
      return fmt::format("'{}' is no option; did you mean --file {}?", one_line(*file), shell_quoted(*file));
  if (arguments.size() <= kTaken || !std::all_of(arguments.begin() + kTaken, arguments.end(), has_space))
    return fmt::format("too many arguments; put quotes around a text of several words{}",
                       has_documents ? ", and --document before each document"
                       : has_file    ? ", or give several with --file"
                                     : "");
  if (!has_documents)
    return fmt::format("one text is taken{}", has_file      ? "; --file reads several, one per line"
                                              : has_prompts ? "; --prompts reads several from a file, one per line"
                                                            : "");
  std::string documents;
  for (size_t i = kTaken; i < arguments.size(); ++i) documents += " --document " + shell_quoted(arguments[i]);
  return fmt::format("each document needs an option: write{}, or --file with one per line", documents);
}

std::string explain_missing(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (app.get_require_subcommand_min() > 0 && app.get_subcommands().empty())
    return fmt::format("no {} given; use one of {}", kind_of_commands(app), fmt::join(commands_of(app), ", "));
  const CLI::Option* before = nullptr;  // the argument before it
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_positional() && o->count() > 0) before = o;
    std::error_code error;
    if (o->get_required() && o->count() == 0 && o->get_positional() && before) {
      const auto given = before->as<std::string>();
      const bool is_no_model = shown_name(*before) == "MODEL" && std::filesystem::exists(given, error) &&
                               !is_model_file(given) && !std::filesystem::exists(given + "/config.json", error);
      if (is_no_model)
        return fmt::format("'{}' is no model, and the model comes first; write {} MODEL {}", one_line(given),
                           full_name(app), shell_quoted(given));
      return fmt::format("{} is missing ({}); write {} {} {}", shown_name(*o), o->get_description(), full_name(app),
                         shell_quoted(given), shown_name(*o));
    }
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
    const std::string example = example_of(app, *o);
    if (o->get_required() && o->count() == 0)
      return fmt::format("{} is missing ({}); {}see `{} --help`", shown_name(*o), o->get_description(),
                         example.empty() ? "" : fmt::format("add {}, or ", example), full_name(app));
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

// A text option has taken the next option as its value.
std::string explain_swallowed(const CLI::App& app) {
  for (const CLI::Option* o : app.get_options())
    for (const std::string& value : o->count() ? o->results() : std::vector<std::string>())
      if (takes_any_text(o->get_name())) {
        const std::string option = value.substr(value.starts_with('\x01') ? 1 : 0);  // the mark of a text
        if (option.starts_with("-") && app.get_option_no_throw(option))
          return fmt::format("{} has no value: what follows is the option {}; give one", o->get_name(), option);
      }
  return {};
}

// "--prompt": the given option that excludes this one.
std::string excluded_by(const CLI::Option& option) {
  for (const CLI::Option* other : option.get_excludes())
    if (other->count()) return other->get_name();
  return "another one";
}

// `--prompt Once upon a time`: the words up to the next option.
std::string explain_unquoted(const CLI::App& app, const std::vector<std::string>& words) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const CLI::Option* o = words[i].starts_with("-") ? app.get_option_no_throw(words[i]) : nullptr;
    if (!o || !takes_any_text(o->get_name())) continue;
    size_t end = i + 2;
    while (end < words.size() && !words[end].starts_with("-")) ++end;
    const auto begin = words.begin() + std::ptrdiff_t(i) + 1;
    if (end > i + 2)
      return fmt::format("a text of several words needs quotes: {} {}", words[i],
                         shell_quoted(fmt::format("{}", fmt::join(begin, words.begin() + std::ptrdiff_t(end), " "))));
  }
  return {};
}

// "; did you mean --top-p 0.9?" of a part of the probability where a number of tokens is meant, or "".
std::string explain_part(const CLI::App& app, const std::string& option, const std::vector<std::string>& words) {
  const auto at = std::ranges::find(words, option);
  double part = 0;
  if (option != "--top-k" || !app.get_option_no_throw("--top-p") || words.end() - at < 2 ||
      !read_number(*std::next(at), from_to_below(0, 1), part).empty())
    return {};
  return fmt::format("; did you mean --top-p {}?", *std::next(at));
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

// "--lora" or "--qlora" of `toy train lora`.
bool names_itself(const CLI::App& command, const std::string& option) {
  const std::string word = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  return option.starts_with("--") && (word == command.get_name() || our_recipe(word) == command.get_name());
}

// `toy train --model M --lora_r 8`: its call with the command of the group that has the most of its options, the one
// that is named later or the first, and of a model that is given an adapter. `option`: the first of the options.
std::string explain_missing_command(const CLI::App& group, const std::vector<std::string>& words, size_t begin,
                                    const std::string& option) {
  const auto name_of = [](const std::string& word) { return word.substr(0, word.find('=')); };
  const CLI::App* best = nullptr;
  ptrdiff_t most = 0;
  for (const CLI::App* s : group.get_subcommands({})) {
    if (!s->get_option_no_throw(option)) continue;
    ptrdiff_t fits = 2 * std::count_if(words.begin() + ptrdiff_t(begin), words.end(), [&](const std::string& word) {
                       return word.starts_with("-") && !our_option(*s, name_of(word)).empty();
                     });
    if (s->get_name() == "lora" && option == "--model") fits += 1;
    if (std::find(words.begin() + ptrdiff_t(begin), words.end(), s->get_name()) != words.end()) fits += 1000;
    if (fits > most) most = fits, best = s;
  }
  if (!best) return {};
  std::string call = full_name(*best);
  for (size_t i = begin; i < words.size(); ++i) {
    if (words[i] == best->get_name()) continue;
    const std::string name = name_of(words[i]), ours = name.starts_with("-") ? our_option(*best, name) : "";
    if (ours.empty() && names_itself(*best, name)) continue;
    call += " " + (ours.empty() ? shell_quoted(words[i]) : ours + words[i].substr(name.size()));
  }
  return fmt::format("{} is an option of `{}`; write {}", option, full_name(*best), call);
}

// How the commands of a group are called on files, or on this one.
std::string usual_call(const CLI::App& app, const std::string& word) {
  std::error_code error;
  const bool is_model = word.ends_with(".gguf") || std::filesystem::is_directory(word, error);
  if (app.get_name() == "data")
    return "toy data show FILE --model MODEL prints its rows as a model sees them, toy data check FILE looks for "
           "faults";
  if (app.get_name() == "bench")
    return fmt::format("toy bench infer {} measures a model, and toy bench machine this computer",
                       is_model ? shell_quoted(word) : "MODEL");
  if (app.get_name() == "runs") return fmt::format("toy runs show {} tells about a run", shell_quoted(word));
  if (app.get_name() == "tokenizer")
    return "toy tokenizer encode MODEL --text TEXT prints the ids of a text, toy tokenizer train learns a vocabulary";
  if (app.get_name() == "search")
    return "toy search build MODEL FOLDER --out INDEX comes first, then toy search query INDEX TEXT";
  return {};
}

}  // namespace

std::string explain_unknown_command(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  std::string option;  // that stands before the word
  bool is_value = false;
  size_t begin = 0;  // of the words after the command's name
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
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
      begin = i + 1;
      continue;
    }
    if (app->get_require_subcommand_min() == 0) return {};  // the word is an argument
    if (!option.empty() && !app->get_option_no_throw(option))
      if (const std::string own = explain_missing_command(*app, words, begin, option); !own.empty()) return own;
    std::error_code error;
    const bool is_run = std::filesystem::exists(word + "/config.json", error);
    if (app->get_name() == "train" && (is_run || word.ends_with(".gguf")) && std::filesystem::exists(word, error))
      return fmt::format("'{0}' is no recipe; did you mean `toy train lora --model {1} --data FILE`{2}?",
                         one_line(word), shell_quoted(word),
                         is_run ? fmt::format(" or `toy train --resume --out {}`", shell_quoted(word)) : "");
    if (app->get_name() == "train" &&
        (word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".toml") || word.ends_with(".py")))
      return fmt::format(
          "'{}' is no recipe; options are read from JSON, such as {{\"steps\": 500}}, and belong to one: toy train "
          "lora --config FILE.json",
          one_line(word));
    if (app->get_name() == "train" && word.ends_with(".json") && std::filesystem::exists(word, error))
      return fmt::format("'{0}' is no recipe; a file of options belongs to one: toy train lora --config {1}",
                         one_line(word), shell_quoted(word));
    if (app->get_name() == "train" && std::filesystem::exists(word, error))
      return fmt::format("'{}' is no recipe; did you mean `toy train from-scratch {} {}`?", one_line(word),
                         word.ends_with(".jsonl") ? "--data" : "--corpus", shell_quoted(word));
    if (const std::string reason = needless_command(*app, word); !reason.empty())
      return fmt::format("there is no `{} {}`; {}", full_name(*app), word, reason);
    if (const std::string usual = usual_call(*app, word);
        !usual.empty() && (std::filesystem::exists(word, error) || nearest(word, names).empty()))
      return fmt::format("'{}' is no command; {}", one_line(word), usual);
    if (app == &root && word.ends_with(".gguf") && std::filesystem::exists(word, error))
      return fmt::format("'{0}' is no command; write one first, such as toy infer {1} or toy describe {1}",
                         one_line(word), shell_quoted(word));
    std::string near = nearest(word, names);
    if (near.empty() && app == &root) near = known_command(word);
    if (const CLI::App* train = near.empty() ? find_command(*app, "train") : nullptr)
      if (const std::string recipe = nearest(word, commands_of(*train)); !recipe.empty()) near = "train " + recipe;
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
      if (own.empty()) own = explain_repeated(app, words);
      if (own.empty()) own = explain_quotes(words);
      if (own.empty() && (app.get_option_no_throw("text") || app.get_option_no_throw("query")))
        own = explain_texts(app, arguments);
      if (own.empty()) own = explain_extra(app, is_missing && !arguments.empty() ? ": " + arguments[0] : text, words);
      break;
    case CLI::ExitCodes::ExcludesError:
      if (app.get_option_no_throw("text")) own = explain_unknown_option(root, words);  // its value may have become it
      if (own.empty()) own = explain_swallowed(app);
      if (own.empty()) own = explain_repeated(app, words);
      if (own.empty()) own = explain_quotes(words);
      if (own.empty()) own = explain_unquoted(app, words);
      if (const CLI::Option* o = app.get_option_no_throw("text");
          own.empty() && o && o->count() > 0 && is_gguf_there(o->results()[0]))
        own = fmt::format("'{}' is one model too many; `{}` takes one", one_line(o->results()[0]), full_name(app));
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
        const std::string option = own.substr(0, colon), other = explain_part(app, option, words);
        if (const CLI::Option* o = app.get_option_no_throw(option);
            o && other.empty() && own.ends_with("a whole number"))
          own += fmt::format(": {}", o->get_description());
        own.erase(colon, 1);
        own += other + needless_value(option, words);
      }
      if (app.get_name() == "convert" && own.starts_with("--type")) own += "; toy quantize writes quantized types";
      break;
    default:
      break;
  }
  return own.empty() ? text : own;
}

}  // namespace toy::cli
