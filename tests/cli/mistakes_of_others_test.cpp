// More mistakes, by what people mean: a text or rows, swapped and missing arguments, other programs' options, amounts.
#include <gtest/gtest.h>

#include "mistakes_fixture.h"

namespace {

constexpr const char* kSmall = " --size tiny --tokenizer bytes --steps 2 --batch 1 --tokens 8 --out out/tiny ";

TEST_F(Mistakes, TextsWhereRowsAreWanted) {
  write("book.txt", "Once there was a badger.\nIt slept.\n");
  const std::string text = "book.txt: a plain text, and no rows of JSON";
  const std::string both = text + "; --corpus book.txt trains on it, toy eval MODEL --file book.txt scores it";
  expect({
      {"train from-scratch --data book.txt --bad-rows skip", both},  // not a warning for each line
      {"train from-scratch --dataset book.csv", "book.csv: no such file; check the path"},
      {"data check book.txt", both},
  });
  EXPECT_NE(toy("train from-scratch --train-file " + path("book.txt") + " --dry-run --tokens 8 --batch 1")
                .err.find("--train-file is --corpus here"),
            std::string::npos);
  write("late.jsonl", "a heading\n{\"text\": \"Once there was a badger.\"}\n");  // has a row
  EXPECT_NE(toy("data check " + path("late.jsonl")).out.find("late.jsonl:1: not JSON; each line must be a JSON object"),
            std::string::npos);
}

TEST_F(Mistakes, OfOtherProgramsAndAmounts) {
  write("book.txt", "Once there was a badger.\n");
  fs::create_directories(path("pics"));
  const std::string scratch = "train from-scratch --corpus book.txt ";
  expect({
      {scratch + "--tokenizer bpe", "tokenizer \"bpe\": the number of its tokens is missing; write bpe:512, say"},
      {scratch + "--tokenizer gpt2",
       "unknown tokenizer \"gpt2\": use \"bytes\", \"bpe:V\", \"spm:V\" or \"unigram:V\" with the number of tokens V, "
       "such as spm:512, or a file with one: a GGUF, or SentencePiece's .model"},
      {scratch + "--bf16", "unknown option '--bf16'; write --compute bf16 to multiply in bf16"},
      {scratch + "--warmup-ratio 0.1",
       "unknown option '--warmup-ratio'; --warmup takes a number of steps: --warmup 100 is a tenth of 1000"},
      {scratch + "--vocab-size 1000",
       "unknown option '--vocab-size'; write --tokenizer bpe:1000 for a vocabulary of 1000 tokens"},
      {"tokenizer train --corpus book.txt --tokenizer bpe:512 --vocab-size 600 --out v.gguf",
       "--tokenizer bpe:512 says already how many tokens there are; leave out --vocab-size"},
      {"bench --model m.gguf",
       "'m.gguf' is no command; toy bench infer m.gguf measures a model, and toy bench machine this computer"},
      {"train vit --data pics --size vit-micro",
       "pics: it has no subfolders; a folder of pictures has one for each class, such as pics/cat/1.png"},
      {"help lorra", "unknown command 'lorra'; did you mean 'train lora'?"},
      {"lorra --model x", "unknown command 'lorra'; did you mean 'train lora'?"},
      {"infer m hi --top-k 0.9", "--top-k is '0.9'; use a whole number; did you mean --top-p 0.9?"},
  });
  const std::string sizes = toy("train from-scratch --corpus " + path("book.txt") + " --size 10M").err;
  EXPECT_NE(sizes.find("there is no size '10M'; use one of tiny 0.2, small 0.8, "), std::string::npos) << sizes;
}

TEST_F(Mistakes, OptionsOfOtherPrograms) {
  write("train.py", "a = 1\n");
  const std::string lora = "train lora --model m.gguf --data rows.jsonl ", unknown = "unknown option '";
  const auto is_told = [&](const std::string& command, const std::string& option, const std::string& why) {
    expect({{command + " " + option, unknown + option.substr(0, option.find(' ')) + "'; " + why}});
  };
  is_told("infer", "-hf a/b-GGUF", "toy fetch OWNER/REPO downloads a model, and then its name is enough");
  is_told("infer m.gguf hi", "-b 512", "how much is computed together needs no option; leave it out");
  is_told("infer m.gguf hi", "--batch-size 8", "--prompts FILE --parallel N generates N texts at once");
  is_told("infer m.gguf hi", "-ctk q8_0", "--kv says how keys and values are stored, such as --kv q8_0");
  is_told("infer m.gguf hi", "--num_beams 4", "there is no beam search; --temperature 0 takes the likeliest token");
  is_told("chat m.gguf", "-i", "toy chat MODEL talks until you end it; leave it out");
  is_told("chat m.gguf hi", "--format json", "--json-schema FILE makes answers JSON that fits a schema");
  is_told("serve m.gguf", "--metrics", "/metrics is always served; leave it out");
  is_told("serve m.gguf", "--pooling mean", "each request says it: \"pooling\": \"mean\"");
  is_told(lora, "--save-strategy epoch", "--checkpoint-every N says how often, in steps");
  is_told(lora, "--betas 0.9,0.95", "write --optimizer 'adamw(beta1=0.9,beta2=0.95)'");
  is_told(lora, "--init-from resume",
          "--resume with --out FOLDER resumes a run; toy train warm-start --init FILE trains a model further");
  is_told("train vit --data pics", "--num-classes 10", "the subfolders of --data are the classes; leave it out");
  is_told("train contrastive --model m --data p.jsonl", "--scale 20", "a scale of 20 is --temperature 0.05");
  is_told("eval generate m q.jsonl", "--num-fewshot 5", "questions are asked without examples; leave it out");
  is_told("embed m hi", "--normalize", "vectors have length 1 unless --raw is given; leave it out");
  is_told("tokenizer train --corpus b.txt", "--model-type bpe",
          "--tokenizer bpe:512 says the kind and the number of tokens");
  expect({
      {lora + "--targets q_proj v_proj", "values of a list are separated by commas: --targets q_proj,v_proj"},
      {lora + "--targets q_proj v_proj o_proj --steps 3",
       "values of a list are separated by commas: --targets q_proj,v_proj,o_proj"},
      {"train train.py",
       "'train.py' is no recipe; options are read from JSON, such as {\"steps\": 500}, and belong to one: toy train "
       "lora "
       "--config FILE.json"},
      {"train from-scratch --corpus train.py --size 124M", "there is no size '124M'; did you mean gpt2-124m?"},
      {"train from-scratch --corpus train.py --size gpt2",
       "there is no size 'gpt2'; did you mean gpt2-tiny, gpt2-124m or gpt2-355m?"},
      {"serve m.gguf 0.0.0.0:8080", "'0.0.0.0:8080' is one argument too many; write --host 0.0.0.0 --port 8080"},
      {"chat http://localhost:8080 hi",
       "http://localhost:8080: it is an address; toy chat --url http://localhost:8080 talks to a server"},
      {"embed m hi --pooling tokens", "--pooling is 'tokens'; use mean, cls, last or none"},
      {"runs report",
       "RUNS is missing (A run, or several to compare: each a folder, events.jsonl or id); see `toy "
       "runs report --help`"},
      {"runs out/a", "'out/a' is no command; toy runs show out/a tells about a run"},
      {"eval perplexity m.gguf book.txt",
       "'perplexity' is what toy eval prints of a text anyway; write toy eval m.gguf --file book.txt"},
      {"fetch hf.co/a/b-GGUF:Q4_K_M", "'hf.co/a/b-GGUF:Q4_K_M' is an address; write toy fetch a/b-GGUF '*Q4_K_M*'"},
      {"fetch a/b-GGUF:Q4_K_M", "'a/b-GGUF:Q4_K_M' is an address; write toy fetch a/b-GGUF '*Q4_K_M*'"},
      {"infer a/b-GGUF:Q4_K_M -p hi",
       "a/b-GGUF:Q4_K_M: it is an address; toy fetch a/b-GGUF '*Q4_K_M*' downloads the model"},
      {"infer m hi --device auto",
       "--device is 'auto'; use cpu, cuda, opencl, emulated or reference; leave it out for the CPU; toy devices shows "
       "what this machine has"},
  });
}

// Several values where each has an option of its own.
TEST_F(Mistakes, ValuesOneByOne) {
  write("book.txt", "Once there was a badger.\n");
  write("more.txt", "It slept.\n");
  write("m.gguf", "GGUF");
  fs::create_directories(path("ad"));
  write("ad/adapter_config.json", "{}");
  const std::string once = " takes one value, and may be given several times: ";
  expect({
      {"infer m.gguf --lora a b --prompt hi", "--lora" + once + "--lora a --lora b"},
      {"infer m.gguf --prompt hi --stop A 'B C'",
       "--stop" + once + "--stop A --stop 'B C'; a text of several words needs quotes"},
      {"quantize m.gguf q.gguf --type Q4_0 --tensor a=Q8_0 b=Q8_0",
       "--tensor" + once + "--tensor a=Q8_0 --tensor b=Q8_0"},
      {"serve m.gguf --lora tuned:ad", "lora: 'tuned:ad' is no file; a name comes before '=': tuned=ad"},
      {"infer m.gguf m.gguf -p Once", "'m.gguf' is one model too many; `toy infer` takes one"},
      {"rerank m.gguf where 'in a sett' 'in France'",
       "each document needs an option: write --document 'in a sett' --document 'in France', or --file with one per "
       "line"},
      {"rerank m.gguf --query where book.txt", "'book.txt' is no option; did you mean --file book.txt?"},
      {"embed m.gguf 'a cat' 'a dog'", "one text is taken; --file reads several, one per line"},
      {"rerank m.gguf where is it",
       "too many arguments; put quotes around a text of several words, and --document before each document"},
      {"infer m.gguf 'a cat' 'a dog'", "one text is taken; --prompts reads several from a file, one per line"},
      {"infer m.gguf see the 'foo bar'", "too many arguments; put quotes around a text of several words"},
      {"infer m.gguf --lora ad Once upon a time", "too many arguments; put quotes around a text of several words"},
      {"train from-scratch -c 512 --corpus book.txt",
       "unknown option '-c'; `toy train from-scratch --help-all` shows all"},
      {"infer models/m.gguf hi",
       "models/m.gguf: no such file, no run below this folder, and no model of `toy list`; check the path"},
      {"embed m.gguf a cat",
       "too many arguments; put quotes around a text of several words, or give several with --file"},
      {"merge m.gguf ad merged.gguf",
       "adapter and result follow options; write toy merge m.gguf --lora ad --out merged.gguf"},
      {"train from-scratch --tiny --corpus book.txt", "unknown option '--tiny'; did you mean --size tiny?"},
      {"train from-scratch -c none.json", "none.json: no such file; check the path"},
      {"train lora --tokenizer bpe:512", "unknown option '--tokenizer'; the model keeps its own; leave it out"},
      {"runs tensorboard",
       "there is no `toy runs tensorboard`; toy train --tensorboard FOLDER writes files for it; "
       "toy runs report draws a run"},
  });
  const Result both = toy("train from-scratch" + std::string(kSmall) + "--dry-run --corpus " + path("book.txt") + " " +
                          path("more.txt"));  // as a shell makes it of *.txt
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_NE(both.out.find(path("book.txt") + ", " + path("more.txt")), std::string::npos) << both.out;
  EXPECT_NE(toy("infer m.gguf --file book.txt").err.find("toy: --file is --prompt-file here\n"), std::string::npos);
  EXPECT_NE(toy("runs ls " + path("")).err.find("'ls' is `toy runs list` here"), std::string::npos);
}

TEST_F(Mistakes, SizesOfVocabularies) {
  const std::string train = "tokenizer train --corpus " TOY_SOURCE_DIR "/README.md --out " + path("v.gguf");
  const auto tells = [&](const std::string& options, const std::string& what) {
    const Result r = toy(train + options);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find("toy: --vocab-size 300 is --tokenizer " + what + " here\n300 tokens\n"), std::string::npos)
        << options << "\n"
        << r.err;
  };
  tells(" --vocab-size 300", "spm:300");
  tells(" --vocab_size=300 --tokenizer=bpe", "bpe:300");
  tells(" --tokenizer bpe --vocab-size 300", "bpe:300");
}

TEST_F(Mistakes, SwappedAndMissingArguments) {
  write("book.txt", "Once there was a badger. It slept all winter, and it woke in spring.\n");
  write("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  fs::create_directories(path("notes"));
  ASSERT_EQ(std::system(("cd " + path("") + " && " + TOY_BINARY + " train from-scratch --corpus book.txt" + kSmall +
                         ">out.log 2>err.log")
                            .c_str()),
            0);
  ASSERT_EQ(toy("train from-scratch --data " + path("chats.jsonl") +
                " --chat-template chatml --tokenizer bytes --size tiny --steps 1 --batch 1 --tokens 64 --out " +
                path("out/chat"))
                .code,
            0);
  expect({
      {"data show out/tiny chats.jsonl", "'out/tiny' is a model; write toy data show chats.jsonl --model out/tiny"},
      {"infer out/tiny --prompt Once upon a time", "a text of several words needs quotes: --prompt 'Once upon a time'"},
      {"eval out/tiny",
       "there is nothing to score; write toy eval out/tiny --file TEXT, or --data for rows or pictures"},
      {"eval", "MODEL is missing; write toy eval MODEL --file TEXT"},
      {"convert out/tiny",
       "OUT is missing (NAME.gguf to write; any other name is a Hugging Face folder); write toy convert out/tiny OUT"},
      {"serve out/tiny --api-key-file sk-secret",
       "--api-key-file takes a file with one key per line, and 'sk-secret' is none; write echo KEY > keys.txt and "
       "--api-key-file keys.txt"},
      {"search build notes --out n.index",
       "'notes' is no model, and the model comes first; write toy search build MODEL notes"},
      {"merge out/tiny merged.gguf",
       "the adapter is missing; write toy merge out/tiny --lora ADAPTER --out merged.gguf"},
      {"eval generate out/tiny chats.jsonl",
       "chats.jsonl:1: there is neither 'answer' nor 'answers'; move the text of the last message to a field "
       "'answer' (toy eval MODEL --data FILE scores rows as they are)"},
      {"train dpo --model out/chat --data chats.jsonl",
       "chats.jsonl:1: it states no preference; a row is {\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}, and "
       "toy train lora learns conversations"},
      {"train from-scratch --corpus book.txt" + std::string(kSmall),
       "out: 'out/tiny/model.gguf' is of an earlier run and would be lost; choose another --out, or add --overwrite to "
       "replace it"},
  });
  ASSERT_EQ(std::system(
                ("cd " + path("") + " && " + TOY_BINARY + " train --resume --out out/tiny >out.log 2>err.log").c_str()),
            0);
  EXPECT_NE(slurp(path("err.log")).find("; toy train warm-start --init out/tiny --corpus book.txt --out out/tiny-2 "),
            std::string::npos);
  EXPECT_NE(
      toy("infer " + path("out/tiny") + " a -n 1 --threads 1000").err.find("toy: --threads 1000 would be slow on "),
      std::string::npos);
  EXPECT_EQ(toy("infer " + path("out/tiny") + " a -n 1 --threads 2").err.find("be slow on"), std::string::npos);
}

}  // namespace
