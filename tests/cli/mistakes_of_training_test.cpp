// Mistakes around training, data, embeddings and scores, and that what a message prints can be done.
#include <gtest/gtest.h>

#include "mistakes_fixture.h"

namespace {

constexpr const char* kTiny = " --size tiny --tokenizer bytes --steps 1 --batch 1 --tokens 8 ";

class TrainingMistakes : public Mistakes {
 protected:
  void SetUp() override { write("book.txt", "Once there was a badger. It slept all winter, and it woke in spring.\n"); }
  // In the folder of the mistakes; `command` may be several of a shell.
  Result here(const std::string& words) const {
    const int status =
        std::system(("cd " + path("") + " && " + TOY_BINARY + " " + words + " >out.log 2>err.log </dev/null").c_str());
    return {WEXITSTATUS(status), slurp(path("out.log")), slurp(path("err.log"))};
  }
  // Runs what stands between `from` and `until`.
  void works(const std::string& message, const std::string& from, const std::string& until,
             const std::string& more = "") const {
    const size_t at = message.find(from), begin = at + from.size();
    ASSERT_NE(at, std::string::npos) << message;
    const std::string words = message.substr(begin, message.find(until, begin) - begin);
    const Result r = here(words + more);
    EXPECT_EQ(r.code, 0) << words << "\n" << r.err;
  }
};

TEST_F(TrainingMistakes, WordsOfOthers) {
  write("fp16.json", R"({"corpus": "book.txt", "fp16": true})");
  const std::string scratch = "train from-scratch --corpus book.txt ";
  expect({
      {scratch + "--schedule cosine_with_restarts",
       "--schedule: there is no 'cosine_with_restarts'; did you mean 'cosine'?"},
      {scratch + "--optim adamw_apex", "--optimizer: there is no 'adamw_apex'; did you mean 'adamw'?"},
      {scratch + "--optim rmsprop",
       "--optimizer: there is no 'rmsprop'; use one of adamw, sgd, adamw8, lion, adafactor, muon"},
      {scratch + "--layers gdn,attention", "layers 'gdn,attention': there is no 'attention'; did you mean 'attn'?"},
      {scratch + "--tokenizer bpe:32k", "tokenizer \"bpe:32k\": write bpe:32000"},
      {"train from-scratch --config fp16.json",
       "fp16.json: unknown key 'fp16'; write --compute bf16 to multiply in bf16"},
      {"train lora --model m --corpus book.txt --r x",
       "--rank is 'x'; use a whole number: Rank of the adapter: columns of B and rows of A"},
      {"train grpo --model m --data rows.jsonl",
       "--reward is missing (exact, number, regex:R, json:FILE, finished or program:CMD; several add up); add "
       "--reward exact, or see `toy train grpo --help`"},
      {"train --model m.gguf --data rows.jsonl --lora",
       "--model is an option of `toy train lora`; write toy train lora --model m.gguf --data rows.jsonl"},
      {"train --model m.gguf --data rows.jsonl --qlora --rank 4",
       "--model is an option of `toy train lora`; write toy train lora --model m.gguf --data rows.jsonl --rank 4"},
      {scratch + "--update streaming",
       "clip is 1, and streaming updates never see all gradients together; add --clip 0, or leave out --update"},
      {"train from-scratch --corpus wikitext",
       "wikitext: no such file; give a file or folder of this machine, as data sets are not downloaded"},
      {"search query notes.index badgers",
       "notes.index: no such file; toy search build MODEL FOLDER --out notes.index makes an index"},
  });
  const Result taken = here(scratch + kTiny + "--optim adamw_torch --out out/adamw");
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_NE(taken.err.find("toy: --optimizer adamw_torch is adamw here"), std::string::npos) << taken.err;
}

TEST_F(TrainingMistakes, RunsToResume) {
  const std::string train = "train from-scratch --corpus book.txt --size tiny --tokenizer bytes --batch 1 --tokens 8 ";
  ASSERT_EQ(here(train + "--steps 1 --out out/one").code, 0);
  expect({{"train --resume",
           "resume: 'out' has no config.json with the options of a run; give the recipe and its "
           "options"}});
  // Stopped by its limit of time, which leaves a checkpoint and no end of its steps.
  ASSERT_EQ(here(train + "--steps 1000000 --time-limit 0.01s --out out/two").code, 0);
  std::string log = slurp(path("out/two/events.jsonl"));
  log.resize(log.rfind('\n', log.size() - 2) + 1);  // killed before it could tell its end
  write("out/two/events.jsonl", log);
  expect({{"train --resume", "resume: which run? add --out out/two"}});
  const Result again = here("train --resume --out out/one");
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.err.find("; toy train warm-start --init out/one --corpus book.txt --out out/one-2 trains its model "
                           "further"),
            std::string::npos)
      << again.err;
  works(again.err, "; toy ", " trains its model", " --batch 1 --tokens 8 --steps 1");
  EXPECT_TRUE(fs::exists(path("out/one-2/model.gguf")));
  EXPECT_NE(here("train --resume --out out/one/").err.find("--init out/one --corpus book.txt --out out/one-3 trains"),
            std::string::npos);
}

TEST_F(TrainingMistakes, NamesOfTensors) {
  ASSERT_EQ(here(std::string("train from-scratch --corpus book.txt") + kTiny + "--out out/one").code, 0);
  const std::string tune = "train full-finetune --model out/one --corpus book.txt --tokens 8 --freeze ";
  expect({
      {tune + "embed_tokens", "freeze: no tensor's name fits 'embed_tokens'; did you mean 'token_embd.*'?"},
      {tune + "'*q_proj*'", "freeze: no tensor's name fits '*q_proj*'; did you mean 'blk.*.attn_q.*'?"},
      {tune + "model.layers.1.mlp.up_proj.weight",
       "freeze: no tensor's name fits 'model.layers.1.mlp.up_proj.weight'; did you mean 'blk.1.ffn_up.*'?"},
      {tune + "xyz", "freeze: no tensor's name fits 'xyz'; names are like 'output_norm.weight'"},
  });
}

TEST_F(TrainingMistakes, FoldersAndFiles) {
  const std::string ppm = "P6\n2 2\n255\n" + std::string("abcdefghijkl");
  for (const char* file : {"shapes/train/star/1.ppm", "shapes/train/bar/1.ppm", "shapes/test/star/1.ppm"})
    write(file, ppm);
  write("flat/1.ppm", ppm);
  write("weights/model.safetensors.index.json", R"({"metadata": {}, "weight_map": {"a": "b.safetensors"}})");
  ASSERT_EQ(here(std::string("train from-scratch --corpus book.txt") + kTiny + "--out out/one").code, 0);
  ASSERT_EQ(here("convert out/one hf").code, 0);
  ASSERT_TRUE(fs::remove(path("hf/model.safetensors")));
  write("hf/model.safetensors.index.json", R"({"weight_map": {"lm_head.weight": "model-00001-of-00001.safetensors"}})");
  write("classes.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}\n");
  write("asked.jsonl", R"({"prompt": "a", "answer": "b"})");
  expect({
      {"train vit --data shapes/train/star",
       "shapes/train/star: it has pictures of one class; give the folder above it: shapes/train"},
      {"train vit --data shapes/train/star/",
       "shapes/train/star/: it has pictures of one class; give the folder above it: shapes/train"},
      {"train vit --data flat",
       "flat: it has no subfolders; a folder of pictures has one for each class, such as flat/cat/1.png"},
      {"train vit --data shapes --size vit-micro --out shapes",
       "out: 'shapes' is in the folder of --data, whose subfolders are classes; choose another --out"},
      {"train from-scratch --corpus shapes",
       "shapes: there are pictures and no text in this folder; toy train vit --data shapes learns from pictures"},
      {"train classify --model out/one --data classes.jsonl",
       "model toy: it is of the architecture llama, and classifiers of texts are of bert, modern-bert and qwen3; use "
       "such a one, e.g. all-MiniLM-L6-v2, or make it: toy train from-scratch --corpus TEXT --size bert-tiny "
       "--objective mlm --out OUT"},
      {"convert weights/model.safetensors.index.json x.gguf",
       "weights/model.safetensors.index.json: not a GGUF file: it starts with '{\"me', not 'GGUF'; it is the index of "
       "a "
       "model in several files; give their folder"},
      {"convert hf x.gguf",
       "hf/model.safetensors.index.json: the file 'model-00001-of-00001.safetensors' is missing, which the index "
       "names; download it into hf"},
      {"quantize out/one q.gguf --type Q8_0 --imatrix out/one/model.gguf",
       "out/one/model.gguf: it is a model, and it holds no importance matrix; toy quantize imatrix MODEL --file TEXT "
       "--out FILE measures one"},
      {"train grpo --model out/one --data asked.jsonl --reward reward.py",
       "reward 'reward.py': write 'program:python3 reward.py', a program that reads questions and writes rewards (toy "
       "help grpo.md)"},
      {"train grpo --model out/one --data asked.jsonl --reward '2*book.txt'",
       "reward '2*book.txt': write '2*program:./book.txt' after chmod +x book.txt, a program that reads questions and "
       "writes rewards (toy help grpo.md)"},
      {"train grpo --model out/one --data asked.jsonl --reward program:./nofile.py --max-tokens 4",
       "reward program: ./nofile.py: no such file; check the path"},
      {"train grpo --model out/one --data asked.jsonl --reward 'program:./book.txt now' --max-tokens 4",
       "reward program './book.txt now': it cannot be run; chmod +x allows it"},
  });
  // Said, and only of a folder with other files.
  const auto mixed = [&](const std::string& out) {
    const Result r = here(std::string("train from-scratch --corpus book.txt") + kTiny + "--dry-run --out " + out);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.err.find("has other files in it") != std::string::npos;
  };
  write("logged/train.log", "a");
  EXPECT_TRUE(mixed("shapes"));
  EXPECT_FALSE(mixed("out/one"));
  EXPECT_FALSE(mixed("logged"));
  EXPECT_FALSE(mixed("new"));
  EXPECT_NE(here(std::string("train from-scratch --corpus book.txt") + kTiny + "--dry-run --out shapes")
                .err.find("toy: shapes has other files in it, such as shapes/test; --out shapes/NAME keeps this one"),
            std::string::npos);
}

TEST_F(TrainingMistakes, PatienceThatNeverActs) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "the cat sat on mat number " + std::to_string(i) + ".\n";
  write("long.txt", text);
  const std::string train =
      "train from-scratch --corpus long.txt --size tiny --tokenizer bytes --batch 1 --tokens 8 --eval-every 1 "
      "--patience 3 --dry-run --steps ";
  EXPECT_NE(here(train + "4")
                .err.find("--patience 3 cannot end this run early: it needs more than 3 validations before "
                          "the last step, and --eval-every 1 makes 3; use a smaller one"),
            std::string::npos)
      << slurp(path("err.log"));
  EXPECT_EQ(here(train + "5").err.find("--patience"), std::string::npos) << slurp(path("err.log"));
}

TEST_F(TrainingMistakes, Encoders) {
  ASSERT_EQ(toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_tiny " + path("bert.gguf")).code, 0);
  const Result eval = here("eval bert.gguf --file book.txt");
  EXPECT_EQ(eval.code, 2);
  EXPECT_TRUE(
      eval.err.ends_with("does not generate; use toy embed, to score it toy eval retrieval, sts or classify, and to "
                         "train it toy train contrastive or classify\n"))
      << eval.err;
  write("shapes/star/1.ppm", "P6\n2 2\n255\n" + std::string("abcdefghijkl"));
  expect({{"train classify --model bert.gguf --data shapes",
           "shapes: there are pictures and no text in this folder; toy train vit --data shapes learns from pictures"}});
  const Result built = here("search build bert.gguf --file book.txt --out notes.index");
  EXPECT_EQ(built.code, 0) << built.err;
  EXPECT_NE(built.err.find("toy: --file is the argument PATHS here"), std::string::npos) << built.err;
  EXPECT_EQ(here("search query notes.index badger").code, 0);
}

}  // namespace
