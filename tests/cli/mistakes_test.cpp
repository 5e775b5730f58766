// Mistakes that people make from the README, and what they read: what is wrong, and what to do.
#include <gtest/gtest.h>

#include "mistakes_fixture.h"

namespace {

TEST_F(Mistakes, BeforeThereIsAModel) {
  write("book.txt", "Once there was a badger.\n");
  write("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  fs::create_directories(path("My Books"));
  write("My Books/a book.txt", "Once there was a badger.\n");
  const std::string no_model = ": no such file, no run below this folder, and no model of `toy list`; ";
  expect({
      {"trian", "unknown command 'trian'; did you mean 'train'?"},
      {"--steps 5 train from-scratch --corpus book.txt",
       "--steps comes before its command; write it after that: toy train from-scratch --steps ..."},
      {"train book.txt", "'book.txt' is no recipe; did you mean `toy train from-scratch --corpus book.txt`?"},
      {"train chats.jsonl", "'chats.jsonl' is no recipe; did you mean `toy train from-scratch --data chats.jsonl`?"},
      {"train from-scratch chats.jsonl", "'chats.jsonl' is no option; did you mean --data chats.jsonl?"},
      {"train from-scratch --corpus My Books/a book.txt", "a path with spaces needs quotes: 'My Books/a book.txt'"},
      {"train from-scratch --corpus=My Books/a book.txt", "a path with spaces needs quotes: 'My Books/a book.txt'"},
      {"train from-scratch --corpus book.txt --lr 0,004", "--lr is '0,004'; use a finite number such as 0.004"},
      {"train from-scratch --corpus book.txt --gpu",
       "unknown option '--gpu'; --device cuda computes on a GPU (toy devices shows what this machine has)"},
      {"train from-scratch --text hello",
       "unknown option '--text'; --corpus takes a file or a folder; write the text into a file"},
      {"infer 'Once upon' book.gguf",
       "Once upon: no such file, no run below this folder, and no model of `toy list`; the model is the first "
       "argument, "
       "and a text comes after it"},
      {"chat --url 127.0.0.1:8080 hi", "--url is '127.0.0.1:8080'; write http://127.0.0.1:8080"},
      {"convert a b.gguf --type q4", "--type is 'q4'; use f32, f16 or bf16; toy quantize writes quantized types"},
      {"train --corpus book.txt",
       "--corpus is an option of `toy train from-scratch`; write toy train from-scratch --corpus book.txt"},
      {"train from_scratch --corpus book.txt", "unknown recipe 'from_scratch'; did you mean 'from-scratch'?"},
      {"train from-scratch", "--corpus is missing: give a file or a folder of text, or examples with --data"},
      {"train from-scratch book.txt", "'book.txt' is no option; did you mean --corpus book.txt?"},
      {"train from-scratch bok.txt", "'bok.txt' is one argument too many; `toy train from-scratch` takes none"},
      {"train from-scratch --corpus bok.txt", "bok.txt: no such file; did you mean 'book.txt'?"},
      {"train from-scratch --corpus book.txt --epochs 3 --steps 5",
       "--steps and --epochs exclude each other; give one of them"},
      {"train from-scratch --corpus book.txt --tokenizer spm",
       "tokenizer \"spm\": the number of its tokens is missing; write spm:512, say"},
      {"train from-scratch --corpus book.txt --schedule cosin",
       "--schedule: there is no 'cosin'; did you mean 'cosine'?"},
      {"train from-scratch --corpus book.txt --layers 3", "layers: there is no '3'; did you mean 'attn*3'?"},
      {"train from-scratch --corpus book.txt --load-in-4bit",
       "unknown option '--load-in-4bit'; quantize the file first: toy quantize MODEL OUT --type Q4_K_M"},
      {"serve book.gguf --temp 0.5", "unknown option '--temp'; each request says how it is sampled"},
      {"serve book.gguf --api-key secret",
       "unknown option '--api-key'; other users could read the key (ps); write it into a file: --api-key-file FILE"},
      {"serve book.gguf -ngl 99", "unknown option '-ngl'; all layers run on --device; leave it out"},
      {"train from-scratch --corpus book.txt --steps 2k", "--steps is '2k'; use a whole number, such as 2000"},
      {"train from-scratch --corpus book.txt --size tinny", "there is no size 'tinny'; did you mean 'tiny'?"},
      {"train from-scratch --corpus book.txt --learning-rate x",
       "--lr is 'x'; use a finite number such as 0.1 or 1e-3"},
      {"train from-scratch --corpus book.txt --chat-template chatml",
       "chat-template: it says how rows of --data are read, and there are none; give a file with --data"},
      {"train from-scratch --data book.txt",
       "book.txt: a plain text, and no rows of JSON; --corpus book.txt trains on it, toy eval MODEL --file book.txt "
       "scores it"},
      {"train from-scratch --data chats.jsonl",
       "chats.jsonl:1: messages need a chat template, and the model has none; add --chat-template plain (or zephyr)"},
      {"train from-scratch --data chats.jsonl --chat-template chatlm",
       "chat-template: 'chatlm' is no file and none of chatml, llama3, plain, zephyr; did you mean 'chatml'?"},
      {"train lora --corpus book.txt",
       "--model is missing (GGUF file, name in `toy list`, or a run, with a tokenizer); see `toy train lora --help`"},
      {"train lora --model out/tiny --corpus book.txt",
       "out/tiny" + no_model + "toy train ... --out of that name makes one; or go to the folder where you trained"},
      {"train from-scratch --corpus --size tiny",
       "--corpus has no value: what follows is the option --size; give one, or write --corpus=VALUE for a value that "
       "looks so"},
      {"train from-scratch \u2014corpus book.txt", "'\u2014corpus' begins with a typographic dash; write --corpus"},
      {"train from-scratch --corpus book.txt \u2013batch_size 4",
       "'\u2013batch_size' begins with a typographic dash; write --batch_size"},
      {"train --resume", "resume: 'out' has no config.json with the options of a run; give the recipe and its options"},
      {"infer",
       "MODEL is missing (GGUF file, run or its id, name in `toy list`, or Hugging Face folder); see `toy infer "
       "--help`"},
      {"infer llama3 --prompt hi", "llama3" + no_model + "`toy fetch OWNER/REPO` downloads one"},
      {"run llama3 hi", "llama3" + no_model + "`toy fetch OWNER/REPO` downloads one"},
      {"infer book.gguf --prompt hi", "book.gguf" + no_model + "check the path"},
      {"infer book.txt --prompt hi",
       "book.txt: not a GGUF file: it starts with 'Once', not 'GGUF'; it looks like a text file; give a .gguf file, a "
       "run, or a folder of Hugging Face"},
      {"infer book.txt --promt hi", "unknown option '--promt'; did you mean '--prompt'?"},
      {"infer book.txt Once upon", "too many arguments; put quotes around a text of several words"},
      {"eval book.txt book.txt", "'book.txt' is no option; did you mean --file book.txt?"},
      {"list me", "'me' is one argument too many; `toy list` takes none"},
      {"fetch llama3",
       "'llama3' is not the name of a repository; use OWNER/REPO, as on huggingface.co, such as "
       "HuggingFaceTB/SmolLM2-135M-Instruct, or `ollama pull`, whose models `toy list` finds"},
      {"corpus story", "unknown corpus command 'story'; use one of stories, chats, qa, shapes, floor, ngram"},
      {"serve book.txt --port http", "--port is 'http'; use a whole number: Port to listen on; 0 takes a free one"},
  });
}

// Words of other programs, and options that belong elsewhere.
TEST_F(Mistakes, OfOtherPrograms) {
  write("book.txt", "Once there was a badger.\n");
  write("config.yaml", "batch: 4\n");
  write("config.json", R"({"learning_rate": 0.1})");
  write("many.json", R"({"steps": "many"})");
  write("page.gguf", "<!DOCTYPE html><html></html>");
  write("Modelfile", "FROM ./tiny.gguf\n");
  fs::create_directories(path("My Books"));
  const std::string no_model = ": no such file, no run below this folder, and no model of `toy list`; ";
  expect({
      {"train lora --corpus book.txt --qlora",
       "unknown option '--qlora'; lora trains a quantized model as it is: toy quantize MODEL OUT --type Q4_K_M"},
      {"train lora --corpus book.txt --lora x",
       "unknown option '--lora'; a new adapter begins from a model; add the old one to it: toy merge MODEL --lora FILE "
       "--out OUT"},
      {"infer book.txt hello -ngl 99", "unknown option '-ngl'; all layers run on --device; leave it out"},
      {"infer book.txt -p a -p b", "--prompt is given twice; remove one, or give several prompts with --prompts FILE"},
      {"infer book.txt hello --stop --threads 1",
       "--stop has no value: what follows is the option --threads; give one"},
      {"infer book.txt hello --samplers top_k,temp",
       "--samplers is 'top_k,temp'; write ; between its steps, not a comma"},
      {"eval --model book.txt --tasks hellaswag",
       "unknown option '--tasks'; toy eval choices MODEL FILE scores the questions of a file, such as "
       "hellaswag_val.jsonl of github.com/rowanz/hellaswag (toy help evaluation.md)"},
      {"train lora --train x --tokens 2",
       "--model is missing (GGUF file, name in `toy list`, or a run, with a tokenizer); see `toy train lora --help`"},
      {"train from-scratch --n_embd 5",
       "unknown option '--n_embd'; --size takes a name such as small, or a JSON file such as {\"d_model\": "
       "384, \"n_layers\": 6, \"n_heads\": 6, \"d_ff\": 1024} (toy help model-keys.md)"},
      {"train from-scratch --corpus book.txt --wandb",
       "unknown option '--wandb'; the folder of a run keeps all of it: toy runs report FOLDER draws it, --json prints "
       "it for programs"},
      {"train from-scratch --corpus book.txt --eval_iters 9",
       "unknown option '--eval_iters'; --eval-tokens says how many tokens are scored"},
      {"train from-scratch --corpus book.txt config.json",
       "'config.json' is no option; did you mean --config config.json?"},
      {"train from-scratch --corpus book.txt --batch 8,16",
       "--batch is '8,16'; use a whole number: Sequences per step"},
      {"train from-scratch --corpus book.txt --batch 1MB", "--batch is '1MB'; use a whole number, such as 1000000"},
      {"train from-scratch --corpus book.txt --resume false", "--resume is a switch; write --resume=false"},
      {"train from-scratch --corpus https://a.org/b.txt",
       "https://a.org/b.txt: it is an address; download it first, such as with curl -O, and give the file"},
      {"train from-scratch --model x",
       "unknown option '--model'; a new model begins from nothing; toy train warm-start --init FILE trains one "
       "further, toy train lora --model FILE an adapter of it"},
      {"train dpo --ref-model x",
       "unknown option '--ref-model'; the reference is the model without its adapter; leave it out"},
      {"train ppo", "there is no `toy train ppo`; toy train grpo learns from rewards, without a value model"},
      {"train orpo",
       "--model is missing (GGUF file, name in `toy list`, or a run, with a tokenizer); see `toy train dpo --help`"},
      {"train config.json",
       "'config.json' is no recipe; a file of options belongs to one: toy train lora --config config.json"},
      {"infer book.txt hello --chat",
       "unknown option '--chat'; infer continues a text; toy chat MODEL TEXT talks to a model"},
      {"infer book.txt hello -o x", "unknown option '-o'; the text goes to stdout: > FILE writes it into a file"},
      {"chat book.txt -p hello", "unknown option '-p'; the message comes after the model: toy chat MODEL TEXT"},
      {"embed book.txt -p hello", "unknown option '-p'; the text comes after the model: toy embed MODEL TEXT"},
      {"describe book.txt --out x.svg", "unknown option '--out'; > FILE keeps what is printed"},
      {"describe --graph", "--graph has no value; give train, forward or decode (Print the ops with their costs)"},
      {"search book.txt book.txt",
       "'book.txt' is no command; toy search build MODEL FOLDER --out INDEX comes first, then toy search query INDEX "
       "TEXT"},
      {"search query book.index where is it", "too many arguments; put quotes around a text of several words"},
      {"data book.txt",
       "'book.txt' is no command; toy data show FILE --model MODEL prints its rows as a model sees them, toy data "
       "check FILE looks for faults"},
      {"eval book.txt --file book.txt --data book.txt", "--file and --data exclude each other; give one of them"},
      {"push book.txt", "there is no `toy push`; toy uploads nothing; hf upload does"},
      {"stop", "there is no `toy stop`; toy runs stop FOLDER stops a run with a checkpoint, Ctrl-C what runs here"},
      {"help infrence", "unknown command 'infrence'; did you mean 'infer'?"},
      {"runs delete out/tiny", "there is no `toy runs delete`; a run is a folder: rm -r FOLDER"},
      {"corpus stories 1000", "'1000' is one argument too many; did you mean --bytes 1000?"},
      {"corpus chats --bytes 1000", "unknown option '--bytes'; --rows says how many"},
      {"corpus shapes --rows 3", "unknown option '--rows'; --images says how many"},
      {"bench machine tiny.gguf",
       "'tiny.gguf' is one argument too many; `toy bench machine` takes none, and `toy bench infer` a model"},
      {"list --model-dir /x",
       "unknown option '--model-dir'; a model anywhere is given by its path; HF_HUB_CACHE and OLLAMA_MODELS name the "
       "caches of Hugging Face and Ollama"},
      {"quantize book.txt Q4_K_M",
       "'Q4_K_M' is a type, and OUT is missing; write toy quantize book.txt OUT.gguf --type Q4_K_M"},
      {"search build book.txt --out i.index",
       "'book.txt' is no model, and the model comes first; write toy search build MODEL book.txt"},
      {"infer HuggingFaceTB/SmolLM2-135M-Instruct hi",
       "HuggingFaceTB/SmolLM2-135M-Instruct" + no_model +
           "`toy fetch HuggingFaceTB/SmolLM2-135M-Instruct` downloads a repository of the Hugging Face hub"},
      {"infer smollm2:135m hi",
       "smollm2:135m" + no_model +
           "the name is one of Ollama, whose models are found here after `ollama pull`, or use `toy fetch OWNER/REPO` "
           "such as HuggingFaceTB/SmolLM2-135M-Instruct"},
      {"infer nope.gguf hi", "nope.gguf" + no_model + "check the path"},
      {"infer page.gguf hi",
       "page.gguf: not a GGUF file: it starts with '<!DO', not 'GGUF'; it is a web page; download the file itself "
       "again"},
      {"infer Modelfile hi",
       "Modelfile: not a GGUF file: it starts with 'FROM', not 'GGUF'; it looks like a Modelfile of Ollama; give the "
       "model that its line FROM names"},
      {"train --resume --out out/nothere", "resume: there is no folder 'out/nothere'"},
      {"train from-scratch --corpus book.txt --config config.json",
       "config.json: unknown key 'learning_rate'; did you mean 'lr'?"},
      {"train from-scratch --corpus book.txt --config config.yaml",
       "config.yaml: options are read from JSON; write one object with all of them, such as {\"corpus\": "
       "\"book.txt\", \"steps\": 500, \"lr\": 1e-3}"},
      {"train from-scratch --corpus book.txt --config many.json", "many.json: 'steps' is 'many'; use a whole number"},
      {"infer book.txt hi --json-schema '{\"type\": \"object\"}'",
       "--json-schema is '{\"type\": \"object\"}'; write the JSON into a file and give its name"},
      {"train from-scratch --corpus book.txt,config.json",
       "--corpus is 'book.txt,config.json'; files are not separated by commas, repeat the option"},
      {"fetch https://huggingface.co/ggml-org/models/resolve/main/tinyllamas/stories260K.gguf",
       "'https://huggingface.co/ggml-org/models/resolve/main/tinyllamas/stories260K.gguf' is an address; write toy "
       "fetch ggml-org/models tinyllamas/stories260K.gguf"},
      {"embed book.txt hi --out v.json",
       "--out is 'v.json', but the file is one of NumPy; use a name that ends with .npy, or print with --json"},
      {"eval book.txt --file nope.txt",
       "book.txt: not a GGUF file: it starts with 'Once', not 'GGUF'; it looks like a text file; give a .gguf file, a "
       "run, or a folder of Hugging Face"},
      {"tokenizer train --corpus book.txt --out v.json",
       "--out is 'v.json', but the file is a GGUF file; use a name that ends with .gguf"},
      {"train from-scratch --corpus https://example.com/book.txt",
       "https://example.com/book.txt: it is an address; download it first, such as with curl -O, and give the file"},
      {"train from-scratch --corpus '~/book.txt'",
       "~/book.txt: no such file; the shell replaces ~ only where a word begins with it, without quotes"},
      {"train from-scratch --corpus 'books/*.txt'",
       "books/*.txt: no such file; the shell replaces * only in a word of its own, without quotes, where files fit"},
      {"train from-scratch --corpus book", "book: no such file; did you mean 'book.txt'?"},
      {"train from-scratch --corpus book.txt --size 'My Books'",
       "size: 'My Books' is a folder; use a name such as tiny, or a JSON file of dimensions (toy train warm-start "
       "--init 'My Books' begins with the weights of a run)"},
      {"data show book.txt --model book.txt --map reply=completion",
       "book.txt: not a GGUF file: it starts with 'Once', not 'GGUF'; it looks like a text file; give a .gguf file, a "
       "run, or a folder of Hugging Face"},
  });
  EXPECT_EQ(toy("infer help").code, 0);
}

TEST_F(Mistakes, WithAModel) {
  write("book.txt", tiny_corpus());
  write("u16.txt", std::string("\xff\xfe"
                               "a\0b\0",
                               6));
  write("photo.png", std::string("\x89PNG\r\n\x1a\n\0\0", 10));
  const std::string bytes = ", or give it as standard input (-) to take its bytes";
  fs::create_directories(path("My Books"));
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("out/tiny")).code,
            0);
  expect({
      {"infer out/tny --prompt hi",
       "out/tny: no such file, no run below this folder, and no model of `toy list`; did you mean 'out/tiny'?"},
      {"infer out --prompt hi", "out: a folder of runs; give one of out/tiny"},
      {"infer out/tiny",
       "prompt: it is missing or empty; give a text, such as --prompt \"Once upon a time\", or --prompt-file - for "
       "standard input"},
      {"infer out/tiny --prompt Once upon a time", "a text of several words needs quotes: --prompt 'Once upon a time'"},
      {"train --resume out/tiny", "--resume takes no value; the run to resume is --out: --resume --out out/tiny"},
      {"train --resume out/tiny/checkpoints/step_000001/",
       "--resume takes no value; the run to resume is --out: --resume --out out/tiny"},
      {"train --resume out/tiny/checkpoints/",
       "--resume takes no value; the run to resume is --out: --resume --out out/tiny"},
      {"train --resume --out out/tiny/checkpoints/step_000001",
       "--out has checkpoints of out/tiny, the newest of which is resumed with --resume --out out/tiny"},
      {"eval out/tiny --metric bleu",
       "unknown option '--metric'; it gives loss and perplexity; toy eval generate compares answers"},
      {"train classify --model out/tiny --data x --num_labels 2",
       "unknown option '--num_labels'; the rows of --data say which classes there are; leave it out"},
      {"eval out/tiny --prompt hi",
       "unknown option '--prompt'; --file scores the text of a file, and --file - reads standard input"},
      {"chat out/tiny --message hi",
       "unknown option '--message'; the message comes after the model: toy chat MODEL TEXT"},
      {"tokenizer encode out/tiny 'Once upon'", "'Once upon' is no option; did you mean --text 'Once upon'?"},
      {"quantize out/tiny q.gguf --type 4bit",
       "quantize: there is no type '4bit'; did you mean Q4_0, Q4_1, Q4_K_S or Q4_K_M?"},
      {"merge --base out/tiny --out m.gguf", "merge: there is nothing to merge; add --lora FILE"},
      {"infer out/tiny --prompt hi --draft ngrm", "--draft is 'ngrm'; did you mean 'ngram'?"},
      {"infer out/tiny --prompt hi --temp hot", "--temperature is 'hot'; use a finite number such as 0.1 or 1e-3"},
      {"quantize out/tiny q.gguf", "--type is missing; use e.g. --type Q4_K_M"},
      {"train full-finetune --model out/tiny --corpus book.txt --tokens 16 --freeze '*'",
       "freeze: nothing would be trained; freeze fewer tensors"},
      {"train warm-start --init out/tiny --size tiny --corpus book.txt",
       "--size belongs to --donor, or to toy train from-scratch; with --init, leave it out"},
      {"quantize out/tiny q.gguf q4_k_m", "'q4_k_m' is one argument too many; did you mean --type q4_k_m?"},
      {"infer out/tiny --prompt \u201cOnce upon\u201d",
       "too many arguments; the shell knows only the quotes \" and ', and not those of '\u201cOnce'"},
      {"eval out/tiny --file book.txt --top-k 3", "unknown option '--top-k'; `toy eval --help-all` shows all"},
      {"infer out/tiny \u201cOnce upon\u201d",
       "too many arguments; the shell knows only the quotes \" and ', and not those of '\u201cOnce'"},
      {"look out/tiny --prompt hi --out look.png",
       "--out is 'look.png', but the file is a page of HTML; use a name that ends with .html"},
      {"runs report out/tiny --out r.pdf",
       "--out is 'r.pdf', but the file is a page of HTML; use a name that ends with .html"},
      {"runs compare out/tiny", "compare: there is one run; name a second one, or use `toy runs show`"},
      {"eval choices book.txt out/tiny", "'out/tiny' is a model, and 'book.txt' is none; exchange the two"},
      {"eval generate book.txt out/tiny", "'out/tiny' is a model, and 'book.txt' is none; exchange the two"},
      {"eval sts book.txt out/tiny", "'out/tiny' is a model, and 'book.txt' is none; exchange the two"},
      {"search build 'My Books' out/tiny --out n.index",
       "'out/tiny' is a model, and 'My Books' is none; exchange the two"},
      {"eval out/tiny --file u16.txt",
       "u16.txt: it is UTF-16; convert it first: iconv -f utf-16 -t utf-8 OLD > NEW" + bytes},
      {"tokenizer encode out/tiny --file photo.png",
       "photo.png: it is a picture; toy train vit learns from folders of pictures" + bytes},
      {"infer out/tiny --prompts u16.txt",
       "u16.txt: it is UTF-16; convert it first: iconv -f utf-16 -t utf-8 OLD > NEW" + bytes},
      {"quantize imatrix out/tiny --corpus u16.txt --out i.imatrix",
       "u16.txt: it is UTF-16; convert it first: iconv -f utf-16 -t utf-8 OLD > NEW" + bytes},
      {"train --resume --out out/tiny --steps 9",
       "resume: the run out/tiny is complete: options.steps is 1 there and 9 here. toy train warm-start --init "
       "out/tiny --corpus " +
           path("corpus.txt") + " --out out/tiny-2 trains its model further"},
      {"infer out/tiny hi --lora book.txt=0.5",
       "lora: 'book.txt=0.5' is no file; write its scale after a colon: book.txt:0.5"},
      {"infer out/tiny hi --lora out/tiny",
       "lora: the run out/tiny made a model, and no adapter; toy infer out/tiny uses it, and toy train lora trains an "
       "adapter"},
      {"infer out/tiny hi --top-p 95", "--top-p is 95; use 0 to 1, such as 0.95 for 95%"},
      {"eval perplexity out/tiny --file book.txt",
       "'perplexity' is what toy eval prints of a text anyway; write toy eval out/tiny --file TEXT"},
      {"eval mmlu out/tiny/model.gguf",
       "there is no `toy eval mmlu`; toy eval choices MODEL FILE scores the questions of a file, such as "
       "hellaswag_val.jsonl of github.com/rowanz/hellaswag (toy help evaluation.md)"},
      {"tokenizer encode hello out/tiny", "'out/tiny' is a model, and 'hello' is none; the model comes first"},
      {"quantize out/tiny --type Q5_0", "OUT is missing; write toy quantize out/tiny OUT.gguf --type Q5_0"},
      {"embed out/tiny --text hi", "unknown option '--text'; the text comes after the model: toy embed MODEL TEXT"},
      {"corpus stories --tokens 9", "unknown option '--tokens'; --bytes says how much"},
      {"chat out/tiny --template nope hi",
       "chat-template: 'nope' is no file and none of chatml, llama3, plain, zephyr"},
      {"describe out/tiny other.gguf", "'other.gguf' is one argument too many; `toy describe` takes MODEL"},
      {"merge out/tiny out/adapter",
       "'out/adapter' is one argument too many; write toy merge out/tiny --lora out/adapter --out FILE"},
      {"merge out/tiny out/adapter --out m.gguf",
       "'out/adapter' is one argument too many; write toy merge out/tiny --lora out/adapter --out m.gguf"},
      {"merge out/tiny --out m.gguf", "merge: there is nothing to merge; add --lora FILE"},
      {"infer hello out/tiny/model.gguf", "'out/tiny/model.gguf' is a model, and 'hello' is none; exchange the two"},
      {"tokenizer encode hello out/tiny/model.gguf",
       "'out/tiny/model.gguf' is a model, and 'hello' is none; the model comes first"},
      {"serve out/tiny out/tiny/model.gguf",
       "'out/tiny/model.gguf' is one model too many; `toy serve` takes one; serve the other one with another --port, "
       "such as 8081"},
      {"--model out/tiny/model.gguf",
       "'out/tiny/model.gguf' is no command; write one first, such as toy infer out/tiny/model.gguf or toy describe "
       "out/tiny/model.gguf"},
      {"convert out/tiny q.GGUF", "OUT is 'q.GGUF'; the name of a GGUF ends with .gguf in small letters"},
      {"convert out/tiny x.safetensors",
       "OUT is 'x.safetensors', but becomes a folder of Hugging Face; did you mean 'x'?"},
      {"quantize out/tiny q.gguf --type Q8_0 --imatrix book.txt",
       "book.txt: no importance matrix: it looks like a text file; toy quantize imatrix MODEL --file TEXT --out FILE "
       "measures one"},
  });
  // A part of the text to validate on, and no file.
  const Result part =
      toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--val=0.2 --steps 1 --out " + path("p"));
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_NE(part.err.find("toy: --val 0.2 is --val-fraction 0.2 here"), std::string::npos) << part.err;
  EXPECT_EQ(toy("infer " + path("out/tiny") + " --prompt hi --length 1").code, 0);
  // A text may begin as an option would.
  for (const char* text : {"\u2014temperature", "--size"})
    EXPECT_EQ(toy("infer " + path("out/tiny") + " -n 1 --prompt '" + text + "'").code, 0) << text;
  for (const char* on : {"1", "TRUE", "yes"})  // forms of a flag
    EXPECT_EQ(toy("infer " + path("out/tiny") + " --prompt hi -n 1 --json=" + on).out.substr(0, 1), "{") << on;
  EXPECT_NE(toy("infer " + path("out/tiny") + " --prompt hi -n 1 --json=0").out.substr(0, 1), "{");
  EXPECT_EQ(toy("convert " + path("out/tiny") + " " + path("o.gguf") + " --type f16").code, 0);
  EXPECT_NE(toy("quantize " + path("out/tiny") + " " + path("q.gguf") + " --type Q4")
                .err.find("there is no type 'Q4'; did you mean Q4_0, Q4_1, Q4_K_S or Q4_K_M?"),
            std::string::npos);
}

// Files that are not what a command reads, and arguments that stand where none is.
TEST_F(Mistakes, OfFilesAndArguments) {
  write("book.txt", tiny_corpus());
  write("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  write("dims.json", R"({"n_layer": 2})");
  write("hf.json", R"({"hidden_size": 64, "num_hidden_layers": 2})");
  write("tokenizer.json", "{}");
  write("config.yaml", "steps: 5\n");
  write("keys.txt", "");
  write("letter.docx", std::string("PK\x03\x04\x14\0\0\0 [Content_Types].xml\0", 29));
  write("asked.jsonl", R"({"prompt": "a", "answer": "b"})"
                       "\n");
  write("quiz.jsonl", R"({"question": "a", "choices": ["b", "c"], "answer": 0})"
                      "\n");
  write("quiz.csv", "prompt,choices,answer\na,\"b,c\",0\n");
  write("asks.jsonl", R"({"messages": [{"role": "user", "content": "a"}], "answer": "b"})"
                      "\n");
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("out/tiny")).code,
            0);
  ASSERT_EQ(toy("train from-scratch --data " + path("chats.jsonl") +
                " --chat-template chatml --size tiny --tokenizer bytes "
                "--batch 2 --tokens 64 --steps 1 --out " +
                path("out/other"))
                .code,
            0);
  fs::copy(path("out/tiny/model.gguf"), path("tiny-model.gguf"));
  const std::string scratch = "train from-scratch --corpus book.txt ";
  const std::string example =
      R"({"prompt": "Question: What is 2 + 2?\nAnswer:", "choices": [" 3", " 4"], "answer": 1})";
  expect({
      {scratch + "--out out/x.gguf", "--out is 'out/x.gguf', but becomes a folder; did you mean 'out/x'?"},
      {scratch + "--tokens 64 --context 32",
       "context is 32, smaller than the window of 64 tokens; use at least as many, or a smaller window (tokens)"},
      {scratch + "--warmup 0.1",
       "--warmup is '0.1'; use a whole number: Steps of linear warmup; -1 takes 5% of --steps, at most 200"},
      {scratch + "--warmup 10%",
       "--warmup is '10%'; use a whole number: Steps of linear warmup; -1 takes 5% of --steps, at most 200"},
      {scratch + "--size dims.json",
       "dims.json: 'd_model' is missing; needed are at least d_model, n_layers, n_heads and d_ff (toy help "
       "model-keys.md)"},
      {scratch + "--size hf.json",
       "hf.json: it is a config.json of Hugging Face; dimensions have other names here (toy help model-keys.md)"},
      {scratch + "--tokenizer tokenizer.json",
       "tokenizer.json: neither a GGUF file nor a SentencePiece .model file; toy convert FOLDER OUT.gguf reads it with "
       "the rest of its folder"},
      {"train from-scratch --corpus letter.docx",
       "letter.docx: it is a document of an office program; save it as plain text first, or use --binary to train on "
       "its bytes"},
      {"train config.yaml",
       "'config.yaml' is no recipe; options are read from JSON, such as {\"steps\": 500}, and belong to one: toy train "
       "lora --config FILE.json"},
      {"train grpo --model out/tiny --data asked.jsonl --reward 'regex:['",
       "reward 'regex:[': a [ has no ]; write \\[ for the character"},
      {"train grpo --model out/tiny --data asked.jsonl --max-tokens 4 --group 2 --questions 1 --steps 1 --reward "
       "'program:nothere --strict'",
       "reward program 'nothere --strict': no such command; give a path such as ./reward.py"},
      {"train grpo --model out/tiny --data asked.jsonl --max-tokens 4 --group 2 --questions 1 --steps 1 --reward "
       "program:./book.txt",
       "reward program './book.txt': it cannot be run; chmod +x allows it"},
      {"train grpo --model out/tiny --data chats.jsonl --reward exact",
       "chats.jsonl:1: there is neither 'answer' nor 'answers'; move the text of the last message to a field "
       "'answer' (toy eval MODEL --data FILE scores rows as they are)"},
      {"train contrastive --model out/tiny --data chats.jsonl --rank 2",
       "--rank is of an adapter; add --adapter, or leave it out"},
      {"train lora --model out/other --data asks.jsonl",
       "asks.jsonl:1: no message is the assistant's (the roles are user), so there is nothing to learn (toy data show "
       "prints rows); questions with an answer are for toy train grpo and toy eval generate; --bad-rows skip passes "
       "over "
       "such rows, toy data check lists them"},
      {"eval retrieval out/tiny chats.jsonl",
       "chats.jsonl:1: there is no 'anchor', and the row has the fields messages; a row is {\"anchor\": ..., "
       "\"positive\": ...}"},
      {"eval retrieval out/tiny book.txt",
       "book.txt: a plain text, and no rows of JSON, such as {\"anchor\": ..., \"positive\": ...}"},
      {"eval sts out/tiny chats.jsonl",
       "chats.jsonl:1: there is no 'sentence1'; a row is {\"sentence1\": ..., \"sentence2\": ..., \"score\": ...}"},
      {"eval choices out/tiny quiz.jsonl",
       "quiz.jsonl:1: the row has the fields question, choices, answer; a question has prompt, choices and answer, "
       "such "
       "as " +
           example + ", or the fields of HellaSwag, ARC, PIQA or WinoGrande"},
      {"eval choices out/tiny quiz.csv", "quiz.csv:2: 'choices' is not a list; write rows as " + example},
      {"eval hellaswag out/tiny",
       "there is no `toy eval hellaswag`; toy eval choices MODEL FILE scores the questions of a file, such as "
       "hellaswag_val.jsonl of github.com/rowanz/hellaswag (toy help evaluation.md)"},
      {"eval kl out/tiny out/other --file book.txt",
       "--base is missing (Model to compare with); did you mean --base out/tiny --model out/other?"},
      {"eval lmc --a out/tiny --b out/other --file book.txt",
       "the models differ: the first has 256 tokens and the second 259; compare models of one tokenizer, such as a "
       "model and its fine-tune"},
      {"infer tiny.gguf hi",
       "tiny.gguf: no such file, no run below this folder, and no model of `toy list`; did you mean "
       "'tiny-model.gguf'?"},
      {"infer out/tiny hi --grammar 'root ::= [0-9]+'",
       "--grammar is 'root ::= [0-9]+'; write the grammar into a file and give its name"},
      {"infer out/tiny --prompts asked.jsonl",
       "asked.jsonl:1: the object has the keys answer, prompt; use {\"prompt\": \"text\"} or {\"prompt_ids\": [1, 2]}; "
       "toy "
       "eval generate asks questions with an answer"},
      {"search query 'where do badgers sleep' book.txt",
       "where do badgers sleep: no such file; the index is the first argument: toy search query book.txt TEXT"},
      {"search query book.txt badgers",
       "book.txt: it is no index; make one with toy search build MODEL FOLDER --out INDEX"},
      {"search build out/tiny book.txt n.index", "--out is missing (The index); did you mean --out n.index?"},
      {"tokenizer train book.txt", "'book.txt' is no option; did you mean --corpus book.txt?"},
      {"data show chats.jsonl out/tiny", "'out/tiny' is one argument too many; did you mean --model out/tiny?"},
      {"serve out/tiny 8095", "'8095' is one argument too many; did you mean --port 8095?"},
      {"serve out/tiny --api-key-file keys.txt", "keys.txt: no API keys found; write one per line"},
      {"bench tiny-model.gguf",
       "'tiny-model.gguf' is no command; toy bench infer tiny-model.gguf measures a model, and toy bench machine this "
       "computer"},
      {"fetch llama3.2:1b",
       "'llama3.2:1b' is not the name of a repository; use OWNER/REPO, as on huggingface.co, such as "
       "HuggingFaceTB/SmolLM2-135M-Instruct, or `ollama pull`, whose models `toy list` finds"},
  });
  const std::string file = path("config.yaml");  // as a system message, and as curl writes it
  EXPECT_NE(toy("chat nowhere hi --system " + file).err.find("'" + file + "' is taken as a text; \"$(cat " + file),
            std::string::npos);
  EXPECT_NE(toy("infer " + path("out/tiny") + " @" + file + " -n 1").err.find("--prompt-file " + file + " reads"),
            std::string::npos);
  EXPECT_NE(toy("chat " + file + " --url http://127.0.0.1:1 hi").err.find(file + " is not loaded"), std::string::npos);
  EXPECT_NE(toy(scratch.substr(0, scratch.find("book")) + path("book.txt") + kSmall + "--val-fraction 0.8 --dry-run")
                .err.find("--val-fraction 0.8 keeps more than half of the text"),
            std::string::npos);
  EXPECT_NE(toy("infer " + path("out/tiny") + " hi -n 1 --temperature 70")
                .err.find("toy: --temperature 70 draws all tokens about equally; 0 to 2 is usual"),
            std::string::npos);
}

}  // namespace
