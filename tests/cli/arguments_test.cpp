// What a command line can get wrong, and an output that nobody takes.
#include "cli/cli_fixture.h"

namespace {

class CliArguments : public Cli {
 protected:
  // A file with a vocabulary of 300 tokens and no weights.
  std::string vocabulary() const {
    const std::string corpus = path("stories.txt"), vocab = path("vocab.gguf");
    EXPECT_EQ(toy("corpus stories --bytes 30000 --seed 1 --out " + corpus).code, 0);
    const Result r = toy("tokenizer train --corpus " + corpus + " --tokenizer spm:300 --out " + vocab);
    EXPECT_EQ(r.code, 0) << r.err;
    return vocab;
  }
  // Runs with standard output led elsewhere.
  Result toy_to(const std::string& output, const std::string& arguments) const {
    const std::string err = path("stderr");
    const int status =
        std::system((std::string(TOY_BINARY) + " " + arguments + " 2>" + err + " </dev/null " + output).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), "", slurp(err)};
  }
};

TEST_F(CliArguments, NumbersThatAreNone) {
  const std::string golden = TOY_GOLDEN, infer = "infer " + golden + " --prompt-ids 1 ";
  const std::string most = "99999999999999999999";
  refuses("train from-scratch --corpus x --steps " + most, {"--steps", most, "1 to 9223372036854775807"});
  refuses("train from-scratch --corpus x --steps=-" + most, {"--steps", "-" + most, "1 to 9223372036854775807"});
  refuses(infer + "--n " + most, {"--n", most, "-1 to 9223372036854775807"});
  refuses("corpus stories --bytes " + most, {"--bytes", most, "1 to 17179869184"});
  refuses("tokenizer decode " + golden + " 1 99999999999", {"ids is '1 99999999999'", "item 2", "2147483647"});
  refuses("tokenizer decode " + golden + " once", {"item 1 is 'once'", "(toy tokenizer encode makes them of a text)"});
  for (const std::string value : {"abc", "1.5", "1e3", "0x10", "true", "''", "' 1'", "1,2", "-", "1-"})
    refuses(infer + "--n " + value, {"--n", value.front() == '\'' ? "" : value, "whole number"});
  for (const std::string value : {"abc", "nan", "inf", "1e999", "-1e999", "0x1p3", "''", "1.0f"}) {
    refuses(infer + "--temperature " + value, {"--temperature", "finite number"});
    refuses("train from-scratch --corpus x --lr " + value, {"--lr", "finite number"});
  }
  EXPECT_EQ(toy(infer + "--n 010 --ignore-eos").out, toy(infer + "--n 10 --ignore-eos").out);  // decimal
}

// The value, and the range that the help states.
TEST_F(CliArguments, RangesAreThoseOfTheOption) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 ";
  const std::string train = "train from-scratch --corpus x ", bench = "bench train --shape tiny ";
  refuses(infer + "--threads 1025", {"--threads", "1025", "0 to 1024"});
  refuses(infer + "--threads 99999999999", {"--threads", "99999999999", "0 to 1024"});
  refuses(infer + "--threads -1", {"--threads", "-1", "0 to 1024"});
  refuses(infer + "--top-p -0.1", {"--top-p", "0 to 1"});
  refuses(infer + "--top-p 1.5", {"--top-p", "1.5", "0 to 1"});
  refuses(infer + "--temp -1", {"--temperature", "-1", "0 or more"});
  refuses(infer + "--top-k 2147483648", {"--top-k", "2147483648", "-1 to 2147483647"});
  refuses(infer + "--parallel 0", {"--parallel", "1 to 1024"});
  refuses(train + "--dropout 1", {"--dropout is 1", "0 to below 1"});
  refuses(train + "--lr -0.1", {"--lr is -0.1", "above 0"});
  refuses(train + "--lr 0", {"--lr is 0", "above 0"});
  refuses(train + "--final-lr 2", {"--final-lr", "2", "0 to 1"});
  refuses(train + "--steps 0", {"--steps is 0", "1 or more"});
  refuses(train + "--warmup -2", {"--warmup", "-2", "-1 or more"});
  refuses(train + "--ema 1", {"--ema", "0 to below 1"});
  refuses(train + "--corpus-weight -1", {"--corpus-weight", "0 or more"});
  refuses(bench + "--steps 1000001", {"--steps", "1000001", "1 to 1000000"});
  refuses("runs show x --height 2", {"--height", "3 to 200"});
  for (const char* command : {"runs show x", "runs compare x y", "runs list"})
    for (const char* width : {"3", "1001", "99999999999", "99999999999999999999"})
      refuses(std::string(command) + " --width " + width, {"--width is " + std::string(width), "8 to 1000, or 0"});
  refuses(train + "--config " + write("c.json", R"({"dropout": 1})"), {"dropout", "0 to below 1"});
  refuses(train + "--config " + write("d.json", R"({"schedule": "cosin"})"), {"schedule", "cosin", "'cosine'"});
  for (const std::string& help : {toy("infer --help-all").out, toy("train from-scratch --help-all").out})
    EXPECT_NE(help.find("0 to 1024"), std::string::npos) << help;
}

// Words of other programs are taken where one meaning is left, and said on stderr.
TEST_F(CliArguments, WordsOfOtherPrograms) {
  const std::string model = TOY_GOLDEN,
                    wanted = toy("infer " + model + " --prompt-ids 1 --n 3 --seed 4 --temp 0.7").out;
  ASSERT_FALSE(wanted.empty());
  for (const std::string& line :
       {"infer -m " + model + " --prompt-ids 1 --max-tokens 3 --random-seed 4 --temp 0.7",
        "generate --model=" + model + " --prompt_ids 1 --max_new_tokens=3 -s 4 --temp 0.7",
        "infer --prompt-ids 1 --model_path " + model + " --n-predict 3 --seed 4 --temp 0.7"}) {
    const Result r = toy(line);
    EXPECT_EQ(r.out, wanted) << line << r.err;
    EXPECT_NE(r.err.find("is the argument MODEL here"), std::string::npos) << r.err;
  }
  EXPECT_EQ(toy("generate --prompt-ids 1 -m " + model + " -n3 --temp 0").err,
            "toy: 'generate' is `toy infer` here\ntoy: -m is the argument MODEL here\n");
  const Result quantized = toy("quantize --out " + path("q.gguf") + " --type Q8_0 -m " + model);
  EXPECT_EQ(quantized.code, 0) << quantized.err;
  EXPECT_NE(quantized.err.find("--out is the argument OUT here"), std::string::npos) << quantized.err;
  EXPECT_TRUE(fs::exists(path("q.gguf")));
  EXPECT_EQ(toy("quantize --out " + path("q2.gguf") + " --type Q8_0 -- " + model).code, 0);
  EXPECT_TRUE(fs::exists(path("q2.gguf")));
  // Values that look like options stay values, as does what follows --.
  EXPECT_EQ(toy("tokenizer encode " + vocabulary() + " --text --max-tokens").err, "");
  refuses("infer -- " + model + " --prompt-ids", {"prompt-ids"});
  // Recipes, and help.
  EXPECT_NE(toy("sft --help").out.find("Usage: toy train lora"), std::string::npos);
  EXPECT_NE(toy("train sft --help").out.find("Usage: toy train lora"), std::string::npos);
  EXPECT_NE(toy("dpo --help").out.find("Usage: toy train dpo"), std::string::npos);
  EXPECT_NE(toy("help run").out.find("Usage: toy chat"), std::string::npos);
  EXPECT_EQ(toy("version").out, toy("--version").out);
  refuses("train dpo --model x --data y --max-seq-len 0", {"--tokens is 0"});
  refuses("train warm-start -m " + path("none.gguf") + " --corpus y", {"none.gguf"});
  // No guess where a command has no such option, or the value is missing.
  refuses("infer " + model + " --learning-rate 1", {"unknown option '--learning-rate'"});
  refuses("infer " + model + " --max-tokenz 1", {"did you mean '--max-tokens'?"});
  refuses("infer -m", {"MODEL is missing"});
  refuses("frobnicate", {"unknown command 'frobnicate'"});
}

TEST_F(CliArguments, APromptMayStandByItself) {
  const std::string model = vocabulary();
  refuses("infer " + model + " Once upon", {"put quotes around a text of several words"});
  refuses("infer " + model + " Once -p twice", {"there is a text and --prompt", "quotes"});
}

TEST_F(CliArguments, IdsAndTheirTexts) {
  const std::string model = vocabulary();
  const std::string ids = toy("tokenizer encode " + model + " --text 'the cat'").out;
  std::string commas = ids.substr(0, ids.size() - 1);
  std::replace(commas.begin(), commas.end(), ' ', ',');
  EXPECT_EQ(toy("tokenizer decode " + model + " " + commas).out, "the cat");
  EXPECT_EQ(toy("tokenizer decode " + model + " '" + ids.substr(0, ids.size() - 1) + "'").out, "the cat");
  const auto pieces = nlohmann::json::parse(toy("tokenizer encode " + model + " --text 'the cat' --pieces --json").out);
  std::string text, listed;
  for (const auto& p : pieces) {
    listed += std::to_string(p["id"].get<int>()) + " ";
    if (p["text"] != "<s>") text += p["text"].get<std::string>();
  }
  listed.back() = '\n';
  EXPECT_EQ(listed, ids);
  EXPECT_EQ(text, "the cat");
  EXPECT_NE(toy("tokenizer encode " + model + " --text 'the cat' --pieces").out.find("  \" c"), std::string::npos);
}

TEST_F(CliArguments, PagesOfTheManual) {
  const std::string page = slurp(std::string(TOY_SOURCE_DIR) + "/docs/training.md");
  for (const char* name : {"training", "training.md", "docs/training.md"})
    EXPECT_EQ(toy(std::string("help ") + name).out, page) << name;
  EXPECT_NE(toy("help chat").out.find("Usage: toy chat"), std::string::npos);
  EXPECT_EQ(toy("help chat.md").out.substr(0, 6), "# Chat");
  const std::string all = toy("help pages").out;
  for (const auto& file : fs::directory_iterator(std::string(TOY_SOURCE_DIR) + "/docs"))
    if (file.path().extension() == ".md") {
      EXPECT_NE(all.find("  " + file.path().filename().string() + " "), std::string::npos) << file.path();
    }
  refuses("help traning.md", {"traning.md"});
}

TEST_F(CliArguments, WordsAreExplained) {
  for (const char* word : {"nat", "nats", "NAT"})
    EXPECT_EQ(toy(std::string("help ") + word).out,
              "nat: the unit of a loss, because its logarithm is natural (toy help "
              "language-model-in-ten-minutes.md)\n");
  EXPECT_EQ(toy("help learning rate").out.rfind("learning rate: how far", 0), 0u);
  EXPECT_NE(toy("help data").out.find("Usage: toy data"), std::string::npos);
  refuses("help nats per", {"nats"});
}

TEST_F(CliArguments, TheLastOfARepeatedOptionWins) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 --ignore-eos ";
  const std::string three = toy(infer + "--n 3").out;
  EXPECT_EQ(toy(infer + "--n 5 --n 3").out, three);
  EXPECT_EQ(toy(infer + "-n 5 --n=3").out, three);
  EXPECT_EQ(toy(infer + "--prompt-ids 2 --prompt-ids 1 --n 3").out, three);
  const std::string vocab = vocabulary();
  const std::string encode = "tokenizer encode " + vocab + " --text ";
  // But of two texts one would be lost.
  refuses(encode + "dog --text=-x", {"--text is given twice; remove one"});
  // Names of control tokens, for which this vocabulary has one token.
  EXPECT_EQ(toy(encode + "'</s>'").out, "2\n");
  EXPECT_NE(toy(encode + "'</s>' --no-parse-special").out, "2\n");
  EXPECT_EQ(toy(encode + "'</s>' --no-parse-special --parse-special").out, "2\n");
  // Lists keep all, and a run's config.json has the value that counted.
  const Result r = toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 9 --steps 1 --tap x_final " +
                       "--tap logits --config " + write("none.json", R"({"lr": 5})") + " --config " +
                       write("c.json", R"({"final-lr": 0.5})") + " --out " + path("run"));
  ASSERT_EQ(r.code, 0) << r.err;
  const auto config = nlohmann::json::parse(slurp(path("run/config.json")));
  EXPECT_EQ(config.at("steps"), 1);
  EXPECT_EQ(config.at("tap").size(), 2u);
  EXPECT_EQ(config.at("final-lr"), 0.5);
}

// A script's variable that is not set gives one.
TEST_F(CliArguments, EmptyValuesAreRefused) {
  refuses("infer '' --prompt a", {"model is empty", "file"});
  refuses("train from-scratch --corpus ''", {"--corpus is empty"});
  const std::string train = "train from-scratch --corpus x --out " + path("run");
  refuses("train from-scratch --corpus x --out ''", {"--out is empty"});
  for (const char* option : {"--memory", "--data-cache", "--tensorboard", "--val"})
    refuses(train + " " + option + " ''", {std::string(option) + " is empty"});
  refuses("describe tiny --limit ''", {"--limit is empty"});
  refuses("runs show x --svg ''", {"--svg is empty"});
  refuses("runs compare x y --svg ''", {"--svg is empty"});
  EXPECT_EQ(toy("tokenizer encode " + vocabulary() + " --text ''").out, "\n");  // a text may be
}

TEST_F(CliArguments, LettersTakeAnEqualsSign) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 --ignore-eos ";
  const Result three = toy(infer + "-n=3");
  EXPECT_EQ(three.code, 0) << three.err;
  EXPECT_EQ(three.out, toy(infer + "--n 3").out);
  EXPECT_EQ(three.out, toy(infer + "-n3").out);
  refuses(infer + "-n=x", {"--n is 'x'"});
}

TEST_F(CliArguments, HelpOfACommand) {
  for (const std::string& command : {std::string(""), std::string("train"), std::string("train from-scratch"),
                                     std::string("infer"), std::string("runs list")}) {
    const Result help = toy("help " + command);
    EXPECT_EQ(help.code, 0) << help.err;
    EXPECT_EQ(help.out, toy(command + " --help").out);
  }
  refuses("help trian", {"trian", "'train'"});
  refuses("help train scrtch", {"unknown recipe", "scrtch"});
}

// --help shows the common options, --help-all all of them; both in groups.
TEST_F(CliArguments, HelpIsGroupedAndWrapped) {
  const std::string common = toy("train from-scratch --help").out, all = toy("train from-scratch --help-all").out;
  size_t last = 0;
  for (const char* group : {"\nModel:\n", "\nData:\n", "\nBatch:\n", "\nOptimizer:\n", "\nSchedule:\n",
                            "\nCheckpoints:\n", "\nOutput:\n", "\nDebugging:\n"}) {
    EXPECT_GT(common.find(group), last) << group;
    last = common.find(group);
    EXPECT_NE(all.find(group), std::string::npos) << group;
  }
  EXPECT_EQ(common.find("--lr-for"), std::string::npos);
  EXPECT_NE(common.find("more options: toy train from-scratch --help-all"), std::string::npos);
  EXPECT_NE(all.find("--lr-for"), std::string::npos);
  EXPECT_LT(all.find("--lr X"), all.find("--lr-for"));  // common ones first
  for (const std::string columns : {"80", "60"})
    for (const std::string command : {"infer", "describe", "train from-scratch", "bench train"}) {
      setenv("COLUMNS", columns.c_str(), 1);
      std::istringstream lines(toy(command + " --help").out);
      unsetenv("COLUMNS");
      for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), std::stoul(columns)) << command << ": " << line;
    }
  // A screen, and two.
  setenv("COLUMNS", "100", 1);
  for (const char* recipe : {"from-scratch", "warm-start", "full-finetune", "lora", "dpo"}) {
    const std::string few = toy(std::string("train ") + recipe + " --help").out,
                      more = toy(std::string("train ") + recipe + " --help-all").out;
    EXPECT_LE(std::count(few.begin(), few.end(), '\n'), 66) << few;
    EXPECT_LE(std::count(more.begin(), more.end(), '\n'), 116) << more;
  }
  unsetenv("COLUMNS");
  // Examples belong to their command.
  EXPECT_EQ(toy("corpus floor --help").out.find("train from-scratch"), std::string::npos);
}

TEST_F(CliArguments, WhatTheParserRefusesIsSaidInOurWords) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " ";
  refuses(infer + "--n", {"--n has no value", "a whole number"});
  refuses(infer + "--json=maybe", {"--json"});
  refuses(infer + "--prompt a --prompt-ids 1", {"--prompt", "--prompt-ids", "give one of them"});
  refuses("infer", {"MODEL is missing", "GGUF", "toy infer --help"});
  refuses("train from-scratch", {"--corpus is missing", "--data"});
  refuses("train", {"no recipe given", "from-scratch, warm-start"});
  refuses("bench", {"no bench command given", "machine, ops, train, infer"});
  refuses("tokenizer", {"no tokenizer command given", "train, encode, decode"});
  refuses("describe tiny small", {"describe", "too many"});
}

TEST_F(CliArguments, MessagesSayWhatIsMeant) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 ";
  refuses("infer M -p -x --bogus", {"unknown option '--bogus'"});
  refuses("infer M -p x -n3 --bogus", {"unknown option '--bogus'"});
  EXPECT_EQ(
      toy(infer + "--n 5.5").err,
      "toy: --n is '5.5'; use a whole number: Tokens to generate; -1 for as many as fit (default: at most 128)\n");
  refuses("bench machine --device reference", {"--device", "reference"});
  refuses("bench train --shape tiny --tokens 100000000 --batch 20", {"memory", "training this model with this batch"});
  refuses("train from-scratch --corpus x --init y", {"unknown option '--init'; `toy train warm-start` has it"});
  refuses("train from-scratch --momentum 0.9", {"unknown option '--momentum'; write --optimizer 'sgd(momentum=...)'"});
  refuses("train --corpus x", {"--corpus is an option of `toy train from-scratch`"});
  refuses("train --init y", {"--init is an option of `toy train warm-start`", "write toy train warm-start --init"});
  refuses(infer + "--repeat 1", {"--repeat", "--repeat-penalty or --repeat-last-n"});  // the beginnings of two
  refuses("eval " + std::string(TOY_GOLDEN) + " --by", {"--by", "'--by-documents'"});
  refuses("produce --help", {"unknown command 'produce'"});
  refuses("train itself --help", {"unknown recipe 'itself'"});
  EXPECT_EQ(toy("train --help").code, 0);
  EXPECT_EQ(toy("--help").code, 0);
}

// A device may have no end.
TEST_F(CliArguments, TextsAreFilesAndPipes) {
  const std::string golden = TOY_GOLDEN;
  refuses("infer " + golden + " --prompt-file /dev/zero", {"/dev/zero", "is a device"});
  refuses("eval " + golden + " --file /dev/zero", {"/dev/zero", "is a device"});
  refuses("train from-scratch --corpus /dev/zero --out " + path("run"), {"/dev/zero", "is a device"});
}

TEST_F(CliArguments, WhatChanceDecidesNeedsATemperature) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 --n 2 ";
  const Result greedy = toy(infer + "--top-k 4 --seed 1");
  EXPECT_EQ(greedy.code, 0) << greedy.err;
  EXPECT_NE(greedy.err.find("--top-k, --seed change nothing at temperature 0"), std::string::npos) << greedy.err;
  EXPECT_EQ(greedy.out, toy(infer).out);
  EXPECT_EQ(toy(infer + "--top-k 4 --temperature 0.5 --seed 1").err, "");
}

TEST_F(CliArguments, AnOutputThatNobodyTakesIsAFailure) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 --n 2";
  for (const std::string output : {">&-", ">/dev/full"})
    for (const std::string& arguments :
         {std::string("--help"), std::string("--version"), std::string("--manifest"), std::string("infer --help"),
          std::string("describe tiny"), std::string("describe tiny --graph train"),
          std::string("corpus stories --bytes 100"), infer, infer + " --json"}) {
      const Result r = toy_to(output, arguments);
      EXPECT_EQ(r.code, 1) << arguments << output;
      EXPECT_NE(r.err.find("toy: stdout: the output could not be written"), std::string::npos)
          << arguments << output << "\n"
          << r.err;
      if (output == ">/dev/full") {
        EXPECT_NE(r.err.find("written: No space left on device"), std::string::npos) << arguments << "\n" << r.err;
      }
    }
  EXPECT_EQ(toy_to(">/dev/null 2>&-", "describe tiny").code, 0);  // nobody listens to what is said on the side
  const Result bad = toy_to(">&-", "infer none.gguf");
  EXPECT_EQ(bad.code, 2) << bad.err;  // there would have been no output
}

TEST_F(CliArguments, IdsAreRefusedOneByOne) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --n 2 --prompt-ids ";
  refuses(infer + "1,,2", {"--prompt-ids", "1,,2", "item 2 is ''"});
  refuses(infer + "1,2,", {"item 3 is ''"});
  refuses(infer + ",1", {"item 1 is ''"});
  refuses(infer + "1,-2", {"item 2 is '-2'", "0 to"});
  refuses(infer + "1,2x,3", {"item 2 is '2x'"});
  refuses(infer + "' '", {"prompt-ids", "no numbers"});
  const std::string plain = toy(infer + "1,2,3").out;
  EXPECT_EQ(toy(infer + "'1 2 3'").out, plain);
  EXPECT_EQ(toy(infer + "' 1, 2 ,3 '").out, plain);
}

TEST_F(CliArguments, OutputsReplaceOnlyTheirOwnKind) {
  const std::string text = "Dear reader,\n\nthis is not to be lost.\n", letter = write("letter.txt", text),
                    no_vocabulary = write("letter.gguf", text), own = path("own");
  for (const std::string& command :
       {std::string("corpus stories --bytes 2000 --seed 4 --out "),
        "tokenizer train --tokenizer bytes --corpus " + write("text.txt", "a text") + " --out ",
        "eval " + std::string(TOY_SOURCE_DIR) + "/tests/golden/eval_bytes.model.gguf --file " +
            write("words.txt", "some words") + " --logprobs-out "}) {
    const std::string& foreign = command.starts_with("tokenizer") ? no_vocabulary : letter;
    refuses(command + foreign, {foreign, "exists"});
    fs::remove(own);
    EXPECT_EQ(toy(command + own).code, 0) << command;
    EXPECT_EQ(toy(command + own).code, 0) << command;  // its own, again
  }
  EXPECT_EQ(slurp(letter), "Dear reader,\n\nthis is not to be lost.\n");
}

// A file that was written by the command and then changed is somebody's work.
TEST_F(CliArguments, WhatWasAddedToACorpusIsKept) {
  const std::string file = path("own.txt");
  for (const std::string command : {"corpus stories --bytes 2000", "corpus chats --rows 3", "corpus qa --rows 3",
                                    "corpus qa --rows 3 --form questions"}) {
    fs::remove(file);
    EXPECT_EQ(toy(command + " --out " + file).code, 0) << command;
    EXPECT_EQ(toy(command + " --out " + file).code, 0) << command;
    const std::string before = slurp(file), mine = before + "{\"prompt\": \"mine\"}\n";
    std::ofstream(file) << mine;
    refuses(command + " --out " + file, {"own.txt", "these options do not write it again", "--overwrite"});
    EXPECT_EQ(slurp(file), mine) << command;
    EXPECT_EQ(toy(command + " --overwrite --out " + file).code, 0) << command;
    EXPECT_EQ(slurp(file), before) << command;
    // What another seed wrote is lost, too; what has another length is not.
    refuses(command + " --seed 77 --out " + file, {"do not write it again"});
    EXPECT_EQ(slurp(file), before) << command;
    // A file that is no text was never meant.
    const std::string model = write("model.gguf", slurp(TOY_GOLDEN));
    refuses(command + " --overwrite --out " + model, {model, "exists and was not written by this command"});
  }
  for (const char* length : {"3000", "1000", "200000", "2000"})
    EXPECT_EQ(toy(std::string("corpus stories --bytes ") + length + " --out " + path("length.txt")).code, 0) << length;
  std::ofstream(path("length.txt"), std::ios::app) << "mine\n";
  refuses("corpus stories --bytes 300000 --out " + path("length.txt"), {"do not write it again"});
}

// Above 64 KiB only the beginning of a foreign text is read.
TEST_F(CliArguments, ALargeTextIsComparedToItsEnd) {
  const std::string file = path("large.txt"), command = "corpus stories --bytes 200000 --out " + file;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(toy(command).code, 0) << i;
  std::string text = slurp(file);
  text[text.size() - 3] ^= 1;
  std::ofstream(file) << text;
  refuses(command, {"do not write it again"});
  EXPECT_EQ(slurp(file), text);
}

TEST_F(CliArguments, TokenizerTakesStandardInputAndRefusesIds) {
  const std::string vocab = vocabulary(), text = write("text.txt", "the cat\nsat");
  const Result file = toy("tokenizer encode " + vocab + " --file " + text);
  ASSERT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(toy("tokenizer encode " + vocab + " --file -", text).out, file.out);
  const std::string empty = write("empty.txt", "");
  for (const std::string& from : {empty, std::string("-")}) {
    EXPECT_EQ(toy("tokenizer encode " + vocab + " --file " + from).out, "\n");
    EXPECT_EQ(toy("tokenizer encode " + vocab + " --json --file " + from).out, "[]\n");
  }
  refuses("tokenizer encode " + vocab, {"--text TEXT", "--file FILE"});
  refuses("tokenizer decode " + vocab + " 1 2 300", {"number 3 is 300", "0 to 299"});
  refuses("tokenizer decode " + vocab + " -- -1", {"item 1 is '-1'", "0 to 2147483647"});
}

TEST_F(CliArguments, AVocabularyIsNoModel) {
  const std::string vocab = vocabulary(), corpus = tiny_corpus();
  for (const std::string& call :
       {"infer " + vocab + " --prompt a", "eval " + vocab + " --file " + corpus, "describe " + vocab,
        "bench infer " + vocab, "train warm-start --init " + vocab + " --corpus " + corpus + " --out " + path("run")})
    refuses(call, {"vocab.gguf", "a vocabulary and no weights (300 tokens", "toy tokenizer"});
}

TEST_F(CliArguments, ContextsBeyondTheModels) {
  const std::string golden = TOY_GOLDEN;  // made for 128 positions
  const Result infer = toy("infer " + golden + " --prompt-ids 1,2 --n 130 --ctx 200");
  ASSERT_EQ(infer.code, 0) << infer.err;
  for (const char* fact : {"128 positions", "200"}) EXPECT_NE(infer.err.find(fact), std::string::npos) << infer.err;
  EXPECT_EQ(toy("infer " + golden + " --prompt-ids 1,2 --n 4 --ctx 128").err, "");
  const Result bench = toy("bench infer " + golden + " --prompt 120 --decode 20 --repeat 1 --json");
  ASSERT_EQ(bench.code, 0) << bench.err;
  for (const char* fact : {"128 positions", "140"}) EXPECT_NE(bench.err.find(fact), std::string::npos) << bench.err;
  for (const std::string& call : {"infer " + golden + " --prompt-ids 1 --ctx ", "describe " + golden + " --ctx ",
                                  "eval " + golden + " --file " + tiny_corpus() + " --ctx "}) {
    refuses(call + "16777217", {"--ctx is 16777217", "0 to 16777216"});
    refuses(call + "-1", {"--ctx is -1", "0 to 16777216"});
  }
}

TEST_F(CliArguments, ParallelNeedsPrompts) {
  refuses(std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 --parallel 4", {"--parallel", "--prompts"});
}

TEST_F(CliArguments, OneBlockHasNoStandardError) {
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("run")).code, 0);
  const std::string eval = "eval " + path("run/model.gguf") + " --ctx 32 --file ";
  const Result one = toy(eval + write("short.txt", "the cat sat on the mat"));
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out.find("+-"), std::string::npos) << one.out;
  for (const char* fact : {"no standard error", "two blocks of 64 tokens"})
    EXPECT_NE(one.out.find(fact), std::string::npos) << one.out;
  EXPECT_NE(
      toy(eval + write("long.txt", slurp(path("corpus.txt")).substr(0, 400))).out.find("+- is the standard error over"),
      std::string::npos);
}

}  // namespace
