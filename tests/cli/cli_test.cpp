// The program as its users meet it: interfaces, exit codes, messages.
#include "cli/cli_fixture.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

namespace {

TEST_F(Cli, TrainPrintsStepsAndThePath) {
  const Result r = toy("train from-scratch --corpus " + tiny_corpus() + kSmall +
                       "--steps 3 --seed 4 --threads 2 --out " + path("run"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out.rfind("step 1: loss=5.5", 0), 0u) << r.out;
  EXPECT_NE(r.out.find("\nstep 3: loss="), std::string::npos);
  const std::string last = r.out.substr(r.out.rfind('\n', r.out.size() - 2) + 1);
  EXPECT_EQ(last, path("run") + "/model.gguf\n");
  EXPECT_TRUE(fs::exists(path("run/model.gguf")));
}

TEST_F(Cli, TrainIsDeterministicForAnyThreads) {
  std::string first, model;
  for (const char* threads : {"1", "2", "3", "8"}) {
    const Result r = toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 4 --overwrite --threads " +
                         threads + " --out " + path("run"));
    ASSERT_EQ(r.code, 0) << r.err;
    if (first.empty()) first = r.out, model = slurp(path("run/model.gguf"));
    EXPECT_EQ(r.out, first);
    EXPECT_EQ(slurp(path("run/model.gguf")), model);
  }
}

TEST_F(Cli, JsonLinesOfTraining) {
  const Result r =
      toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 2 --sample 5 --json --out " + path("run"));
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::vector<std::string> kinds;
  for (std::string line; std::getline(lines, line);) kinds.push_back(nlohmann::json::parse(line).at("kind"));
  EXPECT_EQ(kinds, (std::vector<std::string>{"run_start", "step", "step", "region_enter", "region_exit", "eval",
                                             "sample", "region_enter", "region_exit", "run_end"}));
  EXPECT_EQ(slurp(path("run/events.jsonl")), r.out);  // the same events
}

TEST_F(Cli, InferAgreesInTextAndJson) {
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 20 --out " + path("run")).code, 0);
  const std::string model = path("run/model.gguf");
  const Result text = toy("infer " + model + " --prompt 'the cat' --n 12");
  ASSERT_EQ(text.code, 0) << text.err;
  const Result in_json = toy("infer " + model + " --prompt 'the cat' --n 12 --json --top-logprobs 3");
  ASSERT_EQ(in_json.code, 0) << in_json.err;
  const auto j = nlohmann::json::parse(in_json.out);
  EXPECT_EQ(j.at("prompt_ids"), (std::vector<int>{'t', 'h', 'e', ' ', 'c', 'a', 't'}));
  EXPECT_EQ(j.at("ids").size(), 12u);
  EXPECT_EQ(j.at("logprobs").size(), 12u);
  EXPECT_EQ(j.at("top_logprobs").size(), 12u);
  EXPECT_EQ(j.at("top_logprobs")[0].size(), 3u);
  EXPECT_EQ(j.at("top_logprobs")[0][0].at("id"), j.at("ids")[0]);
  EXPECT_EQ(j.at("top_logprobs")[0][0].at("logprob"), j.at("logprobs")[0]);
  const Result ids = toy("infer " + model + " --prompt-ids 116,104,101,32,99,97,116 --n 12");
  EXPECT_EQ(ids.out, text.out);
  const Result reference = toy("infer " + model + " --prompt 'the cat' --n 12 --device reference");
  EXPECT_EQ(reference.out, text.out);
  EXPECT_EQ(toy("infer " + model + " --prompt 'the cat' --n 12 --temperature 1 --seed 3").out,
            toy("infer " + model + " --prompt 'the cat' --n 12 --temperature 1 --seed 3 --threads 1").out);
}

TEST_F(Cli, TextsThatLookLikeOptions) {
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("run")).code, 0);
  const std::string model = path("run/model.gguf");
  EXPECT_EQ(toy("tokenizer encode " + model + " --text '-a' ").out, "45 97\n");
  EXPECT_EQ(toy("tokenizer encode " + model + " --text '--help'").out, "45 45 104 101 108 112\n");
  EXPECT_EQ(toy("tokenizer encode " + model + " --text '' --json").out, "[]\n");
  EXPECT_EQ(toy("infer " + model + " --prompt '-x' --n 1").code, 0);
}

TEST_F(Cli, BenchMeasures) {
  const Result infer = toy(std::string("bench infer ") + TOY_GOLDEN + " --prompt 8 --decode 4 --repeat 1 --json");
  ASSERT_EQ(infer.code, 0) << infer.err;
  for (const char* key : {"prefill_tps", "decode_tps", "load_s", "peak_rss_mib"})
    EXPECT_TRUE(nlohmann::json::parse(infer.out).contains(key)) << key;
  const Result train = toy("bench train --shape tiny --batch 1 --tokens 16 --steps 2 --json --profile");
  ASSERT_EQ(train.code, 0) << train.err;
  for (const char* key : {"ms", "tokens_per_s", "gflops", "loss", "peak_rss_mib"})
    EXPECT_TRUE(nlohmann::json::parse(train.out).contains(key)) << key;
  EXPECT_NE(train.err.find("adamw"), std::string::npos);
}

// Products in bf16 are compared with what the machine can do in bf16.
TEST_F(Cli, BenchComparesWithTheCeilingOfItsProducts) {
  const Result r = toy("bench train --shape tiny --batch 1 --tokens 16 --steps 1 --warmup 0 --compute bf16 --json");
  if (r.code == 2 && r.err.find("bf16") != std::string::npos) GTEST_SKIP() << "this processor has no products in bf16";
  ASSERT_EQ(r.code, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_GT(j.at("bf16_gflops").get<double>(), 0);
  EXPECT_NEAR(j.at("fraction_of_bf16").get<double>() * j.at("bf16_gflops").get<double>(), j.at("gflops").get<double>(),
              1e-9 * j.at("gflops").get<double>());
}

// One JSON line a shape, each from a process of its own.
TEST_F(Cli, BenchMeasuresListsOfShapes) {
  const std::string mine = write("mine.json", R"({"d_model": 20, "n_layers": 1, "n_heads": 2, "d_ff": 28})");
  const std::vector<std::string> names{"tiny", "gpt2-tiny", mine};
  const std::string list = "tiny,gpt2-tiny," + mine;
  const auto lines = [&](const std::string& command, const std::vector<std::string>& keys) {
    const Result r = toy(command);
    ASSERT_EQ(r.code, 0) << r.err;
    std::istringstream text(r.out);
    std::vector<std::string> found;
    for (std::string line; std::getline(text, line);) {
      const auto j = nlohmann::json::parse(line);
      found.push_back(j.at("shape"));
      for (const std::string& key : keys) EXPECT_GT(j.at(key).get<double>(), 0) << key << " of " << line;
    }
    EXPECT_EQ(found, names);
  };
  lines("bench train --shape " + list + " --batch 1 --tokens 16 --steps 1 --warmup 0 --json",
        {"ms", "tokens_per_s", "gflops", "fraction_of_fma", "loss", "peak_rss_mib", "params"});
  lines("bench infer --shape " + list + " --prompt 8 --decode 4 --repeat 1 --json",
        {"prefill_tps", "decode_tps", "load_s", "peak_rss_mib", "fraction_of_read", "fraction_of_fma", "params"});
  EXPECT_EQ(toy("bench infer --shape gpt2-tiny --prompt 8 --decode 4 --repeat 1").code, 0);
  for (const char* optimizer : {"adamw8", "lion"}) {
    const Result r = toy(std::string("bench train --shape tiny --tokens 16 --steps 1 --warmup 0 --profile --json "
                                     "--optimizer ") +
                         optimizer);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(nlohmann::json::parse(r.out).at("optimizer"), optimizer);
    EXPECT_NE(r.err.find(optimizer), std::string::npos) << r.err;  // its op was run
  }
  refuses("bench train --shape tiny --optimizer adam", {"adam", "adamw"});
  refuses("bench train --shape tiny,gpt2-tny", {"gpt2-tny", "did you mean 'gpt2-tiny'"});
  refuses("bench train --shape tiny,,small", {"a name is empty"});
  refuses("bench train --shape tiny,gpt2-tiny --tokens 513", {"tokens is 513", "512 positions"});
  refuses("bench train --shape tiny,small --tokens 16 --compute f99", {"f99"});  // found by the first of them
  refuses("bench infer --shape gpt2-tiny --prompt 500 --decode 13", {"prompt + decode is 513", "512 positions"});
  refuses("bench infer", {"either a GGUF file or --shape"});
  refuses(std::string("bench infer --shape tiny ") + TOY_GOLDEN, {"either a GGUF file or --shape"});
}

TEST_F(Cli, TokenizerTrainEncodeDecode) {
  const std::string corpus = path("stories.txt"), vocab = path("vocab.gguf");
  ASSERT_EQ(toy("corpus stories --bytes 30000 --seed 1 --out " + corpus).code, 0);
  for (const char* spec : {"spm:300", "unigram:320"}) {
    SCOPED_TRACE(spec);
    const Result t = toy("tokenizer train --corpus " + corpus + " --tokenizer " + spec + " --out " + vocab);
    ASSERT_EQ(t.code, 0) << t.err;
    const Result e = toy("tokenizer encode " + vocab + " --text 'the cat sat' --no-bos");
    ASSERT_EQ(e.code, 0) << e.err;
    const Result d = toy("tokenizer decode " + vocab + " " + e.out.substr(0, e.out.size() - 1));
    EXPECT_EQ(d.out, "the cat sat");
    const Result whole = toy("tokenizer encode " + vocab + " --file " + corpus + " --json --no-bos");
    std::string words;
    for (const int id : nlohmann::json::parse(whole.out)) words += " " + std::to_string(id);
    EXPECT_EQ(toy("tokenizer decode " + vocab + words).out, slurp(corpus));
  }
}

// Nothing continues the text: what the file adds stands before and after it, whatever the kind of its tokenizer.
TEST_F(Cli, TokenizerEncodeAddsWhatTheFileSays) {
  const std::string corpus = path("stories.txt"), vocab = path("v.gguf");
  ASSERT_EQ(toy("corpus stories --bytes 5000 --seed 1 --out " + corpus).code, 0);
  ASSERT_EQ(toy("tokenizer train --corpus " + corpus + " --tokenizer bpe:300 --out " + vocab).code, 0);
  const auto encoded = [&](bool bos, bool eos, const std::string& options = "") {
    std::string bytes = slurp(vocab);
    for (const auto& [name, value] : {std::pair("bos", bos), std::pair("eos", eos)}) {
      const std::string key = "tokenizer.ggml.add_" + std::string(name) + "_token";
      bytes.at(bytes.find(key) + key.size() + 4) = char(value);  // after the type of the value
    }
    return toy("tokenizer encode " + write("changed.gguf", bytes) + " --text s3" + options).out;
  };
  EXPECT_EQ(encoded(false, false), "115 51\n");
  EXPECT_EQ(encoded(true, false), "299 115 51\n");
  EXPECT_EQ(encoded(false, true), "115 51 299\n");
  EXPECT_EQ(encoded(true, true), "299 115 51 299\n");
  EXPECT_EQ(encoded(true, true, " --no-bos"), "115 51\n");
}

TEST_F(Cli, TokenizerOfASentencePieceModel) {
  // The pieces <unk> (type 2), a and b; the rest by default: unigram, a space in front.
  using namespace std::string_literals;
  const std::string model =
      write("m.model", "\x0A\x09\x0A\x05<unk>\x18\x02\x0A\x03\x0A\x01"s + "a\x0A\x03\x0A\x01" + "b");
  EXPECT_EQ(toy("tokenizer encode " + model + " --text ab").out, "0 1 2\n");
  EXPECT_EQ(toy("tokenizer decode " + model + " 2 1").out, "ba");
  refuses("tokenizer encode " + write("cut.model", slurp(model).substr(0, 14)) + " --text ab",
          {"cut.model", "(at byte 11)"});
  refuses("tokenizer encode " + write("text.model", "a text") + " --text ab",
          {"text.model", "neither a GGUF file nor"});
  refuses("tokenizer encode " + path("none.model") + " --text ab", {"none.model"});
}

TEST_F(Cli, CorpusFloorAndNgram) {
  ASSERT_EQ(toy("corpus stories --bytes 200000 --seed 1 --out " + path("a.txt")).code, 0);
  ASSERT_EQ(toy("corpus stories --bytes 20000 --seed 2 --out " + path("b.txt")).code, 0);
  EXPECT_NE(toy("corpus floor --file " + path("b.txt")).out.find(" nats/byte\n"), std::string::npos);
  const double floor = std::stod(toy("corpus floor --file " + path("b.txt")).out);
  const double ngram = std::stod(toy("corpus ngram --train " + path("a.txt") + " --file " + path("b.txt")).out);
  EXPECT_GT(floor, 0.1);
  EXPECT_GT(ngram, floor * 1.4);
  refuses("corpus floor --file " + tiny_corpus(), {"byte 0", "the grammar does not write"});
}

TEST_F(Cli, DescribeShowsCardGraphAndPlan) {
  const Result card = toy("describe tiny");
  ASSERT_EQ(card.code, 0) << card.err;
  EXPECT_NE(card.out.find("D=64"), std::string::npos);
  EXPECT_NE(card.out.find("parameters"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(toy("describe tiny --json").out).at("model").at("d_model"), 64);
  EXPECT_NE(toy("describe tiny --graph train").out.find("rms_norm("), std::string::npos);
  EXPECT_NE(toy("describe tiny --graph decode --format mermaid").out.find("flowchart"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(toy("describe tiny --graph train --format json").out).contains("nodes"));
  EXPECT_NE(toy("describe tiny --plan train").out.find("adamw"), std::string::npos);
  const auto plan = nlohmann::json::parse(toy("describe tiny --plan decode --json").out);
  EXPECT_EQ(plan.at("steps").back().at("op"), "linear");
}

TEST_F(Cli, DescribeCountsWhatAGraphCosts) {
  const Result text = toy("describe tiny --graph train --batch 2 --tokens 8");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.substr(0, 26), "training step, B=2 T=8\n%0 ");
  for (const char* line : {"\nforward ", "\nbackward ", "\nupdate ", "\nall ", "\nplan "})
    EXPECT_NE(text.out.find(line), std::string::npos) << line;
  const auto j = nlohmann::json::parse(toy("describe tiny --graph train --batch 2 --tokens 8 --json").out);
  const auto card = nlohmann::json::parse(toy("describe tiny --batch 2 --tokens 8 --json").out);
  EXPECT_EQ(j.at("what"), "training step, B=2 T=8");
  EXPECT_EQ(j.at("plan").at("peak_bytes"), card.at("train").at("peak_bytes"));
  double forward = 0, products = 0;  // a product forward is two backward
  for (const auto& n : j.at("nodes")) {
    if (!n.contains("op")) continue;
    if (n.at("op") == "linear") forward += n.at("cost").at("flops").get<double>();
    if (n.at("op") == "linear_grad_x" || n.at("op") == "linear_grad_w")
      products += n.at("cost").at("flops").get<double>();
  }
  EXPECT_GT(forward, 0);
  EXPECT_EQ(products, 2 * forward);
  EXPECT_GT(j.at("cost").at("backward").at("flops"), products);
  const auto wide = nlohmann::json::parse(toy("describe tiny --graph train --batch 4 --tokens 8 --json").out);
  EXPECT_EQ(wide.at("cost").at("update"), j.at("cost").at("update"));  // does not depend on the batch
  EXPECT_GT(wide.at("cost").at("forward").at("flops"), j.at("cost").at("forward").at("flops"));
}

TEST_F(Cli, ManifestAndHelp) {
  const auto j = nlohmann::json::parse(toy("--manifest").out);
  std::vector<std::string> names;
  for (const auto& c : j.at("commands")) names.push_back(c.at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"new",    "train",   "infer",    "chat",    "embed",     "search",
                                             "rerank", "serve",   "eval",     "list",    "fetch",     "quantize",
                                             "merge",  "convert", "describe", "look",    "tokenizer", "corpus",
                                             "data",   "runs",    "bench",    "devices", "completion"}));
  const auto& leaf = j.at("commands")[1].at("commands")[0];  // train from-scratch
  std::map<std::string, nlohmann::json> options;
  for (const auto& o : leaf.at("options")) {
    options[o.at("name")] = o;
    const std::string help = o.at("help");
    if (!o.contains("values")) {
      EXPECT_LT(help.substr(0, help.find(" (default")).size(), 80u) << help;
    }
  }
  EXPECT_EQ(options.at("--ema").at("group"), "Optimizer");
  EXPECT_EQ(options.at("--ema").at("advanced"), true);
  EXPECT_FALSE(options.at("--lr").contains("advanced"));
  EXPECT_EQ(options.at("--ema").at("range"), "0 to below 1");
  EXPECT_EQ(options.at("--compute").at("values"), (std::vector<std::string>{"f32", "bf16", "auto"}));
  EXPECT_EQ(options.at("--corpus").at("repeatable"), true);
  for (const std::string& n : names) {
    const Result r = toy(n + " --help");
    EXPECT_EQ(r.code, 0);
    EXPECT_NE(r.out.find("--help"), std::string::npos) << n;
  }
  EXPECT_EQ(toy("--version").out.rfind("toy 0.", 0), 0u);
}

// Programs call it often. The least processor time of some calls, the shell that starts it included: how busy the
// machine is does not count.
TEST_F(Cli, StartsInTwentyMilliseconds) {
  const auto used = [] {
    rusage u{};
    getrusage(RUSAGE_CHILDREN, &u);
    return double(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * double(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  };
  for (const char* words : {"--version", "infer --help"}) {
    double least = 1;
    for (int i = 0; i < 100 && least >= 0.020; ++i) {
      const double before = used();
      ASSERT_EQ(toy(words).code, 0);
      least = std::min(least, used() - before);
    }
    EXPECT_LT(least, 0.020) << words;
  }
}

TEST_F(Cli, UnknownWordsAreNamedWithTheNearest) {
  refuses("trian", {"unknown command 'trian'", "did you mean 'train'"});
  refuses("train from-scrach --corpus x", {"unknown recipe 'from-scrach'", "from-scratch"});
  refuses("infer m.gguf --promt x", {"unknown option '--promt'", "--prompt"});
  refuses("train from-scratch --corpus " + tiny_corpus() + " --size tinny --out " + path("run"),
          {"size 'tinny'", "did you mean 'tiny'"});
  refuses("train from-scratch --corpus " + tiny_corpus() + " --tokenizer spn:3 --out " + path("run"),
          {"spn:3", "spm:V"});
  refuses("infer " + std::string(TOY_GOLDEN) + " --prompt-ids 1 --device tpu", {"--device is 'tpu'", "cpu"});
  refuses("", {"no command given", "--help"});
}

TEST_F(Cli, BadModels) {
  refuses("infer " + path("none.gguf") + " --prompt a", {"none.gguf", "no such file"});
  refuses("infer " + write("empty.gguf", "") + " --prompt a", {"empty.gguf", "empty"});
  refuses("infer " + write("text.gguf", "hello, this is text and not a model") + " --prompt a", {"text.gguf", "GGUF"});
  refuses("infer " + path() + " --prompt a", {"folder"});
  const std::string whole = slurp(TOY_GOLDEN);
  for (const size_t n : {3ul, 20ul, 500ul, whole.size() / 2, whole.size() - 40})
    refuses("infer " + write("cut.gguf", whole.substr(0, n)) + " --prompt-ids 1", {"cut.gguf"});
}

TEST_F(Cli, BadPrompts) {
  const std::string m = std::string("infer ") + TOY_GOLDEN + " ";
  refuses(m + "--prompt-ids 1,48", {"48", "outside the vocabulary"});
  refuses(m + "--prompt-ids 1,x", {"prompt-ids", "1,x"});
  refuses(m + "--prompt-ids ''", {"prompt-ids"});
  refuses(m + "--prompt hello", {"no tokenizer", "--prompt-ids"});
  refuses(m + "--prompt-ids 1 --n 128", {"context", "128"});
  EXPECT_EQ(toy(m + "--prompt-ids 1").code, 0);  // as many as fit
  refuses(m + "--prompt-ids 1 --n -2", {"--n is -2", "-1 or more"});
  refuses(m + "--prompt-ids 1 --temperature -1", {"temperature"});
  refuses(m + "--prompt-ids 1 --top-p 2", {"top-p"});
  refuses(m + "--prompt-ids 1 --threads 100000", {"threads", "100000"});
}

TEST_F(Cli, DevicesOfThisMachine) {
  const auto list = nlohmann::json::parse(toy("devices --json").out);
  std::set<std::string> available;
  for (const auto& device : list) {
    EXPECT_EQ(device.at("why").get<std::string>().empty(), device.at("available").get<bool>()) << device;
    if (device.at("available")) {
      available.insert(device.at("name"));
      continue;
    }
    const Result refused = toy("describe tiny --device " + device.at("name").get<std::string>());
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find(device.at("why").get<std::string>()), std::string::npos) << refused.err;
  }
  EXPECT_EQ(list.at(0).at("name"), "cpu");
  for (const char* everywhere : {"cpu", "emulated", "reference"}) EXPECT_TRUE(available.contains(everywhere));
  EXPECT_NE(toy("devices").out.find("f32 with SIMD"), std::string::npos);
  for (const auto& device : list) EXPECT_EQ(device.contains("memory"), device["available"].get<bool>()) << device;
}

// The kernels of GPUs on the CPU: the same text, the loss of the cpu to the last printed digits.
TEST_F(Cli, TheEmulatedDeviceTrainsAndWrites) {
  const std::string train =
      "train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 2 --val-fraction 0 --out ";
  ASSERT_EQ(toy(train + path("cpu")).code, 0);
  ASSERT_EQ(toy(train + path("emulated") + " --device emulated").code, 0);
  const std::string infer = "infer " + path("cpu/model.gguf") + " --prompt 'the cat' --n 12";
  const Result expected = toy(infer), emulated = toy(infer + " --device emulated");
  EXPECT_EQ(emulated.out, expected.out) << emulated.err;
  EXPECT_EQ(toy("infer " + path("emulated/model.gguf") + " --prompt 'the cat' --n 12").out, expected.out);
}

TEST_F(Cli, EveryCoreIsZeroThreads) {
  const std::string call = std::string("infer ") + TOY_GOLDEN + " --prompt-ids 1,2 --n 8 --threads ";
  const Result every = toy(call + "0"), one = toy(call + "1");
  ASSERT_EQ(every.code, 0) << every.err;
  EXPECT_EQ(every.out, one.out);
}

TEST_F(Cli, BadTraining) {
  const std::string t = "train from-scratch --out " + path("run") + kSmall;
  refuses(t + "--corpus " + path("none.txt"), {"none.txt", "no such file"});
  refuses(t + "--corpus " + write("empty.txt", ""), {"empty.txt", "empty"});
  refuses(t + "--corpus " + write("short.txt", "hello"), {"short", "17"});
  refuses(t + "--corpus " + tiny_corpus() + " --steps 0", {"steps is 0"});
  refuses(t + "--corpus " + tiny_corpus() + " --final-lr 2", {"final-lr is 2"});
  refuses("train from-scratch --corpus " + tiny_corpus() + " --batch 0 --out " + path("run"), {"atch"});
  refuses("train from-scratch --corpus " + tiny_corpus() + " --batch 1000000000 --tokens 16 --size tiny --out " +
              path("run"),
          {"batch"});
  refuses(
      "train from-scratch --corpus " + tiny_corpus() + " --size " +
          write("bad.json", R"({"d_model": 64, "n_layers": 2, "n_heads": 3, "n_kv": 2, "d_head": 16, "d_ff": 64})") +
          " --out " + path("run"),
      {"3 query heads are not a multiple of 2"});
  refuses("train from-scratch --corpus " + tiny_corpus() + " --size " + write("typo.json", R"({"d_modle": 64})") +
              " --out " + path("run"),
          {"typo.json"});
  refuses(
      "train from-scratch --corpus " + tiny_corpus() + " --size " + write("broken.json", "{") + " --out " + path("run"),
      {"broken.json", "JSON"});
  refuses("train from-scratch --corpus " + tiny_corpus() + kSmall + "--out /proc/nothing", {"out"});
  EXPECT_FALSE(fs::exists(path("run/model.gguf")));
}

TEST_F(Cli, MemoryThatWillNotSufficeIsSaidBefore) {
  refuses("train from-scratch --corpus " + tiny_corpus() + " --size " +
              write("huge.json", R"({"d_model": 16384, "n_layers": 400, "n_heads": 128, "d_ff": 65536})") + " --out " +
              path("run"),
          {"memory", "GiB"});
}

// What a user should know about a file is said on stderr, and in the card; results stay alone on stdout.
TEST_F(Cli, WarnsAboutFiles) {
  const std::string golden = fs::path(TOY_GOLDEN).parent_path() / "llama_q8_0.model.gguf";
  const Result infer = toy("infer " + golden + " --prompt-ids 1,2 --n 3 --json");
  ASSERT_EQ(infer.code, 0) << infer.err;
  EXPECT_EQ(infer.err.find("Q8_0"), std::string::npos) << infer.err;  // computed with as it is
  EXPECT_EQ(nlohmann::json::parse(infer.out).at("ids").size(), 3u);
  const Result card = toy("describe " + golden + " --json");
  EXPECT_EQ(card.err, "");
  EXPECT_EQ(nlohmann::json::parse(card.out).at("warnings").size(), 0u);
  const Result plain = toy("infer " + std::string(TOY_GOLDEN) + " --prompt-ids 1,2 --n 3");
  EXPECT_EQ(plain.err, "");
}

// Dimensions with biases and scaling from JSON are trained, saved, described and run.
TEST_F(Cli, BiasesAndScalingFromJson) {
  const std::string size = write("size.json", R"({"d_model": 24, "n_layers": 2, "n_heads": 3, "n_kv": 1, "d_head": 10,
      "d_ff": 32, "context": 64, "biases": ["attn_q", "ffn_down"], "rope_scaling": "yarn", "rope_factor": 4,
      "rope_original_context": 16})");
  const Result trained = toy("train from-scratch --corpus " + tiny_corpus() + " --size " + size +
                             " --batch 2 --tokens 16 --lr 1e-2 --steps 3 --out " + path("run"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Result card = toy("describe " + path("run/model.gguf"));
  EXPECT_NE(card.out.find("YaRN x4 of 16 positions"), std::string::npos) << card.out;
  EXPECT_NE(card.out.find("biases of attn_q, ffn_down"), std::string::npos) << card.out;
  EXPECT_EQ(toy("infer " + path("run/model.gguf") + " --prompt the --n 5").code, 0);
  refuses("describe " + write("bad.json", R"({"d_model": 24, "n_layers": 2, "n_heads": 3, "d_ff": 32,
      "rope_scaling": "ntk", "rope_factor": 4})"),
          {"rope_scaling is 'ntk'", "none, linear, yarn, llama3"});
}

}  // namespace
