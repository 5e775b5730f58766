// toy eval: what it prints, and what it refuses.
#include <cmath>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliEval : public Cli {
 protected:
  std::string model() const {
    EXPECT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 20 --out " + path("run")).code, 0);
    return path("run/model.gguf");
  }
};

TEST_F(CliEval, TextAndJsonAgreeWithTheLogprobs) {
  const std::string text = "the cat sat on mat number 12 and was glad.\nthe cat sat.\n", file = write("t.txt", text);
  const std::string eval = "eval " + model() + " --file " + file + " --ctx 32 --stride 8 ";
  const Result r = toy(eval + "--json --logprobs-out " + path("l.jsonl") + " --top-logprobs 2");
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j.at("tokens"), text.size() - 1);  // a token a byte, the first is not predicted
  EXPECT_EQ(j.at("bytes"), text.size() - 1);
  std::istringstream lines(slurp(path("l.jsonl")));
  double nats = 0;
  size_t index = 1;
  for (std::string line; std::getline(lines, line); ++index) {
    const json t = json::parse(line);
    EXPECT_EQ(t.at("index"), index);
    EXPECT_EQ(t.at("id"), int(text[index]));
    EXPECT_EQ(t.at("top").size(), 2u);
    EXPECT_GE(t.at("top")[0].at("logprob"), t.at("logprob"));
    nats -= t.at("logprob").get<double>();
  }
  EXPECT_EQ(index, text.size());
  const double mean = nats / double(text.size() - 1);
  EXPECT_NEAR(j.at("nats_per_token"), mean, 1e-12);
  EXPECT_NEAR(j.at("perplexity"), std::exp(mean), 1e-9);
  EXPECT_NEAR(j.at("bits_per_byte"), mean / std::log(2.0), 1e-12);
  EXPECT_NEAR(j.at("nats_per_byte"), mean, 1e-12);
  const Result t = toy(eval);
  EXPECT_EQ(t.out.rfind("perplexity ", 0), 0u) << t.out;
  EXPECT_NE(t.out.find("bits per byte"), std::string::npos);
  EXPECT_EQ(toy(eval + "--threads 1").out, t.out);
}

TEST_F(CliEval, SaysWhereActivationsAreRounded) {
  const std::string file = write("t.txt", "the cat");
  ASSERT_EQ(toy("quantize " + model() + " " + path("q.gguf") + " --type q8_0").code, 0);
  for (const auto& [device, products] : {std::pair{"cpu", "q8_0"}, {"emulated", "exact"}}) {
    const Result r = toy("eval " + path("q.gguf") + " --json --device " + device + " --file " + file);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(json::parse(r.out).at("products"), products) << device;
  }
}

TEST_F(CliEval, ByDocuments) {
  const std::string m = model(), file = write("d.txt", "the cat sat\n\nthe cat\nsat on mat\n\n\nglad\n");
  const Result r = toy("eval " + m + " --file - --by-documents --json --logprobs-out " + path("l.jsonl"), file);
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j.at("documents"), 3);
  EXPECT_EQ(j.at("tokens"), 10 + 17 + 3);
  EXPECT_EQ(j.at("error_over"), "documents");
  EXPECT_GT(j.at("nats_per_token_error"), 0);
  EXPECT_EQ(json::parse(slurp(path("l.jsonl")).substr(0, slurp(path("l.jsonl")).find('\n'))).at("document"), 0);
}

// The validation loss that training prints last is what eval says of the same text in the same windows.
TEST_F(CliEval, EqualsTheValidationLossOfTraining) {
  const std::string validation = write("v.txt", "the cat sat on mat number 5 and was glad. the mat sat on the cat.\n");
  const Result t = toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 5 --json --val " +
                       validation + " --out " + path("run"));
  ASSERT_EQ(t.code, 0) << t.err;
  double loss = 0;
  std::istringstream lines(t.out);
  for (std::string line; std::getline(lines, line);)
    if (const json j = json::parse(line); j.at("kind") == "eval") loss = j.at("loss");
  const Result e = toy("eval " + path("run/model.gguf") + " --file " + validation + " --ctx 16 --stride 4 --json");
  // f32 against f64: sums of 256 terms (tests/eval/score_test.cpp).
  EXPECT_NEAR(json::parse(e.out).at("nats_per_token"), loss, (256 + 8) * 0x1p-24 * loss);
}

// The answers of rows, as the validation of a training counts them.
TEST_F(CliEval, TheAnswersOfRows) {
  std::string rows;
  for (int i = 0; i < 12; ++i)
    rows += json{{"messages",
                  {{{"role", "user"}, {"content", "count to " + std::to_string(i)}},
                   {{"role", "assistant"}, {"content", "one two " + std::to_string(i)}}}}}
                .dump() +
            "\n";
  const std::string data = write("rows.jsonl", rows);
  const Result trained = toy("train from-scratch --data " + data + " --val " + data +
                             " --size tiny --tokenizer bytes --chat-template chatml --batch 4 --tokens 64 --steps 12 "
                             "--json --out " +
                             path("chat"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  double validation = 0;
  std::istringstream events(trained.out);
  for (std::string line; std::getline(events, line);)
    if (const json e = json::parse(line); e.at("kind") == "eval") validation = e.at("loss");
  const std::string eval = "eval " + path("chat") + " --data " + data;
  const Result r = toy(eval + " --json --logprobs-out " + path("l.jsonl"));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j.at("rows"), 12);
  // As above: f32 against f64.
  EXPECT_NEAR(j.at("nats_per_token"), validation, (256 + 8) * 0x1p-24 * validation);
  EXPECT_GT(json::parse(toy(eval + " --train-on all --json").out).at("tokens"), j.at("tokens"));
  const std::string lines = slurp(path("l.jsonl"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), j.at("tokens"));
  EXPECT_NE(toy(eval).out.find(" tokens of answers, "), std::string::npos);
  const Result same =
      toy("eval kl --base " + path("chat") + " --model " + path("chat") + " --data " + data + " --json");
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(json::parse(same.out).at("tokens"), j.at("tokens"));
  // As text it is something else.
  EXPECT_NE(toy("eval " + path("chat") + " --file " + data).err.find("--data"), std::string::npos);
  refuses(eval + " --file " + data, {"--file and --data exclude each other"});
  refuses(eval + " --by-documents", {"--by-documents"});
  refuses("eval " + path("chat") + " --data " +
              write("usr.jsonl",
                    R"({"messages": [{"role": "usr", "content": "a"}, {"role": "assistant", "content": "b"}]})"),
          {"usr.jsonl:1", "'usr'; did you mean 'user'?"});
}

TEST_F(CliEval, ComparesTwoModels) {
  const std::string m = model(), file = write("t.txt", "the cat sat on mat number 5 and was glad.\n");
  ASSERT_EQ(
      toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 20 --seed 2 --out " + path("b")).code, 0);
  const std::string b = path("b/model.gguf"), text = " --file " + file + " --ctx 16 ";
  const auto nats = [&](const std::string& which) {
    return json::parse(toy("eval " + which + text + "--json").out).at("nats_per_token").get<double>();
  };
  const Result r = toy("eval kl --base " + m + " --model " + b + text + "--json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_GT(j.at("kl"), 0);
  EXPECT_NEAR(j.at("difference"), nats(b) - nats(m), 1e-12);
  EXPECT_NEAR(j.at("perplexity_ratio"), std::exp(nats(b) - nats(m)), 1e-12);
  const std::string equal = toy("eval kl --base " + m + " --model " + m + text).out;
  EXPECT_EQ(equal.rfind("KL divergence 0.0000 ", 0), 0u);
  EXPECT_NE(equal.find("the models are equal on this text"), std::string::npos) << equal;
  const Result rounded = toy("eval kl --base " + m + " --kv f16 --base-with 'kv(f32)'" + text + "--json");
  ASSERT_EQ(rounded.code, 0) << rounded.err;
  EXPECT_GT(json::parse(rounded.out).at("kl"), 0);
  EXPECT_FALSE(json::parse(rounded.out).at("equal"));
  const std::string q = path("q8_0.gguf");
  ASSERT_EQ(toy("quantize " + m + " " + q + " --type Q8_0").code, 0);
  const auto kl = [&](const std::string& options) {
    return json::parse(toy("eval kl --base " + q + text + "--json " + options).out).at("kl").get<double>();
  };
  EXPECT_GT(kl("--base-with exact"), 0);
  EXPECT_GT(kl("--exact --model-with 'exact(false)'"), 0);
  EXPECT_GT(kl("--exact --base-with 'kv(f32)' --model-with 'kv(f16)'"), 0);
  EXPECT_EQ(kl("--base-with 'exact, kv(f32), repack(off)' --exact --model-with 'kv(f32)'"), 0);
  refuses("eval kl --base " + q + text + " --base-with exat", {"--base-with", "did you mean 'exact'"});
  refuses("eval kl --base " + q + text + " --model-with 'kv(q4_0)'", {"--model-with: kv is 'q4_0'"});
  refuses("eval kl --base " + q + text + " --model-with repack", {"repack is", "auto or off"});
  const Result l = toy("eval lmc --a " + m + " --b " + b + " --alphas 0,.5,1" + text + "--json");
  ASSERT_EQ(l.code, 0) << l.err;
  const json points = json::parse(l.out).at("points");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].at("nats_per_token"), nats(m));  // f32 files: the same products
  EXPECT_EQ(points[2].at("nats_per_token"), nats(b));
  const double middle = points[1].at("nats_per_token").get<double>() - (nats(m) + nats(b)) / 2;
  EXPECT_NEAR(json::parse(l.out).at("barrier"), std::max(0.0, middle), 1e-12);
  refuses("eval kl --base " + m + text, {"--model, --lora, --base-with or --model-with"});
  refuses("eval kl --base " + m + " --model " + b, {"--file, or rows with --data"});
  refuses("eval kl --base " + m + " --model " + path("none.gguf") + text, {"none.gguf"});
  refuses("eval lmc --a " + m + " --b " + b + " --alphas 0,x" + text, {"'x' is no number"});
  refuses("eval lmc --a " + m + " --b " + b + " --alphas 0,,1" + text, {"--alphas"});
  refuses("eval lmc --a " + m + " --b " + std::string(TOY_GOLDEN) + text,
          {"the models differ: the first has 256 tokens and the second 48"});
}

TEST_F(CliEval, AnswersQuestions) {
  const std::string m = model();
  const std::string file = write("q.jsonl", R"({"prompt":"the cat sat on mat numb","choices":["er","zq"],"answer":0})"
                                            "\n"
                                            R"({"prompt":"and was gl","choices":["qq","ad"],"answer":0})"
                                            "\n");
  const Result r = toy("eval choices " + m + " " + file + " --json");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out).at("questions"), 2);
  EXPECT_EQ(json::parse(r.out).at("accuracy"), 0.5);
  EXPECT_EQ(json::parse(toy("eval choices " + m + " " + file + " --limit 1 --json").out).at("accuracy"), 1);
  EXPECT_EQ(toy("eval choices " + m + " " + file).out.rfind("accuracy 50 ", 0), 0u);
  refuses("eval choices " + m + " " + write("b.jsonl", "{}\n"), {"b.jsonl:1", "HellaSwag"});
  refuses("eval choices " + m + " " + path("none.jsonl"), {"none.jsonl"});
  refuses("eval choices " + m, {"FILE is missing"});
}

TEST_F(CliEval, AnswersInWriting) {
  ASSERT_EQ(
      toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--lr 1e-2 --steps 150 --out " + path("run")).code,
      0);
  const std::string m = path("run/model.gguf"), ask = R"({"prompt": "the cat sat", )";
  const std::string written =
      json::parse(toy("infer " + m + " --prompt \"the cat sat\" --n 4 --json").out).at("text").get<std::string>();
  std::string shout = written;
  for (char& c : shout) c = char(std::toupper(c));
  const auto row = [&](const std::string& answer) { return ask + "\"answer\": " + json(answer).dump() + "}\n"; };
  const std::string file = write("q.jsonl", row(written) + row("zzz") + row(shout) + row(written));
  const std::string eval = "eval generate " + m + " " + file + " --n 4";
  const json j = json::parse(toy(eval + " --json --rows").out);
  EXPECT_EQ(j.at("questions"), 4);
  EXPECT_EQ(j.at("accuracy"), 0.5);
  EXPECT_NEAR(j.at("accuracy_error"), std::sqrt(0.5 * 0.5 / 3), 1e-15);
  ASSERT_EQ(j.at("rows").size(), 4u);
  EXPECT_EQ(j.at("rows")[0].at("text"), written);
  EXPECT_EQ(j.at("rows")[1].at("where"), file + ":2");
  EXPECT_EQ(j.at("rows")[1].at("right"), false);
  EXPECT_EQ(json::parse(toy(eval + " --ignore-case --json").out).at("accuracy"), 0.75);
  EXPECT_EQ(json::parse(toy(eval + " --limit 1 --json").out).at("accuracy"), 1);
  const Result text = toy(eval);
  EXPECT_EQ(text.out.rfind("accuracy 50 ", 0), 0u) << text.out;
  EXPECT_NE(text.out.find("4 questions; 4 answers were cut after 4 tokens"), std::string::npos) << text.out;
  EXPECT_EQ(toy(eval + " --threads 1 --parallel 1").out, text.out);
  const std::string plain = "eval generate " + m + " ";
  refuses(plain + write("b.jsonl", row("x") + "{}\n"), {"b.jsonl:2", "'prompt' nor 'messages'"});
  refuses(plain + write("c.jsonl", R"({"messages": [{"role": "user", "content": "x"}], "answer": "y"})"),
          {"c.jsonl:1", "no chat template"});
  refuses(plain + path("none.jsonl"), {"none.jsonl"});
  refuses(eval + " --rows", {"--json"});
  refuses(eval + " --n 0", {"--n"});
  refuses(plain + file + " --n 100000", {"n is 100000", "context"});
  refuses(eval + " --stop ''", {"stop"});
}

TEST_F(CliEval, BadInput) {
  const std::string m = model(), file = write("t.txt", "the cat sat"), eval = "eval " + m + " --file " + file;
  refuses("eval " + m, {"--file"});
  refuses("eval " + m + " --file " + path("none.txt"), {"none.txt", "no such file"});
  refuses("eval " + m + " --file " + write("empty.txt", ""), {"empty.txt", "empty"});
  refuses("eval " + m + " --file -", {"standard input", "empty"});
  refuses("eval " + m + " --file " + write("one.txt", "a"), {"nothing to score", "fewer than 2"});
  refuses("eval " + m + " --by-documents --file " + write("blank.txt", "\n\n"), {"blank.txt", "blank lines"});
  refuses("eval " + write("v.model", std::string("\x0A\x0E\x0A\x05<unk>\x15\0\0\0\0\x18\x02", 16)) + " --file " + file,
          {"v.model: not a GGUF file", "the model of a SentencePiece tokenizer"});
  refuses("eval " + std::string(TOY_GOLDEN) + " --file " + file, {"no tokenizer"});
  refuses("eval " + path("none.gguf") + " --file " + file, {"none.gguf", "no such file"});
  refuses(eval + " --ctx -1", {"--ctx is -1"});
  refuses(eval + " --ctx 8 --stride 9", {"stride is 9", "8"});
  refuses(eval + " --top-logprobs 3", {"top-logprobs", "--logprobs-out"});
  refuses(eval + " --top-logprobs -3 --logprobs-out " + path("l"), {"--top-logprobs is -3", "0 or more"});
  refuses(eval + " --logprobs-out " + path("no/such/folder"), {"no/such"});
  refuses(eval + " --logprobs-out -", {"logprobs-out is '-'", "give a file"});
  refuses(eval + " --logprobs-out " + file, {"logprobs-out", "--file"});
  EXPECT_FALSE(fs::exists(path("l")));
}

}  // namespace
