#include "cli/synonyms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/needless_words.h"
#include "cli/options.h"
#include "cli/words_of_others.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"
#include "toy/base/options.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

using Words = std::vector<std::string>;

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

std::string our_recipe(const std::string& theirs) {
  for (const others::Synonym& s : others::kRecipes)
    if (s.theirs == theirs) return std::string(s.ours);
  return {};
}

std::string our_option(const CLI::App& app, const std::string& written) {
  const std::string theirs = name_of(written);
  const auto has = [&](const std::string& name) { return app.get_option_no_throw(name) != nullptr; };
  for (const std::string& name : {theirs, "-" + theirs}) {  // "-temp" is "--temp"
    if (name != theirs && (name.size() < 4 || !name.starts_with("--") || name.starts_with("---"))) continue;
    if (has(name)) return name;
    for (const others::Synonym& s : others::kOptions)
      if (s.theirs == name && has(std::string(s.ours))) return std::string(s.ours);
  }
  return {};
}

namespace {

// "train vit"
std::string path_of(const CLI::App& app) {
  if (!app.get_parent()) return {};
  const std::string group = path_of(*app.get_parent());
  return group.empty() ? app.get_name() : group + " " + app.get_name();
}

// Our commands for a first word that is none of them, or the word. A recipe's name alone is `train` with it.
Words our_command(const CLI::App& root, const std::string& word) {
  if (find_command(root, word)) return {word};
  for (const others::Synonym& s : others::kCommands)
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
    tell(fmt::format("'{}'", words[at]),
         fmt::format("`toy {}{}`", at > first ? words[first] + " " : "", fmt::join(ours, " ")));
    words.erase(words.begin() + std::ptrdiff_t(at));
    words.insert(words.begin() + std::ptrdiff_t(at), ours.begin(), ours.end());
  };
  replace(first, our_command(root, words[first]));
  const size_t second = first + 1;
  const CLI::App* group = words.size() > second ? find_command(root, words[first]) : nullptr;
  if (!group) return words;
  if (words[first] == "train")
    if (const std::string ours = our_recipe(words[second]); !ours.empty()) replace(second, split(ours));
  if (words[first] != "train" && !find_command(*group, words[second]))  // "runs ls"
    for (const others::Synonym& s : others::kCommands)
      if (s.theirs == words[second] && find_command(*group, std::string(s.ours))) {
        replace(second, {std::string(s.ours)});
        break;
      }
  return words;
}

// "--corpus a.txt b.txt", as a shell makes it of *.txt: each with the option, where a command takes no arguments.
Words repeat_options(const CLI::App& root, const Words& words) {
  const CLI::App* app = &root;
  const auto is_argument = [](const CLI::Option* o) { return o->get_positional(); };
  const auto is_alike = [](const std::filesystem::path& file, const std::filesystem::path& other) {
    std::error_code error;
    return file.extension() == other.extension() && std::filesystem::exists(file, error) &&
           std::filesystem::exists(other, error);
  };
  Words all;
  for (size_t i = 0; i < words.size(); ++i) {
    if (const CLI::App* sub = find_command(*app, words[i])) app = sub;
    all.push_back(words[i]);
    const CLI::Option* option = words[i].starts_with("-") ? app->get_option_no_throw(words[i]) : nullptr;
    if (!option || option->get_items_expected_min() == 0 || i + 1 == words.size()) continue;
    const std::string &name = words[i], &value = words[++i];
    all.push_back(value);
    if (option->get_items_expected_max() <= 1 || std::ranges::any_of(app->get_options(), is_argument)) continue;
    const size_t first = i;
    for (; i + 1 < words.size() && is_alike(value, words[i + 1]); ++i) all.insert(all.end(), {name, words[i + 1]});
    if (i > first) to_stderr(fmt::format("toy: {} is meant for each of {} files\n", name, i - first + 1));
  }
  return all;
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
  for (const auto& v : others::kValues)
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

// --train-file of other programs is a text as often as rows of examples.
std::string data_or_corpus(const CLI::App& app, const std::string& value) {
  const auto ends = [&](const char* ending) { return value.ends_with(ending); };
  const bool is_rows = ends(".jsonl") || ends(".json") || ends(".csv") || ends(".tsv");
  std::error_code error;
  const bool is_text = !is_rows && std::filesystem::is_regular_file(value, error);
  return is_text && app.get_option_no_throw("--corpus") ? "--corpus" : "--data";
}

// The value of the option that begins at words[at], and whether that is in the same word; "" where there is none.
std::pair<std::string, bool> value_at(const Words& words, size_t at) {
  const size_t equals = words[at].find('=');
  if (equals != std::string::npos) return {words[at].substr(equals + 1), true};
  return {at + 1 < words.size() ? words[at + 1] : "", false};
}

// "--tokenizer bpe --vocab-size 1000" is --tokenizer bpe:1000 here, and without the first the default's kind is meant.
Words take_vocabulary_size(const CLI::App& root, Words words) {
  const CLI::App* app = &root;
  for (const std::string& word : words)
    if (const CLI::App* sub = find_command(*app, word)) app = sub;
  const auto is_kind = [](const std::string& word) { return name_of(word) == "--tokenizer"; };
  const auto is_size = [](const std::string& word) { return name_of(word) == "--vocab-size" || word == "--vocab"; };
  auto at = std::ranges::find_if(words, is_size);
  const CLI::Option* option = app->get_option_no_throw("--tokenizer");
  if (at == words.end() || !option || app->get_option_no_throw("--vocab-size")) return words;
  const auto [size, joined] = value_at(words, size_t(at - words.begin()));
  check(!size.empty(), "--vocab-size has no value; write --tokenizer bpe:512 for a vocabulary of 512 tokens");
  const auto given = std::ranges::find_if(words, is_kind);
  const auto [kind, kind_joined] =
      given == words.end() ? std::pair(std::string(), false) : value_at(words, size_t(given - words.begin()));
  const std::string usual = option->get_default_str();
  check(!kind.empty() || usual.find(':') != usual.npos,
        "unknown option '--vocab-size'; write --tokenizer bpe:{0} for a vocabulary of {0} tokens", size);
  check(kind.empty() || kind == "bpe" || kind == "spm" || kind == "unigram",
        "--tokenizer {} says already how many tokens there are; leave out --vocab-size", shell_quoted(kind));
  const std::string all = (kind.empty() ? usual.substr(0, usual.find(':')) : kind) + ":" + size;
  tell("--vocab-size " + size, "--tokenizer " + all);
  if (given != words.end()) words.erase(given, given + (kind_joined ? 1 : 2));
  at = std::ranges::find_if(words, is_size);
  words.insert(words.erase(at, at + (joined ? 1 : 2)), {"--tokenizer", all});
  return words;
}

}  // namespace

std::string needless_option(const CLI::App& app, const std::string& theirs) {
  const std::string name = name_of(theirs), path = path_of(app) + " ";
  for (const others::Needless& n : others::kNeedless)
    if (n.theirs == name && (n.of.empty() || app.get_option_no_throw(std::string(n.of))) &&
        (n.in.empty() || path.starts_with(std::string(n.in) + " ")))
      return std::string(n.reason);
  if (app.get_option_no_throw("--size") && std::ranges::find(others::kSizeNames, name) != std::end(others::kSizeNames))
    return std::string(app.get_name() == "vit" ? others::kSizesOfPictures : others::kSizes);
  return {};
}

std::string needless_value(const std::string& option, const Words& words) {
  for (const auto& v : others::kNeedlessValues)
    for (size_t i = 0; i < words.size(); ++i) {
      const bool here = words[i] == option || words[i] == option.substr(1, 2);  // "--n" and "-n"
      if (v.option == option && here && i + 1 < words.size() && words[i + 1] == v.theirs)
        return fmt::format("; {}", v.reason);
    }
  return {};
}

Words known_synonyms(const CLI::App& app) {
  Words names;
  for (const others::Synonym& s : others::kOptions)
    if (s.theirs.size() > 3 && app.get_option_no_throw(std::string(s.ours))) names.emplace_back(s.theirs);
  return names;
}

bool names_command(const CLI::App& root, const std::string& word) {
  Words names;
  for (const CLI::App* s : root.get_subcommands({})) names.push_back(s->get_name());
  return our_command(root, word) != Words{word} || !nearest(word, names).empty() || !known_command(word).empty();
}

std::string known_command(const std::string& word) {
  Words names;
  for (const others::Synonym& s : others::kCommands) names.emplace_back(s.theirs);
  const std::string near = nearest(word, names);
  for (const others::Synonym& s : others::kCommands)
    if (s.theirs == near) return std::string(s.ours);
  return {};
}

std::string needless_command(const CLI::App& app, const std::string& word) {
  for (const auto& n : others::kNeedlessCommands)
    if (n.theirs == word && n.of == app.get_name()) return std::string(n.reason);
  return {};
}

Words in_our_words(const CLI::App& root, const Words& given) {
  if (given.empty()) return given;
  const Words words = take_vocabulary_size(root, our_commands(root, given));
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
    if (word == "--") {
      ours.insert(ours.end(), words.begin() + std::ptrdiff_t(i), words.end());
      break;
    }
    refuse_typographic_dash(*app, word);
    std::string name = word.substr(0, word.find('='));
    const bool known = name.size() < 2 || name[0] != '-' || app->get_option_no_throw(name);
    std::string found = known ? "" : our_option(*app, name_of(word));
    if (!known && found.empty() && app == find_command(root, "train"))  // of a run whose recipe comes later
      found = our_option(*app->get_subcommands({})[0], name_of(word));
    if (found == name) found.clear();
    if (found == "--config" && name == "-c" && !value_at(words, i).first.ends_with(".json")) found.clear();
    if (found == "--data")
      found = data_or_corpus(*app, word.size() > name.size() ? word.substr(name.size() + 1)
                                   : i + 1 < words.size()    ? words[i + 1]
                                                             : "");
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
        if (found != "model" && found != "in")  // it comes after the model
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
    const bool is_bench = app->get_parent() && app->get_parent()->get_name() == "bench";  // its --prompt is a number
    if (option->get_items_expected_max() == 1 && takes_any_text(name) && !is_bench)
      check(texts.insert(option).second, "{} is given twice; remove one{}", option->get_name(),
            app->get_option_no_throw("--prompts") ? ", or give several prompts with --prompts FILE" : "");
    say_our_value(*app, words, name, value);
    ours.push_back(joined ? name + "=" + value : name);
    if (!joined) ours.push_back(value);
  }
  const auto looks_like_option = [](const std::string& value) { return value.starts_with("-"); };
  if (std::ranges::any_of(last, looks_like_option) && std::ranges::find(ours, "--") == ours.end())
    ours.emplace_back("--");
  ours.insert(ours.end(), last.begin(), last.end());
  return repeat_options(root, ours);
}

}  // namespace toy::cli
