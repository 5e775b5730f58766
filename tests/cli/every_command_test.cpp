// Options that many commands share, with each of them.
#include "cli/cli_fixture.h"

#include <functional>
#include <map>

namespace {

// Leaf commands of the manifest that take an option, as "train from-scratch".
std::vector<std::string> commands_with(const std::string& option, const nlohmann::json& node, const std::string& name) {
  std::vector<std::string> found;
  for (const auto& o : node.value("options", nlohmann::json::array()))
    if (o.at("name") == option) found.push_back(name);
  for (const auto& c : node.value("commands", nlohmann::json::array())) {
    const std::string word = c.at("name");
    const auto below = commands_with(option, c, name.empty() ? word : name + " " + word);
    found.insert(found.end(), below.begin(), below.end());
  }
  return found;
}

// Every command that takes --threads, --device or --seed; the manifest says which, so that none is forgotten.
TEST_F(Cli, ThreadsDevicesAndSeedsOfEveryCommand) {
  const std::string golden = TOY_GOLDEN, corpus = tiny_corpus(), out = " --overwrite --out " + path("run");
  const std::string with_tokenizer = path("start/model.gguf");
  ASSERT_EQ(toy("train from-scratch --corpus " + corpus + kSmall + "--steps 1 --out " + path("start")).code, 0);
  const std::string few = " --steps 1 --batch 2 --tokens 16 --corpus " + corpus + " --model " + with_tokenizer;
  ASSERT_EQ(toy("train lora --rank 2" + few + " --out " + path("adapter")).code, 0);
  const std::string encoder = path("bert.gguf");
  const std::string twins =
      write("twins.jsonl", "{\"anchor\": \"a\", \"positive\": \"b\"}\n{\"anchor\": \"c\", \"positive\": \"x\"}\n");
  ASSERT_EQ(toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_tiny " + encoder).code, 0);
  ASSERT_EQ(toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_class_tiny " + path("class.gguf")).code,
            0);
  const std::string ranker = path("ranker.gguf");
  ASSERT_EQ(toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_rank_tiny " + ranker).code, 0);
  for (const char* f : {"pictures/a/1.pgm", "pictures/b/1.pgm"}) write(f, "P5 4 4 255\nabcdefghijklmnop");
  const std::map<std::string, std::string> rest{
      {"train from-scratch", " --steps 1 --corpus " + corpus + kSmall + out},
      {"train warm-start", " --steps 1 --batch 2 --tokens 16 --corpus " + corpus + " --init " + with_tokenizer + out},
      {"train full-finetune", few + out},
      {"train lora", " --rank 2" + few + out},
      {"train dpo", " --rank 2 --steps 1 --batch 2 --tokens 16 --model " + with_tokenizer + out + " --data " +
                        write("pairs.jsonl", R"({"prompt": "a", "chosen": "b", "rejected": "c"})")},
      {"train grpo", " --rank 2 --steps 1 --group 2 --questions 1 --max-tokens 2 --reward exact --model " +
                         with_tokenizer + out + " --data " + write("tasks.jsonl", R"({"prompt": "a", "answer": "b"})")},
      {"train vit", " --steps 1 --batch 2 --val-fraction 0 --data " + path("pictures") + out},
      {"train contrastive", " --steps 1 --batch 2 --val-fraction 0 --model " + encoder + out + " --data " + twins},
      {"train classify", " --steps 1 --batch 2 --val-fraction 0 --model " + encoder + out + " --data " +
                             write("labels.csv", "text,label\na,bad\nthe,good\n")},
      {"merge",
       " " + with_tokenizer + " --lora " + path("adapter") + " --type f32 --overwrite --out " + path("merged.gguf")},
      {"infer", " " + golden + " --prompt-ids 1,2 --n 2"},
      {"chat", " " + with_tokenizer + " hi -n 1 --chat-template " + write("chat.jinja", "{{ messages[0].content }}")},
      {"serve", " " + with_tokenizer + " --port 0"},
      {"embed", " " + with_tokenizer + " --pooling last 'the cat'"},
      {"rerank", " " + ranker + " cat --document a"},
      {"search build", " " + encoder + " " + corpus + " --out " + path("some.index")},
      {"search query", " " + path("some.index") + " cat"},
      {"eval sts", " " + encoder + " " + write("sts.csv", "sentence1,sentence2,score\na,b,1\na,the,2\n")},
      {"eval retrieval", " " + encoder + " " + twins},
      {"eval classify", " " + path("class.gguf") + " " + write("classes.csv", "text,label\na,bad\nthe,good\n")},
      {"eval", " " + with_tokenizer + " --ctx 16 --file " + write("little.txt", "the cat sat on the mat again.")},
      {"eval kl",
       " --base " + with_tokenizer + " --lora " + path("adapter") + " --ctx 16 --file " + path("little.txt")},
      {"eval lmc", " --a " + with_tokenizer + " --b " + with_tokenizer + " --ctx 16 --file " + path("little.txt")},
      {"eval choices",
       " " + with_tokenizer + " " + write("q.jsonl", R"({"prompt": "a", "choices": ["b", "c"], "answer": 0})")},
      {"eval generate", " " + with_tokenizer + " " + write("a.jsonl", R"({"prompt": "a", "answer": "b"})")},
      {"quantize", " " + golden + " " + path("q.gguf") + " --overwrite --type q8_0"},
      {"convert", " " + golden + " " + path("c.gguf") + " --overwrite --type f16"},
      {"quantize imatrix", " " + with_tokenizer + " --file " + corpus + " --ctx 16 --out " + path("q.imatrix")},
      {"describe", " " + golden},
      {"look", " " + golden + " --prompt-ids 1,2"},
      {"corpus stories", " --bytes 100"},
      {"corpus chats", " --rows 3"},
      {"corpus qa", " --rows 3"},
      {"corpus shapes", " --images 10 --test 0 --image-size 16 --out " + path("shapes")},
      {"data show", " " + path("pictures") + " --augment " + path("sheet.png")},
      {"bench machine", ""},
      {"bench ops", " --shape tiny --batch 1 --tokens 16 --context 16 --steps 1"},
      {"bench train", " --shape tiny --batch 1 --tokens 16 --steps 1"},
      {"bench infer", " " + golden + " --prompt 4 --decode 4 --repeat 1"},
  };
  const auto manifest = nlohmann::json::parse(toy("--manifest").out);
  const auto each = [&](const std::string& option, const std::string& value, const std::vector<std::string>& words) {
    const auto commands = commands_with(option, manifest, "");
    EXPECT_GE(commands.size(), 3u) << option;
    for (const std::string& c : commands) {
      ASSERT_TRUE(rest.contains(c)) << "this test must know how to call: " << c;
      const std::string call = c + rest.at(c) + " " + option + " " + value;
      if (words.empty())
        EXPECT_EQ(toy(call).code, 0) << call;
      else
        refuses(call, words);
    }
  };
  each("--threads", "10000", {"--threads", "10000", "0 to 1024"});
  each("--threads", "-1", {"--threads", "-1", "0 to 1024"});
  each("--threads", "two", {"threads", "two"});
  each("--device", "abacus", {"--device is 'abacus'", "cpu", "reference"});
  each("--seed", "-1", {"--seed is -1", "0 to 18446744073709551615"});
  each("--seed", "18446744073709551616", {"--seed is 18446744073709551616"});
  each("--seed", "1.5", {"seed is '1.5'"});
  each("--seed", "18446744073709551615", {});
}

// Every command and every group: an unknown option is named, whatever the command is called.
TEST_F(Cli, UnknownOptionsOfEveryCommand) {
  const std::function<void(const nlohmann::json&, const std::string&)> each = [&](const nlohmann::json& node,
                                                                                  const std::string& name) {
    for (const char* option : {"--foo", "-q7", "--vocab_sizes=3"})
      refuses(name + " " + option, {"unknown option '" + std::string(option).substr(0, std::string(option).find('='))});
    for (const auto& c : node.value("commands", nlohmann::json::array()))
      each(c, name + " " + c.at("name").get<std::string>());
  };
  each(nlohmann::json::parse(toy("--manifest").out), "");
}

// A model of this name is replaced only with --overwrite.
TEST_F(Cli, ModelsAreReplacedOnlyIfAsked) {
  const std::string base = path("base/model.gguf"), other = path("other.gguf"), golden = TOY_GOLDEN;
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("base")).code, 0);
  ASSERT_EQ(toy("train lora --rank 2 --steps 1 --batch 2 --tokens 16 --corpus " + tiny_corpus() + " --model " + base +
                " --out " + path("adapter"))
                .code,
            0);
  ASSERT_EQ(toy("convert " + golden + " " + path("hf")).code, 0);
  fs::copy_file(base, other);
  const std::string before = slurp(other);
  for (const std::string& call :
       {"quantize " + base + " " + other + " --type Q8_0", "convert " + base + " " + other + " --type f16",
        "convert " + path("hf") + " " + other, "merge " + base + " --lora " + path("adapter") + " --out " + other}) {
    refuses(call, {"other.gguf", "is there and would be lost", "--overwrite"});
    EXPECT_EQ(slurp(other), before) << call;
    EXPECT_EQ(toy(call + " --overwrite").code, 0) << call;
    EXPECT_NE(slurp(other), before) << call;
    write("other.gguf", before);
  }
  write("other.gguf", "");  // an empty file is free
  EXPECT_EQ(toy("quantize " + base + " " + other + " --type Q8_0").code, 0);
}

}  // namespace
