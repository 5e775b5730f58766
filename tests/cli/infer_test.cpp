// toy infer: prompts from everywhere, several at once, stop strings, penalties, and what it refuses.
#include "cli/cli_fixture.h"
#include "cli/terminal.h"

namespace {

using nlohmann::json;

class CliInfer : public Cli {
 protected:
  // A byte model that has learnt a little.
  std::string model() const {
    EXPECT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 20 --out " + path("run")).code, 0);
    return path("run/model.gguf");
  }
  static std::vector<json> lines_of(const std::string& text) {
    std::vector<json> list;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) list.push_back(json::parse(line));
    return list;
  }
};

TEST_F(CliInfer, PromptsFromArgumentFileAndStandardInput) {
  const std::string infer = "infer " + model() + " --n 8 ";
  const Result argument = toy(infer + "--prompt 'the cat'");
  ASSERT_EQ(argument.code, 0) << argument.err;
  const std::string file = write("p.txt", "the cat\n");
  EXPECT_EQ(toy(infer + "--prompt-file " + file).out, argument.out);
  EXPECT_EQ(toy(infer + "--prompt-file -", file).out, argument.out);
  EXPECT_EQ(argument.err.find("taken as a text"), std::string::npos) << argument.err;
  const Result name = toy(infer + "--prompt " + file);
  EXPECT_NE(name.err.find("'" + file + "' is taken as a text; --prompt-file " + file + " reads the file"),
            std::string::npos)
      << name.err;
  const Result other = toy(infer + "--prompt " + path("run/model.gguf"));  // a file that is no text
  EXPECT_NE(other.err.find("' is taken as a text, not as a file\n"), std::string::npos) << other.err;
  const Result several = toy(infer + "--prompts -", file);
  EXPECT_EQ(several.out, "--- prompt 1 ---\n" + argument.out);
  const std::string marked = write("marked.txt", "\xEF\xBB\xBF{\"prompt\": \"the cat\"}\n");
  EXPECT_EQ(toy(infer + "--prompts " + marked).out, several.out);
}

// The likeliest tokens, unless the user or the file says otherwise. What was chosen is said, and gives the same text
// again.
TEST_F(CliInfer, SaysWhatItDrawsWith) {
  const std::string plain = model(), own = path("own.gguf"), infer = " --prompt 'the cat' --n 12 --temperature 0.8";
  const Result likeliest = toy("infer " + plain + " --prompt 'the cat' --n 12");
  EXPECT_EQ(likeliest.err, "");
  EXPECT_EQ(likeliest.out, toy("infer " + plain + " --prompt 'the cat' --n 12 --temperature 0").out);
  const Result one = toy("infer " + plain + infer), two = toy("infer " + plain + infer);
  const std::string said = "toy: seed ";
  ASSERT_TRUE(one.err.starts_with(said)) << one.err;
  EXPECT_NE(one.err, two.err);
  const std::string seed = one.err.substr(said.size(), one.err.find('\n') - said.size());
  const Result again = toy("infer " + plain + infer + " --seed " + seed);
  EXPECT_EQ(again.out, one.out);
  EXPECT_EQ(again.err, "");
  const std::string hf = path("hf");
  ASSERT_EQ(toy("convert " + plain + " " + hf).code, 0);
  auto generation = json::parse(slurp(hf + "/generation_config.json"));
  generation["do_sample"] = true, generation["temperature"] = 0.25, generation["top_k"] = 3,
  generation["repetition_penalty"] = 1.5;
  write("hf/generation_config.json", generation.dump());
  ASSERT_EQ(toy("convert " + hf + " " + own + " --type f32").code, 0);
  const Result mine = toy("infer " + own + " --prompt 'the cat' --n 12 --seed 4 --temp 0.25");
  EXPECT_EQ(mine.err, "toy: top_k 3, repeat_penalty 1.5 (the file's)\n");
  EXPECT_EQ(mine.out, toy("infer " + plain +
                          " --prompt 'the cat' --n 12 --seed 4 --temp 0.25 --top-k 3 "
                          "--repeat-penalty 1.5")
                          .out);
  ASSERT_EQ(toy("convert " + own + " " + path("back")).code, 0);
  const auto back = json::parse(slurp(path("back/generation_config.json")));
  EXPECT_EQ(back.at("temperature"), 0.25);
  EXPECT_EQ(back.at("top_k"), 3);
  EXPECT_EQ(back.at("repetition_penalty"), 1.5);
}

TEST_F(CliInfer, AnotherEncodingIsSaid) {
  const Result r = toy("infer " + model() + " --n 2 --prompt-file " + write("latin", "caf\xe9"));
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.err.find("latin is not UTF-8"), std::string::npos) << r.err;
}

// A terminal shows what is continued, dimmed; a file has the continuation alone.
TEST_F(CliInfer, ATerminalShowsThePrompt) {
  if (!Terminal::is_available()) GTEST_SKIP() << "there are no pseudo terminals here";
  const std::string infer = "infer " + model() + " --n 4 --temperature 0 --prompt 'the cat'";
  const std::string text = toy(infer).out;
  Terminal t(std::string("env -u NO_COLOR TERM=xterm ") + TOY_BINARY + " " + infer, 80);
  const std::string all = t.rest();
  EXPECT_NE(all.find("\x1b[2mthe cat\x1b[0m" + text.substr(0, text.size() - 1)), std::string::npos) << all;
}

// --repack: the copy is made for long outputs only, and changes no bit.
TEST_F(CliInfer, QuantizedWeightsAreRepackedWhereItPays) {
  const std::string dir(TOY_GOLDEN), quantized = dir.substr(0, dir.rfind('/')) + "/llama_q8_0.model.gguf";
  const auto run = [&](const std::string& options) {
    const Result r =
        toy("infer " + quantized + " --prompt-ids 1,2,3 --json --seed 3 --ignore-eos --ctx 300 " + options);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? json::parse(r.out) : json();
  };
  const json usual = run("--n 256"), off = run("--n 256 --repack off");
  EXPECT_GT(usual.at("repacked_bytes"), 0);
  EXPECT_EQ(off.at("repacked_bytes"), 0);
  EXPECT_EQ(usual.at("logprobs"), off.at("logprobs"));
  EXPECT_EQ(run("--n 255").at("repacked_bytes"), 0);
  EXPECT_EQ(run("--n 256 --exact").at("repacked_bytes"), 0);
  EXPECT_EQ(toy("infer " + quantized + " --prompt-ids 1 --repack on").code, 2);
  const Result bench = toy("bench infer " + quantized + " --prompt 4 --decode 64 --repeat 3 --json");
  EXPECT_EQ(json::parse(bench.out).at("repacked_bytes"), usual.at("repacked_bytes"));
  const Result card = toy("describe " + quantized + " --json");
  EXPECT_EQ(json::parse(card.out).at("decode").at("repacked_bytes"), usual.at("repacked_bytes"));
}

// --exact and --kv, and what JSON says was used: of a model whose weights are q8_0.
TEST_F(CliInfer, PrecisionIsChosenAndReported) {
  const std::string dir(TOY_GOLDEN), quantized = dir.substr(0, dir.rfind('/')) + "/llama_q8_0.model.gguf";
  const auto run = [&](const std::string& command, const std::string& options) {
    const Result r = toy(command + " " + quantized + " " + options);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? json::parse(r.out) : json();
  };
  const std::string infer = "--prompt-ids 1,2,3 --n 4 --json --top-logprobs 5 ";
  const json usual = run("infer", infer), exact = run("infer", infer + "--exact --kv f32");
  EXPECT_EQ(usual.at("products"), "q8_0");
  EXPECT_EQ(usual.at("kv"), "f16");
  EXPECT_EQ(exact.at("products"), "exact");
  EXPECT_EQ(exact.at("kv"), "f32");
  EXPECT_EQ(run("infer", infer + "--device emulated").at("products"), "exact") << "GPUs round no activations";
  EXPECT_EQ(exact.at("top_logprobs").at(3).size(), 5u);
  EXPECT_NE(usual.at("logprobs"), exact.at("logprobs"));
  EXPECT_NE(run("infer", infer + "--exact").at("logprobs"), exact.at("logprobs"));
  const json bench = run("bench infer", "--prompt 20 --decode 3 --parallel 2 --repeat 1 --kv f32 --exact --json");
  EXPECT_EQ(bench.at("products"), "exact");
  EXPECT_EQ(bench.at("kv"), "f32");
  const json half = run("bench infer", "--prompt 20 --decode 3 --parallel 2 --repeat 1 --json");
  EXPECT_EQ(half.at("kv"), "f16");
  EXPECT_EQ(2 * half.at("cache_bytes").get<int64_t>(), bench.at("cache_bytes").get<int64_t>());
  EXPECT_EQ(toy("infer " + quantized + " --prompt-ids 1 --kv q4_0").code, 2);
}

TEST_F(CliInfer, SeveralPromptsAreWhatEachIsAlone) {
  const std::string m = model(), sampled = " --temperature 1 --min-p 0.01 --repeat-penalty 1.1 --seed 5 --json ";
  const std::vector<std::string> texts{"the cat sat on mat number 12 and", "a", "the", "mat"};
  std::string file;
  for (const std::string& t : texts) file += t + "\n";
  file += "{\"prompt\": \"{the\"}\r\n{\"prompt_ids\": [116, 104]}";
  const std::string prompts = write("prompts.txt", file);
  std::vector<json> alone;
  for (const std::string& p :
       {"--prompt '" + texts[0] + "'", std::string("--prompt a"), std::string("--prompt the"),
        std::string("--prompt mat"), std::string("--prompt '{the'"), std::string("--prompt-ids 116,104")})
    alone.push_back(json::parse(toy("infer " + m + " --n 20" + sampled + p).out));
  for (const char* parallel : {"1", "2", "16"}) {
    const Result r = toy("infer " + m + " --n 20" + sampled + "--prompts " + prompts + " --parallel " + parallel);
    ASSERT_EQ(r.code, 0) << r.err;
    std::vector<json> together = lines_of(r.out);
    ASSERT_EQ(together.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(together[i].at("index"), i);
      together[i].erase("index");
      EXPECT_EQ(together[i], alone[i]) << i;  // ids, text, and logprobs to the last digit
    }
  }
}

TEST_F(CliInfer, StopStringsCutTheText) {
  const std::string infer = "infer " + model() + " --prompt 'the cat' --n 40 --ignore-eos ";
  const json whole = json::parse(toy(infer + "--json").out);
  const std::string text = whole.at("text");
  ASSERT_GT(text.size(), 12u);
  EXPECT_EQ(whole.at("finish_reason"), "length");
  const std::string stop = text.substr(6, 3);  // three tokens of a byte model
  const std::string before = text.substr(0, text.find(stop));
  const std::string words = "--stop '" + stop + "' --stop 'never there' ";
  const json cut = json::parse(toy(infer + words + "--json").out);
  EXPECT_EQ(cut.at("text"), before);
  EXPECT_EQ(cut.at("finish_reason"), "stop");
  EXPECT_EQ(cut.at("ids").size(), before.size() + stop.size());
  EXPECT_EQ(toy(infer + words).out, before + "\n");
}

TEST_F(CliInfer, PenaltiesChangeTheText) {
  const std::string infer = "infer " + model() + " --prompt 'the cat' --n 30 --ignore-eos ";
  const std::string plain = toy(infer).out;
  EXPECT_EQ(toy(infer + "--repeat-penalty 1.5 --repeat-last-n 0").out, plain);
  EXPECT_NE(toy(infer + "--repeat-penalty 1.5").out, plain);
  // With a penalty that nothing outweighs, no token comes twice.
  const json j = json::parse(toy(infer + "--presence-penalty 1000 --repeat-last-n -1 --json").out);
  std::vector<int> ids = j.at("prompt_ids"), generated = j.at("ids");
  ids.insert(ids.end(), generated.begin(), generated.end());
  std::sort(ids.begin() + 7, ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin() + 7, ids.end()), ids.end());
}

TEST_F(CliInfer, BadOptions) {
  const std::string m = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1 ";
  refuses(m + "--min-p 1.5", {"--min-p is 1.5", "0 to 1"});
  refuses(m + "--repeat-penalty 0", {"--repeat-penalty is 0", "above 0"});
  refuses(m + "--frequency-penalty nan", {"frequency-penalty"});
  refuses(m + "--repeat-last-n -2", {"--repeat-last-n is -2", "-1 or more"});
  refuses(m + "--stop ''", {"stop", "empty"});
  refuses(m + "--stop x", {"stop", "no tokenizer"});
  refuses(m + "--parallel 0", {"parallel is 0"});
  const auto warns = [&](const std::string& options) {
    return toy(m + "--n 2 " + options).err.find("--repeat-last-n changes nothing") != std::string::npos;
  };
  EXPECT_TRUE(warns("--repeat-last-n 5"));
  for (const char* penalty : {"--repeat-penalty 1.1", "--frequency-penalty 1", "--presence-penalty 1"})
    EXPECT_FALSE(warns(std::string("--repeat-last-n 5 ") + penalty)) << penalty;
}

TEST_F(CliInfer, BadPromptFiles) {
  const std::string m = std::string("infer ") + TOY_GOLDEN + " ";
  refuses(m + "--prompt-file " + path("none.txt"), {"none.txt", "no such file"});
  refuses(m + "--prompt-file -", {"standard input", "empty"});
  refuses(m + "--prompts " + write("empty.txt", ""), {"empty.txt", "empty"});
  refuses(m + "--prompts " + write("mark.txt", "\xEF\xBB\xBF"), {"mark.txt", "no prompts"});
  const auto line = [&](const std::string& text) { return m + "--prompts " + write("p.jsonl", text); };
  refuses(line("{\"prompt_ids\": [1]}\n{oops\n"), {"p.jsonl:2", "not JSON"});
  refuses(line("{\"prompt\": 3}\n"), {"p.jsonl:1", "not a string"});
  refuses(line("{\"promt\": \"a\"}\n"), {"p.jsonl:1", "unknown key 'promt'"});
  refuses(line("{\"prompt\": \"a\", \"n\": 1}\n"), {"p.jsonl:1", "has the keys n, prompt"});
  refuses(line("{}\n"), {"p.jsonl:1", "has no keys"});
  refuses(line("{\"prompt_ids\": []}\n"), {"p.jsonl:1", "not an array"});
  refuses(line("{\"prompt_ids\": [1, \"a\"]}\n"), {"p.jsonl:1", "\"a\"", "token ids"});
  refuses(line("{\"prompt_ids\": [1]}\n{\"prompt_ids\": [1000]}\n"), {"p.jsonl:2", "1000", "outside the vocabulary"});
  refuses(line("hello\n"), {"no tokenizer", "--prompt-ids"});
  refuses(line("{\"prompt_ids\": [1]}\n{\"prompt_ids\": [1, 2]}\n") + " --n 127", {"p.jsonl:2", "context"});
  refuses("infer " + model() + " --prompts " + write("blank.txt", "a\n\nb\n"), {"blank.txt:2", "empty"});
}

TEST_F(CliInfer, AMissingPreTokenizerIsToldWhereverTheTokenizerIsUsed) {
  std::string words;  // with enough pairs to merge
  for (uint32_t i = 0; i < 20000; ++i) words += i % 6 == 5 ? ' ' : char('a' + (i * 2654435761u >> 16) % 20);
  const std::string text = write("words.txt", words);
  const std::string sizes = " --size tiny --tokenizer bpe:300 --batch 2 --tokens 16 --steps 1 ";
  ASSERT_EQ(toy("train from-scratch --corpus " + text + sizes + "--out " + path("bpe")).code, 0);
  std::string bytes = slurp(path("bpe/model.gguf"));
  const std::string key = "tokenizer.ggml.pre";
  const size_t at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  bytes[at + key.size() - 1] = 'x';
  const std::string other = write("pre.gguf", bytes);
  for (const std::string& call :
       {"infer " + other + " --prompt a --n 1", "eval " + other + " --file " + text + " --ctx 16",
        "tokenizer encode " + other + " --text a",
        "train warm-start --init " + other + " --corpus " + text + " --batch 2 --tokens 16 --steps 1 --out " +
            path("w")}) {
    const Result r = toy(call);
    EXPECT_EQ(r.code, 0) << call << r.err;
    EXPECT_NE(r.err.find("tokenizer.ggml.pre is missing"), std::string::npos) << call << r.err;
  }
}

// The tokenizer of a downloaded file may be unknown: ids work, text does not.
TEST_F(CliInfer, AnUnsupportedTokenizerLeavesIds) {
  std::string bytes = slurp(model());
  const std::string key = "tokenizer.ggml.model";
  const size_t value = bytes.find("gpt2", bytes.find(key));
  ASSERT_NE(value, std::string::npos);
  bytes.replace(value, 4, "rwkv");
  const std::string other = write("rwkv.gguf", bytes), text = tiny_corpus();
  const std::vector<std::string> calls{"infer " + other + " --prompt-ids 116,104 --n 3", "describe " + other,
                                       "bench infer " + other + " --prompt 4 --decode 2 --repeat 1"};
  for (const std::string& call : calls) {
    const Result r = toy(call);
    EXPECT_EQ(r.code, 0) << call << r.err;
    EXPECT_NE(r.err.find("'rwkv' is not supported"), std::string::npos) << call << r.err;
  }
  const std::string runs = "bytes, SentencePiece BPE and unigram, WordPiece";
  refuses("infer " + other + " --prompt a", {"rwkv.gguf", "'rwkv'", runs, "--prompt-ids"});
  refuses("infer " + other + " --prompt-ids 1 --stop a", {"'rwkv'", runs, "--stop"});
  refuses("eval " + other + " --file " + text, {"'rwkv'", runs});
  refuses("tokenizer encode " + other + " --text a", {"'rwkv'", runs});
  refuses("train warm-start --init " + other + " --corpus " + text + " --out " + path("warm"), {"'rwkv'", runs});
}

// As `describe` takes it: the finished model, else the newest checkpoint.
TEST_F(CliInfer, TakesTheFolderOfARun) {
  const Result trained = toy("train from-scratch --corpus " + tiny_corpus() + kSmall +
                             "--steps 4 --checkpoint-every 2 --out " + path("run"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string text = write("t.txt", "the cat sat on the mat");
  const std::string infer = " -p the --n 4", eval = " --ctx 16 --file " + text;
  const std::string of_file = toy("infer " + path("run/model.gguf") + infer).out;
  const std::string score = toy("eval " + path("run/model.gguf") + eval).out;
  ASSERT_FALSE(of_file.empty());
  const Result of_folder = toy("infer " + path("run") + infer);
  EXPECT_EQ(of_folder.out, of_file);
  EXPECT_EQ(of_folder.err, "");
  EXPECT_EQ(toy("infer " + path("run/") + infer).err, "");
  EXPECT_EQ(toy("infer " + path("run") + " -p=the -n=4").out, of_file);
  EXPECT_EQ(toy("eval " + path("run") + eval).out, score);
  // A run that began where another was finished has newer weights than the model that it will replace.
  const fs::path checkpoint = path("run/checkpoints/step_000004/weights.gguf");
  fs::last_write_time(checkpoint, fs::last_write_time(path("run/model.gguf")) + std::chrono::seconds(1));
  const Result newer = toy("infer " + path("run") + infer);
  EXPECT_EQ(newer.out, of_file) << newer.err;
  for (const char* fact : {"model.gguf is older", "step_000004"})
    EXPECT_NE(newer.err.find(fact), std::string::npos) << newer.err;
  fs::remove(path("run/model.gguf"));
  const Result unfinished = toy("infer " + path("run") + infer);
  EXPECT_EQ(unfinished.out, of_file) << unfinished.err;  // the last checkpoint has the same weights
  EXPECT_NE(unfinished.err.find("not finished"), std::string::npos) << unfinished.err;
  EXPECT_EQ(toy("eval " + path("run") + eval).out, score);
  fs::remove_all(path("run/checkpoints"));
  refuses("infer " + path("run") + infer, {path("run"), "no model.gguf", "train"});
}

// Ids are looked up in runs and out; paths are not, and an id that fits several is no missing file.
TEST_F(CliInfer, IdsOfRuns) {
  for (const char* run : {"book-1", "book-2"}) {
    fs::create_directories(path("in/out/") + run);
    fs::copy_file(TOY_GOLDEN, path("in/out/") + run + "/model.gguf");
    write(std::string("in/out/") + run + "/events.jsonl", "");
  }
  fs::create_directories(path("in/near"));
  fs::copy_file(TOY_GOLDEN, path("in/near/model.gguf"));
  const auto infer = [&](const std::string& model) {
    const int status = std::system(
        ("cd " + path("in") + " && " TOY_BINARY " infer " + model + " --prompt-ids 1 --n 1 >" + path("said") + " 2>&1")
            .c_str());
    return Result{WEXITSTATUS(status), slurp(path("said")), {}};
  };
  EXPECT_EQ(infer("book-1").code, 0);
  const Result several = infer("book");
  EXPECT_EQ(several.code, 2);
  for (const char* fact : {"out/book-1", "out/book-2"})
    EXPECT_NE(several.out.find(fact), std::string::npos) << several.out;
  const Result nowhere = infer("../near");  // out/../near is there
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_NE(nowhere.out.find("../near"), std::string::npos) << nowhere.out;
}

// Text of a model that has learnt nothing of JSON, for several prompts at once.
TEST_F(CliInfer, OutputFollowsASchemaOrAGrammar) {
  const std::string m = model();
  const std::string schema = write("s.json", R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 9}, "n": {"type": "integer", "minimum": 3, "maximum": 40}}, "required": ["name", "n"]})");
  const std::string prompts = write("p.txt", "the cat\na\n");
  const Result r =
      toy("infer " + m + " --prompts " + prompts + " --temperature 1 --seed 0 --n 90 --json --json-schema " + schema);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  ASSERT_EQ(lines_of(r.out).size(), 2u);
  for (const json& line : lines_of(r.out)) {
    EXPECT_EQ(line.at("finish_reason"), "complete");
    const json value = json::parse(line.at("text").get<std::string>());
    EXPECT_EQ(value.size(), 2u);
    EXPECT_LE(value.at("name").get<std::string>().size(), 36u);
    EXPECT_GE(value.at("n"), 3);
    EXPECT_LE(value.at("n"), 40);
  }
  const std::string grammar = write("g.gbnf", "root ::= (\"ab\" | \"c\"){5} \"!\"");
  const Result g = toy("infer " + m + " --prompt x --n 90 --grammar " + grammar);
  EXPECT_EQ(g.code, 0) << g.err;
  EXPECT_EQ(g.out.substr(g.out.size() - 2), "!\n");
  const Result cut = toy("infer " + m + " --prompt x --n 3 --grammar " + grammar);
  EXPECT_EQ(cut.code, 0);
  EXPECT_NE(cut.err.find("cut before it was complete; use a larger --n"), std::string::npos) << cut.err;
}

TEST_F(CliInfer, RefusesSchemasAndGrammarsThatCannotBe) {
  const std::string infer = "infer " TOY_GOLDEN " --prompt-ids 1 ", m = "infer " + model() + " --prompt x ";
  const std::string schema = write("s.json", "{\"type\": \"array\", \"uniqueItems\": true}");
  refuses(m + "--json-schema " + schema, {schema, "/uniqueItems", "cannot be expressed"});
  refuses(m + "--json-schema " + write("b.json", "{"), {"b.json"});
  refuses(m + "--json-schema " + path("none.json"), {"none.json"});
  refuses(m + "--grammar " + write("g.gbnf", "root ::= x"), {"g.gbnf", "line 1", "there is no rule 'x'"});
  refuses(m + "--grammar " + schema + " --json-schema " + schema, {"--grammar", "--json-schema"});
  refuses(infer + "--json-schema " + schema, {"--json-schema"});
}

TEST_F(CliInfer, SamplersAreOptions) {
  const std::string m = "infer " TOY_GOLDEN " --prompt-ids 1,2,3 --n 20 --ignore-eos --seed 1 --temperature 1 ";
  const std::string plain = toy(m).out;
  for (const char* option :
       {"--samplers 'typ_p(0.3)'", "--samplers 'top_n_sigma(0.5)'", "--samplers 'xtc(probability=1, threshold=0.001)'",
        "--samplers 'temperature(range=0.9)'", "--logit-bias 5+30", "--samplers 'mirostat(tau=1)'",
        "--samplers 'dry(multiplier=100, allowed_length=1);top_k' --top-k 2", "--samplers 'top_k(2)'"}) {
    const Result r = toy(m + option);
    EXPECT_EQ(r.code, 0) << option << r.err;
    EXPECT_NE(r.out, plain) << option;
  }
  EXPECT_EQ(toy(m + "--samplers 'xtc;top_k;dry(base=2);temperature(exponent=2)'").out, plain);
  refuses(m + "--samplers 'top_k;topp'", {"there is no 'topp'; did you mean 'top_p'?"});
  refuses(m + "--samplers top_k --min-p 0.1", {"samplers", "min_p"});
  refuses(m + "--samplers 'top_k;mirostat' --top-k 4", {"mirostat", "top_k"});
  refuses(m + "--samplers 'mirostat;top_k'", {"--samplers", "mirostat", "end"});
  refuses(m + "--samplers 'top_k(4)' --top-k 4", {"--top-k and the brackets of --samplers"});
  refuses(m + "--samplers 'xtc(treshold=1)'", {"--samplers: xtc has no 'treshold' (did you mean 'threshold'?)",
                                               "probability (0 to 1), threshold (above 0 to 1)"});
  refuses(m + "--samplers 'typ_p(2)'", {"--samplers: typ_p is 2; use above 0 to 1"});
  refuses(m + "--logit-bias 5", {"--logit-bias", "15043+1"});
  refuses(m + "--logit-bias 5+x", {"--logit-bias", "5+x"});
  refuses(m + "--logit-bias 999999+1", {"--logit-bias", "999999"});
}

}  // namespace
