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
      {"tokenizer train --corpus book.txt --vocab-size 512",
       "unknown option '--vocab-size'; write --corpus FILE --tokenizer bpe:512 for a vocabulary of 512 tokens"},
      {"train vit --data pics --size vit-micro",
       "pics: it has no subfolders; a folder of pictures has one for each class, such as pics/cat/1.png"},
      {"help lorra", "unknown command 'lorra'; did you mean 'train lora'?"},
      {"lorra --model x", "unknown command 'lorra'; did you mean 'train lora'?"},
      {"infer m hi --top-k 0.9", "--top-k is '0.9'; use a whole number; did you mean --top-p 0.9?"},
  });
  const std::string sizes = toy("train from-scratch --corpus " + path("book.txt") + " --size 10M").err;
  EXPECT_NE(sizes.find("there is no size '10M'; use one of tiny 0.2, small 0.8, "), std::string::npos) << sizes;
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
