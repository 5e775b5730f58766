// What the program says of options of other programs: it names only options that are there.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <set>
#include <sstream>

#include "cli/command.h"
#include "cli/needless_words.h"
#include "cli/synonyms.h"
#include "cli/words_of_others.h"

namespace {

namespace cli = toy::cli;

void add_all(CLI::App& root) {
  cli::add_train(root, nullptr), cli::add_bench(root, nullptr);
  for (const auto add :
       {cli::add_new,     cli::add_infer,    cli::add_chat,      cli::add_embed,     cli::add_search,   cli::add_rerank,
        cli::add_serve,   cli::add_eval,     cli::add_list,      cli::add_fetch,     cli::add_quantize, cli::add_merge,
        cli::add_convert, cli::add_describe, cli::add_look,      cli::add_tokenizer, cli::add_corpus,   cli::add_data,
        cli::add_runs,    cli::add_devices,  cli::add_completion})
    add(root);
}

// Options that an advice names and that are not there. After `toy COMMAND`, up to the end of the clause, they are of
// that command.
std::vector<std::string> missing_in(const CLI::App& root, const CLI::App& app, const std::string& advice) {
  std::vector<std::string> missing;
  const CLI::App* of = &app;
  bool calls = false;  // after "toy"
  std::istringstream words(advice);
  for (std::string word; words >> word;) {
    const bool ends = word.ends_with(';') || word.ends_with(',') || word.ends_with(':');
    if (ends) word.pop_back();
    if (word == "toy")
      of = &root, calls = true;
    else if (const CLI::App* sub = calls ? cli::find_command(*of, word) : nullptr)
      of = sub;
    if (word.starts_with("--") && !of->get_option_no_throw(word)) missing.push_back(word);
    if (ends) of = &app, calls = false;
  }
  return missing;
}

TEST(Advice, NamesOptionsThatAreThere) {
  CLI::App root("", "toy");
  root.set_version_flag("--version", "");
  add_all(root);
  std::set<std::string> theirs(std::begin(cli::others::kSizeNames), std::end(cli::others::kSizeNames));
  for (const auto& n : cli::others::kNeedless) theirs.emplace(n.theirs);
  int said = 0;
  std::set<std::string> advices;
  const std::function<void(const CLI::App&, const std::string&)> look = [&](const CLI::App& app,
                                                                            const std::string& path) {
    for (const CLI::App* sub : app.get_subcommands({})) look(*sub, path + " " + sub->get_name());
    if (app.get_options([](const CLI::Option* o) { return o->get_name() != "--help" && o->get_name() != "--help-all"; })
            .empty())
      return;  // a group
    for (const std::string& word : theirs) {
      if (app.get_option_no_throw(word) || !cli::our_option(app, word).empty()) continue;
      const std::string advice = cli::needless_option(app, word);
      if (advice.empty()) continue;
      ++said, advices.insert(advice);
      EXPECT_EQ(missing_in(root, app, advice), std::vector<std::string>()) << path << " " << word << ": " << advice;
      if (const size_t at = advice.find(" comes after the model: "); at != advice.npos) {
        EXPECT_EQ(advice.substr(at + 24), path + " MODEL TEXT") << word;
      }
    }
  };
  look(root, "toy");
  EXPECT_GT(said, 500);
  // No advice is there in vain.
  for (const auto& n : cli::others::kNeedless) EXPECT_TRUE(advices.contains(std::string(n.reason))) << n.theirs;
}

TEST(Advice, TheCheckFindsWhatIsMissing) {
  CLI::App root("", "toy");
  add_all(root);
  const CLI::App& embed = *cli::find_command(root, "embed");
  EXPECT_EQ(missing_in(root, embed, "--corpus takes a file; --file, too"), std::vector<std::string>{"--corpus"});
  EXPECT_EQ(missing_in(root, embed, "use toy train lora --corpus FILE --what X"), std::vector<std::string>{"--what"});
  EXPECT_EQ(cli::needless_option(embed, "-p"), "the text comes after the model: toy embed MODEL TEXT");
  const CLI::App& train = *cli::find_command(root, "train");
  EXPECT_EQ(cli::needless_option(*cli::find_command(train, "vit"), "-p"), "");
  EXPECT_EQ(cli::needless_option(*cli::find_command(train, "vit"), "--model"),
            "a classifier of pictures begins from nothing; leave it out");
  EXPECT_EQ(cli::needless_option(*cli::find_command(train, "dpo"), "--prompt_column"),
            "--map prompt=NAME,chosen=NAME,rejected=NAME names the fields");
}

}  // namespace
