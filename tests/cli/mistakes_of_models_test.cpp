// Mistakes about models: names that are none, parts of folders, other kinds of files, and texts that were forgotten.
#include <gtest/gtest.h>

#include "mistakes_fixture.h"

namespace {

TEST_F(Mistakes, NamesThatAreNoModels) {
  write("real.pdf", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n");
  write("g.gbnf", "root ::= foo \"a\"\n");
  for (const char* folder : {"hf", "two", "one", "notes"}) fs::create_directories(path(folder));
  write("hf/config.json", R"({"hidden_size": 64})");
  write("hf/model.safetensors", "none");
  write("notes/a.txt", "Once there was a badger.\n");
  for (const char* file : {"two/b-Q8_0.gguf", "two/a-Q4_K_M.gguf", "one/a b.gguf"}) write(file, "GGUF");
  expect({
      {"infer real.pdf -p hi",
       "real.pdf: not a GGUF file: it starts with '%PDF', not 'GGUF'; it is a PDF, no model; give a .gguf file, a run, "
       "or a folder of Hugging Face"},
      {"infer 'C:\\models\\llama.gguf' -p hi",
       "C:\\models\\llama.gguf: no such file; it is a path of Windows, and WSL has it as /mnt/c/models/llama.gguf"},
      {"chat '~/models/llama.gguf' hi",
       "~/models/llama.gguf: no such file; the shell replaces ~ only where a word begins with it, without quotes"},
      {"infer https://huggingface.co/ggml-org/models/resolve/main/tinyllamas/stories260K.gguf?download=true -p hi",
       "https://huggingface.co/ggml-org/models/resolve/main/tinyllamas/stories260K.gguf?download=true: it is an "
       "address; toy fetch ggml-org/models tinyllamas/stories260K.gguf downloads the model"},
      {"describe https://huggingface.co/a/b/resolve/v1/c.gguf",
       "https://huggingface.co/a/b/resolve/v1/c.gguf: it is an address; toy fetch a/b c.gguf --revision v1 downloads "
       "the model"},
      {"infer https://a.org/b.gguf -p hi",
       "https://a.org/b.gguf: it is an address; download it first, such as with curl -O, and give the file"},
      {"infer hf/config.json -p hi", "hf/config.json: it is a part of a model; give the model's folder, hf"},
      {"infer hf/model.safetensors -p hi",
       "hf/model.safetensors: it is a part of a model; give the model's folder, hf"},
      {"describe hf/config.json", "hf/config.json: it is a part of a model; write toy describe hf"},
      {"infer two -p hi", "two: a folder of GGUF files; give one of two/a-Q4_K_M.gguf, two/b-Q8_0.gguf"},
      {"infer one -p hi", "one: a folder of GGUF files; give 'one/a b.gguf'"},
      {"search query hf badgers", "hf: it is a model, no index; make one with toy search build hf FOLDER --out INDEX"},
      {"search query notes badgers",
       "notes: it is a folder, no index; make one with toy search build MODEL notes --out INDEX"},
      {"devices --gpu",
       "unknown option '--gpu'; all devices are listed; to compute on one: toy infer MODEL --device cuda, say"},
      {"devices --list cuda",
       "unknown option '--list'; all devices are listed; to compute on one: toy infer MODEL --device cuda, say"},
      {"devices cuda",
       "'cuda' is one argument too many; `toy devices` takes none; all devices are listed; to compute on one: toy "
       "infer "
       "MODEL --device cuda, say"},
      {"devices --nonsense", "unknown option '--nonsense'; `toy devices` has only --json"},
      {"chat hf hi --system-file real.pdf",
       "unknown option '--system-file'; --system \"$(cat FILE)\" takes the text of a file"},
      {"infer hf -p hi --seed random",
       "--seed is 'random'; use a whole number: Seed of the random choices; leave it out, or write --seed $RANDOM for "
       "another each time"},
  });
}

class MistakesWithAModel : public Mistakes {
 protected:
  void SetUp() override {
    ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() +
                  " --size tiny --tokenizer spm:300 --batch 1 --tokens 16 --steps 1 --out " + path("out/tiny"))
                  .code,
              0);
  }
  // What is said on stderr before the answer.
  std::string said(const std::string& words) const {
    const Result r = toy(words);
    EXPECT_EQ(r.code, 0) << words << "\n" << r.err;
    return r.err;
  }
};

// A model whose vocabulary has a token that begins a text; without one an empty text is refused.
TEST_F(MistakesWithAModel, SharedTextsThatAreMissing) {
  const std::string model = std::string(TOY_SHARED_DIR) + "/data/stories260K.gguf", infer = "infer " + model + " -n 1 ";
  const std::string none = "toy: no prompt was given, so the text begins with nothing; add --prompt TEXT\n";
  EXPECT_EQ(said(infer), none);
  EXPECT_EQ(said("look " + model), none);
  EXPECT_EQ(said(infer + "--prompt ''"), "");
  EXPECT_EQ(said(infer + "--prompt 'the cat'"), "");
  EXPECT_EQ(said(infer + "--prompts " + write("p.txt", "the cat\n\n\nthe mat\n")),
            "toy: " + path("p.txt") + ": of 4 prompts 2 are empty (line 2, 3)\n");
  EXPECT_EQ(said(infer + "--prompts " + write("q.txt", "the cat\nthe mat\n")), "");
  refuses("infer " + path("out/tiny"), {"prompt: it is missing or empty; give a text"});
}

TEST_F(MistakesWithAModel, AListInJsonIsNoLines) {
  write("list.json", "[\n  {\"prompt\": \"Once\"},\n  {\"prompt\": \"Then\"}\n]\n");
  refuses("infer " + path("out/tiny") + " --prompts " + path("list.json"), {"list.json: it is a JSON list", "jq -c"});
  refuses("embed " + path("out/tiny") + " --pooling mean --file " + path("list.json"), {"it is a JSON list"});
  EXPECT_EQ(said("infer " + path("out/tiny") + " -n 1 --prompts " + write("inst.txt", "[INST] the cat [/INST]\n")), "");
}

TEST_F(MistakesWithAModel, TablesAreNoLines) {
  write("reviews.csv", "text,label\nfine,good\n");
  refuses("infer " + path("out/tiny") + " --prompts " + path("reviews.csv"),
          {"reviews.csv: it is a table; write each"});
  refuses("embed " + path("out/tiny") + " --pooling mean --file " + path("reviews.csv"),
          {"reviews.csv: it is a table"});
}

// A pipe brings a text where there is one already.
TEST_F(MistakesWithAModel, InputThatIsNotRead) {
  const auto piped = [&](const std::string& words) {
    const int status = std::system(("echo the cat | (sleep 0.2; " + std::string(TOY_BINARY) + " " + words + " >" +
                                    path("out.log") + " 2>" + path("err.log") + ")")
                                       .c_str());
    EXPECT_EQ(status, 0) << words;
    return slurp(path("err.log"));
  };
  const std::string model = path("out/tiny"), note = "toy: standard input is not read, as there is a ";
  EXPECT_EQ(piped("infer " + model + " -n 1 -p the"),
            note + "prompt; --prompt-file - reads it, and \"$(cat FILE) PROMPT\" is both\n");
  EXPECT_EQ(piped("infer " + model + " -n 1 --prompt-file -"), "");
  EXPECT_EQ(piped("infer " + model + " -n 1"), "toy: the prompt is read from standard input, to its end\n");
  const std::string read = slurp(path("out.log"));
  write("any.gbnf", "root ::= [a-z ]+\n");  // which is what reads it here
  const int status = std::system((std::string(TOY_BINARY) + " infer " + model + " -n 1 --grammar - < " +
                                  path("any.gbnf") + " > /dev/null 2>" + path("err.log"))
                                     .c_str());
  EXPECT_EQ(slurp(path("err.log")).find("read from standard input"), std::string::npos) << status;
  EXPECT_EQ(toy("infer " + model + " -n 1 'about foo.gguf'").code, 0);  // no such file
  // A model that is not there is told before a pipe is read to its end.
  const int waits = std::system(("mkfifo " + path("pipe") + " && exec 3<>" + path("pipe") + " && timeout 20 " +
                                 std::string(TOY_BINARY) + " infer " + path("none.gguf") + " <&3 2>" + path("err.log"))
                                    .c_str());
  EXPECT_EQ(WEXITSTATUS(waits), 2);
  EXPECT_NE(slurp(path("err.log")).find("none.gguf: no such file"), std::string::npos);
  EXPECT_EQ(piped("infer " + model + " -n 1 -p 'the cat'").substr(0, note.size()), note);
  EXPECT_EQ(slurp(path("out.log")), read);
  EXPECT_NE(piped("chat " + model + " hi -n 2 --chat-template plain")
                .find(note + "message; \"$(cat FILE) MESSAGE\" is both\n"),
            std::string::npos);
  EXPECT_EQ(piped("chat " + model + " -n 2 --chat-template plain").find(note), std::string::npos);
}

TEST_F(MistakesWithAModel, TextsThatAreMeantOtherwise) {
  const std::string infer = "infer " + path("out/tiny") + " -n 1 ";
  EXPECT_EQ(said(infer + "-p " + path("out")), "toy: '" + path("out") + "' is taken as a text, not as a folder\n");
  const std::string breaks = "toy: \\n in the text is a backslash and an n; for a line break write ";
  EXPECT_EQ(said(infer + R"(-p 'the\ncat'"'"'s \d')"), breaks + R"($'the\ncat\'s \\d')" + "\n");
  EXPECT_EQ(said(infer + "-p \"$(printf 'the\\ncat')\""), "");
  EXPECT_EQ(said(infer + R"(-p 'print("a\n")')"), "");  // of code
  EXPECT_EQ(said(infer + R"(-p the --stop '\n')"), breaks + R"($'\n')" + "\n");
  EXPECT_EQ(said(infer + "-p '" + std::string(100, 'a') + R"(\n')"), breaks + "$'...\\n...'\n");

  EXPECT_EQ(said("quantize imatrix " + path("out/tiny") + " --file " + write("x.txt", "the cat sat") + " --out " +
                 path("few.gguf"))
                .find("toy: 11 B ("),
            0u);
  std::string much;
  for (int i = 0; i < 2000; ++i) much += "the cat sat.";
  EXPECT_EQ(
      said("quantize imatrix " + path("out/tiny") + " --file " + write("y.txt", much) + " --out " + path("much.gguf"))
          .find("too few"),
      std::string::npos);
}

TEST_F(MistakesWithAModel, WhatDoesNotFit) {
  ASSERT_EQ(toy("train lora --model " + path("out/tiny") + " --corpus " + path("corpus.txt") +
                " --rank 2 --batch 1 --tokens 16 --steps 1 --out " + path("out/lora"))
                .code,
            0);
  ASSERT_EQ(toy("train from-scratch --corpus " + path("corpus.txt") +
                " --size small --tokenizer spm:300 --batch 1 --tokens 16 --steps 1 --out " + path("out/small"))
                .code,
            0);
  write("long.txt", std::string(100000, 'a'));
  write("g.gbnf", "root ::= foo \"a\"\n");
  write("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  refuses("infer " + path("out/tiny") + " -p a --lora " + path("out/small/model.gguf"),
          {path("out/small/model.gguf") + ": it is a model, no adapter; --lora takes a run of toy train lora"});
  refuses(
      "infer " + path("out/small") + " -p a --lora " + path("out/lora"),
      {path("out/lora/adapter.gguf") + ": it is an adapter of " + path("out/tiny") + ", not of this model: 'blk.0."});
  refuses(
      "infer " + path("out/small") + " -p a --lora " + path("out/lora/peft"),
      {path("out/lora/peft") + ": it is an adapter of " + path("out/tiny") + ", not of this model: 'model.layers.0."});
  fs::copy(path("out/lora/peft"), path("peft"));
  refuses("infer " + path("out/small") + " -p a --lora " + path("peft"),
          {"adapter_model.safetensors: it is an adapter of another model: '"});
  std::string config = slurp(path("peft/adapter_config.json"));
  const std::string none = R"("base_model_name_or_path": null)";
  ASSERT_NE(config.find(none), std::string::npos) << config;
  write("peft/adapter_config.json",
        config.replace(config.find(none), none.size(), R"("base_model_name_or_path": "org/base")"));
  refuses("infer " + path("out/small") + " -p a --lora " + path("peft"),
          {"peft: it is an adapter of org/base, not of this model: 'model.layers.0."});
  refuses("infer " + path("out/tiny") + " --prompt-file " + path("long.txt") + " -n 5",
          {"at most 507 prompt tokens fit; shorten it, or score the text: toy eval ", " --file FILE"});
  const std::string tiny = path("out/tiny");
  refuses("infer " + tiny + " " + tiny + "/model.gguf",
          {"model.gguf' is one model too many; one is taken, and --prompt before a text of that name"});
  refuses("infer " + tiny + " hi --lora " + tiny + "," + tiny,
          {"lora: '" + tiny + "," + tiny + "' is no file; give several one by one: " + tiny + ", then " + tiny});
  refuses("infer " + path("out/tiny") + " -p a -n 5000",
          {"; use --n 511 or less, or --ctx beyond the model's context"});
  const std::string all = toy("infer " + path("out/tiny") + " -p a -n -1 --ignore-eos --json").out;
  EXPECT_EQ(nlohmann::json::parse(all)["ids"].size(), 511u);
  refuses("train lora --model " + path("out/tiny") + " --corpus " + path("corpus.txt") + " --tokens 2048",
          {"positions; use --tokens 512 or less\n"});
  refuses("train full-finetune --init " + path("out/tiny") + " --corpus " + path("corpus.txt") + " --tokens 2048",
          {"positions; use --tokens 512 or less, or --context 2048 to extend it"});
  refuses("infer " + path("out/tiny") + " -p a --grammar " + path("g.gbnf"),
          {"there is no rule 'foo'; add foo ::= ..., or write \"foo\" for the text"});
  // Only templates that fit.
  refuses("chat " + path("out/tiny") + " hi",
          {"the model has no chat template; add --chat-template plain (or zephyr), "});
  refuses("chat " + path("out/tiny") + " hi --chat-template chatml", {"<|im_end|>; use plain (or zephyr)"});
  refuses("train lora --model " + path("out/tiny") + " --data " + path("chats.jsonl"),
          {"messages need a chat template, and the model has none; add --chat-template plain (or zephyr)"});
  EXPECT_EQ(toy("chat " + path("out/tiny") + " hi -n 2 --chat-template plain").code, 0);
}

TEST_F(MistakesWithAModel, OfOneProcess) {
  const auto run = [&](const char* rank, const std::string& words) {
    const int status = std::system((std::string("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=") + rank + " " +
                                    TOY_BINARY + " " + words + " >" + path("out.log") + " 2>" + path("err.log"))
                                       .c_str());
    EXPECT_EQ(status, 0) << words;
    return slurp(path("err.log"));
  };
  const std::string infer = "infer " + path("out/tiny") + " -n 1 -p the";
  EXPECT_EQ(run("0", infer),
            "toy: toy infer uses one process of the 2; only toy train and toy bench train use several\n");
  EXPECT_EQ(run("1", infer), "");
  EXPECT_EQ(run("0", "--version"), "");
}

}  // namespace
