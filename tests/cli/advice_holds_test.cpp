// What a message advises can be done, and is what was meant.
#include <gtest/gtest.h>

#include "mistakes_fixture.h"

namespace {

constexpr const char* kTiny = " --size tiny --tokenizer bytes --steps 1 --batch 1 --tokens 8 --out out/tiny ";

std::string ppm() { return "P6\n2 2\n255\n" + std::string("abcdefghijkl"); }

TEST_F(Mistakes, AdviceIsWhatWasMeant) {
  write("book.txt", "Once there was a badger.\nIt slept.\n");
  const std::string scratch = "train from-scratch --corpus book.txt ";
  expect({
      {"train --model m.gguf --data rows.jsonl --lora_r 8 --num_train_epochs 1",
       "--model is an option of `toy train lora`; write toy train lora --model m.gguf --data rows.jsonl --rank 8 "
       "--epochs 1"},
      {"train --corpus book.txt --size tiny",
       "--corpus is an option of `toy train from-scratch`; write toy train from-scratch --corpus book.txt --size tiny"},
      {"train resume out/tiny", "there is no `toy train resume`; toy train --resume --out FOLDER resumes a run"},
      {scratch + "--heads 7",
       "unknown option '--heads'; --size takes a name such as small, or a JSON file such as {\"d_model\": 384, "
       "\"n_layers\": 6, \"n_heads\": 6, \"d_ff\": 1024} (toy help model-keys.md)"},
      {scratch + "--size model.json", "size: model.json: no such file; check the path"},
      {scratch + "--deepspeed x",
       "unknown option '--deepspeed'; mpirun -np N toy train ... trains on several machines (toy help "
       "many-machines.md)"},
      {scratch + kTiny + "--batch 400000000", "batch is 400000000; with 8 tokens per row use at most 268435455"},
      {"infer m hi --format table",
       "unknown option '--format'; text is printed, or a JSON object with --json; leave it out"},
      {"infer m --prompt hi --stop -n 4", "--stop has no value: what follows is the option -n; give one"},
      {"infer m hi --seed -1",
       "--seed is -1; use 0 to 18446744073709551615; leave it out, or write --seed $RANDOM for another each time"},
      {"chat m hi -n -1", "--n is -1; use 1 or more; leave it out; --help says what is usual"},
      {"convert a b.gguf --threads 1", "unknown option '--threads'; this command has one thread; leave it out"},
      {"fetch smollm2",
       "'smollm2' is not the name of a repository; use OWNER/REPO, as on huggingface.co, such as "
       "HuggingFaceTB/SmolLM2-135M-Instruct, or `ollama pull`, whose models `toy list` finds"},
      {"help learning",
       "there is no command, page or word 'learning'; near are 'learning rate', learning-curves.md (toy help pages "
       "lists the manual)"},
  });
  EXPECT_NE(toy("help gguf").err.find("; pages that have it: "), std::string::npos);
  EXPECT_EQ(toy("help hyperparameter").err.find("pages that have it"), std::string::npos);
}

TEST_F(Mistakes, AdviceOnFilesAndModels) {
  write("book.txt", std::string(600, 'a') + "\n");
  ASSERT_EQ(
      toy("train from-scratch --corpus " + path("book.txt") + with(kTiny, "--out ") + "--out " + path("out/tiny")).code,
      0);
  fs::create_directories(path("pictures"));
  fs::create_directories(path("empty"));
  write("pictures/1.ppm", ppm());
  write("semi.csv", "label;text\na;b\n");
  write("root.gbnf", "root ::= \"a\"\n");
  write("example.json", R"({"name": "string", "age": "integer"})");
  write("chosen.jsonl", R"({"prompt": "a", "chosen": "b"})");
  fs::copy_file(path("out/tiny/model.gguf"), path("other.gguf"));
  expect({
      {"merge out/tiny other.gguf --out m.gguf",
       "'other.gguf' is a whole model, and toy merge adds adapters to one; write toy merge out/tiny --lora ADAPTER "
       "--out FILE"},
      {"serve out/tiny other.gguf",
       "'other.gguf' is one model too many; `toy serve` takes one; serve the other one with another --port, such as "
       "8081"},
      {"quantize out/tiny q.gguf --type IQ1_S", "quantize: there is no type 'IQ1_S'; the smallest is Q2_K_S"},
      {"quantize out/tiny q.gguf --type UD-Q4_K_XL",
       "quantize: there is no type 'UD-Q4_K_XL'; did you mean Q4_0, Q4_1, Q4_K_S, Q4_K_M, IQ4_NL or IQ4_XS?"},
      {"convert empty x.gguf",
       "empty: the folder is empty; give a GGUF file, a run, or a folder of Hugging Face (config.json, "
       "*.safetensors)"},
      {"eval out/tiny --file pictures/1.ppm",
       "pictures/1.ppm: it is a picture; toy train vit learns from folders of pictures, or give it as standard input "
       "(-) to take its bytes"},
      {"eval out/tiny --data pictures",
       "pictures: there are pictures and no text in this folder; toy train vit --data pictures learns from pictures"},
      {"train lora --model out/tiny --data semi.csv",
       "semi.csv: the columns of the table are separated by ';'; write commas"},
      {"train dpo --model out/tiny --data chosen.jsonl --bad-rows fail",
       "chosen.jsonl:1: 'rejected' is missing; a row is {\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}; "
       "--bad-rows skip passes over such rows, toy data check lists them"},
      {"infer out/tiny hi --json-schema root.gbnf", "root.gbnf: it is a grammar; write --grammar root.gbnf"},
      {"infer out/tiny hi --grammar example.json",
       "example.json: it is JSON, and a grammar is GBNF; did you mean --json-schema example.json?"},
      {"infer out/tiny hi --json-schema example.json",
       "example.json: the schema: 'name', 'age' are no keywords of JSON Schema; a schema of objects is {\"type\": "
       "\"object\", "
       "\"properties\": {\"NAME\": {\"type\": \"string\"}}}"},
      {"train lora --model out/tiny --corpus book.txt --rank 100000 --steps 1 --out out/lora",
       "rank is 100000, and 'blk.0.attn_k.weight' is [32,64]: use a rank of at most 32, or give small maps one of "
       "their own: --targets "
       "all-linear,attn_k=32,attn_output=64,attn_q=64,attn_v=32,ffn_down=64,ffn_gate=64,ffn_up=64"},
  });
}

// The same text twice, and the memory of a whole run: what is advised is enough.
TEST_F(Mistakes, AdviceOnTextsAndMemory) {
  std::string text;
  for (int i = 0; i < 8000; ++i) text += "the cat sat on mat number " + std::to_string(i) + ".\n";
  const std::string book = write("book.txt", text), small = with(kTiny, "--out ") + "--out " + path("out/tiny ");
  EXPECT_NE(toy("train from-scratch --corpus " + book + " --corpus " + book + small).err.find("it is given twice"),
            std::string::npos);
  const std::string wide = "train from-scratch --corpus " + book + " --size tiny --steps 1 --out " + path("out/wide");
  const std::string refused = toy(wide + " --memory 1M").err;
  const size_t at = refused.find("--memory ");
  ASSERT_NE(at, std::string::npos) << refused;
  const Result r = toy(wide + " " + refused.substr(at, refused.find('M', at) + 1 - at));
  EXPECT_EQ(r.code, 0) << refused << r.err;
}

}  // namespace
