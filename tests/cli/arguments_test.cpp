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

// Every option of numbers of every command: what it takes is in the manifest's defaults.
TEST_F(CliArguments, NumbersThatAreNone) {
  const std::string golden = TOY_GOLDEN, infer = "infer " + golden + " --prompt-ids 1 ";
  const std::string most = "99999999999999999999", range = "-9223372036854775808 to 9223372036854775807";
  refuses("train from-scratch --corpus x --steps " + most, {"--steps is '" + most + "'", range});
  refuses("train from-scratch --corpus x --steps=-" + most, {"--steps is '-" + most + "'", range});
  refuses(infer + "--n " + most, {"--n is '" + most + "'", range});
  refuses("corpus stories --bytes " + most, {"--bytes is '" + most + "'", range});
  refuses(infer + "--threads 99999999999", {"--threads is '99999999999'", "-2147483648 to 2147483647"});
  refuses("tokenizer decode " + golden + " 1 99999999999", {"ids is '1 99999999999'", "2147483647"});
  for (const std::string value : {"abc", "1.5", "1e3", "0x10", "true", "''", "' 1'", "1,2"})
    refuses(infer + "--n " + value, {"--n is '", "whole number"});
  for (const std::string value : {"abc", "nan", "inf", "1e999", "-1e999", "0x1p3", "''", "1.0f"}) {
    refuses(infer + "--temperature " + value, {"--temperature is '", "finite number"});
    refuses("train from-scratch --corpus x --lr " + value, {"--lr is '", "finite number"});
  }
  EXPECT_EQ(toy(infer + "--n 010 --ignore-eos").out, toy(infer + "--n 10 --ignore-eos").out);  // decimal
}

TEST_F(CliArguments, WhatTheParserRefusesIsSaidInOurWords) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " ";
  refuses(infer + "--n 1 --n 2", {"--n was given 2 times: 1, 2", "once"});
  refuses(infer + "--prompt a --prompt b", {"--prompt was given 2 times: a, b;"});
  refuses(infer + "--n", {"--n has no value", "a whole number", "tokens to generate"});
  refuses(infer + "--json=maybe", {"--json"});
  refuses(infer + "--prompt a --prompt-ids 1", {"--prompt", "--prompt-ids", "give one of them"});
  refuses("infer", {"toy infer: model is missing", "a GGUF file", "toy infer --help"});
  refuses("train from-scratch", {"toy train from-scratch: --corpus is missing", "toy train from-scratch --help"});
  refuses("train", {"toy train: no recipe given", "from-scratch, warm-start"});
  refuses("bench", {"toy bench: no bench command given", "machine, ops, train, infer"});
  refuses("tokenizer", {"toy tokenizer: no tokenizer command given", "train, encode, decode"});
  refuses("describe tiny small", {"describe", "more words than it takes"});
}

TEST_F(CliArguments, MessagesSayWhatIsMeant) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 ";
  refuses("infer '' --prompt a", {"the name of the file is empty"});
  refuses("train from-scratch --corpus ''", {"the name of the file is empty"});
  EXPECT_EQ(toy(infer + "--n 5.5").err, "toy: --n is '5.5', expected a whole number\n");
  refuses("bench train --shape tiny --steps 0", {"steps is 0, expected 1 to 1000000"});
  refuses("bench machine --device reference", {"device is 'reference'"});
  refuses("bench train --shape tiny --tokens 100000000 --batch 20", {"memory", "training this model with this batch"});
  refuses("train from-scratch --corpus x --init y", {"unknown option '--init'; `toy train warm-start` has it"});
  refuses("train --corpus x", {"--corpus is an option of `toy train from-scratch`"});
  refuses("train --init y", {"--init is an option of `toy train warm-start`, and stands behind that"});
  refuses("generate --help", {"unknown command 'generate'"});
  refuses("train scratch --help", {"unknown recipe 'scratch'"});
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
  EXPECT_NE(greedy.err.find("--top-k, --seed changes nothing at temperature 0"), std::string::npos) << greedy.err;
  EXPECT_EQ(greedy.out, toy(infer).out);
  EXPECT_EQ(toy(infer + "--top-k 4 --temperature 0.5").err, "");
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
    }
  EXPECT_EQ(toy_to(">/dev/null 2>&-", "describe tiny").code, 0);  // nobody listens to what is said on the side
  const Result bad = toy_to(">&-", "infer none.gguf");
  EXPECT_EQ(bad.code, 2) << bad.err;  // there would have been no output
}

TEST_F(CliArguments, IdsAreRefusedOneByOne) {
  const std::string infer = std::string("infer ") + TOY_GOLDEN + " --n 2 --prompt-ids ";
  refuses(infer + "1,,2", {"prompt-ids '1,,2'", "item 2 is ''"});
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
  const std::string letter = write("letter.txt", "Dear reader,\n\nthis is not to be lost.\n"), own = path("own");
  for (const std::string& command :
       {std::string("corpus stories --bytes 2000 --seed 4 --out "),
        "tokenizer train --tokenizer bytes --corpus " + write("text.txt", "a text") + " --out ",
        "eval " + std::string(TOY_SOURCE_DIR) + "/tests/golden/eval_bytes.model.gguf --file " +
            write("words.txt", "some words") + " --logprobs-out "}) {
    refuses(command + letter, {letter, "exists"});
    fs::remove(own);
    EXPECT_EQ(toy(command + own).code, 0) << command;
    EXPECT_EQ(toy(command + own).code, 0) << command;  // its own, again
  }
  EXPECT_EQ(slurp(letter), "Dear reader,\n\nthis is not to be lost.\n");
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
  refuses("tokenizer decode " + vocab + " -- -1", {"number 1 is -1", "0 to 299"});
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
  const std::string warning = "made for 128 positions; with ";
  const Result infer = toy("infer " + golden + " --prompt-ids 1,2 --n 130 --ctx 200");
  ASSERT_EQ(infer.code, 0) << infer.err;
  EXPECT_NE(infer.err.find(warning + "200"), std::string::npos) << infer.err;
  EXPECT_EQ(toy("infer " + golden + " --prompt-ids 1,2 --n 4 --ctx 128").err, "");
  const Result bench = toy("bench infer " + golden + " --prompt 120 --decode 20 --repeat 1 --json");
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_NE(bench.err.find(warning + "140"), std::string::npos) << bench.err;
  for (const std::string& call : {"infer " + golden + " --prompt-ids 1 --ctx ", "describe " + golden + " --ctx ",
                                  "eval " + golden + " --file " + tiny_corpus() + " --ctx "}) {
    refuses(call + "16777217", {"ctx is 16777217", "16777216"});
    refuses(call + "-1", {"ctx is -1"});
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
  EXPECT_NE(one.out.find("no standard error: it needs at least two blocks of 64 tokens, there is 1"), std::string::npos)
      << one.out;
  EXPECT_NE(
      toy(eval + write("long.txt", slurp(path("corpus.txt")).substr(0, 400))).out.find("+- is the standard error over"),
      std::string::npos);
}

}  // namespace
