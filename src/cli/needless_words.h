// Commands, options and values of other programs that `toy` has no counterpart of, and why: tables for synonyms.cpp.
#pragma once

#include <string_view>

namespace toy::cli::others {

// What reinforcement learning does without, and why.
inline constexpr std::string_view kDrawn =
    "answers are drawn at temperature 1 from all tokens, because training learns the probabilities that they are drawn "
    "with";
inline constexpr std::string_view kConstrained =
    "a constraint changes the probabilities that training learns; --reward json:FILE judges finished answers instead";
inline constexpr std::string_view kOtherBits =
    "the probabilities that answers are drawn with would have other bits than training's; both are in f32 and drop "
    "nothing";

// Sizes of a model, which are not single options.
inline constexpr std::string_view kSizes =
    "--size takes a name such as small, or a JSON file such as {\"d_model\": 384, \"n_layers\": 6, \"n_heads\": 6, "
    "\"d_ff\": 1024} (toy help model-keys.md)";
inline constexpr std::string_view kSizesOfPictures =
    "--size takes the name of a size or a JSON file with its numbers (toy help images.md)";
inline constexpr std::string_view kSizeNames[] = {"--n-embd",
                                                  "--hidden-size",
                                                  "--d-model",
                                                  "--dim",
                                                  "--embed-dim",
                                                  "--n-layer",
                                                  "--n-layers",
                                                  "--num-layers",
                                                  "--depth",
                                                  "--width",
                                                  "--hidden",
                                                  "--heads",
                                                  "--n-head",
                                                  "--n-heads",
                                                  "--num-heads",
                                                  "--num-attention-heads",
                                                  "--num-hidden-layers",
                                                  "--kv-heads",
                                                  "--n-kv-heads",
                                                  "--num-key-value-heads",
                                                  "--ffn",
                                                  "--d-ff",
                                                  "--intermediate-size",
                                                  "--rope-theta",
                                                  "--tie-word-embeddings",
                                                  "--arch",
                                                  "--architecture",
                                                  "--family",
                                                  "--model-type"};
inline constexpr std::string_view kTypes = "write --compute bf16 to multiply in bf16";
inline constexpr std::string_view kStored =
    "weights stay as the file has them; toy convert --type or toy quantize changes them";
inline constexpr std::string_view kReports =
    "the folder of a run keeps all of it: toy runs report FOLDER draws it, --json prints it for programs";
inline constexpr std::string_view kModels =
    "a model anywhere is given by its path; HF_HUB_CACHE and OLLAMA_MODELS name the caches of Hugging Face and Ollama";
inline constexpr std::string_view kChats = "infer continues a text; toy chat MODEL TEXT talks to a model";
inline constexpr std::string_view kQuestions =
    "toy eval choices MODEL FILE scores the questions of a file, such as hellaswag_val.jsonl of "
    "github.com/rowanz/hellaswag (toy help evaluation.md)";
inline constexpr std::string_view kFetched =
    "files go where programs of Hugging Face keep them (HF_HUB_CACHE), and their paths are printed; copy from there";
inline constexpr std::string_view kProgress = "progress goes to stderr, and 2> /dev/null hides it";

inline constexpr std::string_view kRanks =
    "mpirun -np N toy train ... trains on several machines (toy help many-machines.md)";
inline constexpr std::string_view kBenchRanks = "mpirun -np N toy bench train ... measures several processes";

// What names the fields of rows: of chats and texts, of preferences, of pairs, of classes.
inline constexpr std::string_view kMapPrompt = "--map prompt=NAME,completion=NAME names the fields";
inline constexpr std::string_view kMapText = "--map text=NAME names the field";
inline constexpr std::string_view kMapPreferences = "--map prompt=NAME,chosen=NAME,rejected=NAME names the fields";
inline constexpr std::string_view kMapPairs = "--map anchor=NAME,positive=NAME names the fields";
inline constexpr std::string_view kMapClasses = "--map text=NAME,label=NAME names the fields";

inline constexpr std::string_view kDevices =
    "all devices are listed; to compute on one: toy infer MODEL --device cuda, say";
inline constexpr std::string_view kFetch = "toy fetch OWNER/REPO downloads a model, and then its name is enough";
inline constexpr std::string_view kTogether = "how much is computed together needs no option; leave it out";
inline constexpr std::string_view kTalks = "toy chat MODEL talks until you end it; leave it out";
inline constexpr std::string_view kAdam = "write --optimizer 'adamw(beta1=0.9,beta2=0.95)'";
inline constexpr std::string_view kOnlyAnswers =
    "only answers count unless --train-on all says otherwise; leave it out";
inline constexpr std::string_view kRecomputes = "--memory SIZE recomputes activations where it has to";
inline constexpr std::string_view kKind = "--tokenizer bpe:512 says the kind and the number of tokens";
inline constexpr std::string_view kVectors = "vectors have length 1 unless --raw is given; leave it out";
inline constexpr std::string_view kTls = "--tls-cert and --tls-key take PEM files";
inline constexpr std::string_view kFiles = "files are named after the repository: toy fetch OWNER/REPO '*Q4_K_M*'";
inline constexpr std::string_view kSystemFile = "--system \"$(cat FILE)\" takes the text of a file";

// Options of other programs that have no counterpart, and why; `of`: only where the command has this option; `in`: only
// of this command ("train vit") and those of its group ("train"). What a reason names has to be there. The first
// counts.
struct Needless {
  std::string_view theirs, reason, of = {}, in = {};
};
inline constexpr Needless kNeedless[] = {
    {"--repeat", "--steps says how often", "--steps", "bench"},
    {"--repeats", "--steps says how often", "--steps", "bench"},
    {"-hf", kFetch},
    {"-hfr", kFetch},
    {"--hf-repo", kFetch},
    {"--hf", kFetch},
    {"-b", kTogether, "--kv"},
    {"-ub", kTogether, "--kv"},
    {"--ubatch-size", kTogether, "--kv"},
    {"--batch", "--prompts FILE --parallel N generates N texts at once", "--prompts", "infer"},
    {"--batch-size", "--prompts FILE --parallel N generates N texts at once", "--prompts", "infer"},
    {"--batch", "--parallel says how many sequences are decoded at once", "--decode", "bench"},
    {"--batch-size", "--parallel says how many sequences are decoded at once", "--decode", "bench"},
    {"--batch", kTogether, "--kv"},
    {"--batch-size", kTogether, "--kv"},
    {"--color", "a terminal has colors anyway, and NO_COLOR=1 turns them off; leave it out"},
    {"--lora-scaled", "--lora FILE:SCALE scales an adapter", "--lora"},
    {"-ctk", "--kv says how keys and values are stored, such as --kv q8_0", "--kv"},
    {"-ctv", "--kv says how keys and values are stored, such as --kv q8_0", "--kv"},
    {"--cache-type-k", "--kv says how keys and values are stored, such as --kv q8_0", "--kv"},
    {"--cache-type-v", "--kv says how keys and values are stored, such as --kv q8_0", "--kv"},
    {"--rope-freq-base", "the model's file says how positions are turned; leave it out", "--kv"},
    {"--rope-freq-scale", "the model's file says how positions are turned; leave it out", "--kv"},
    {"--rope-scaling", "the model's file says how positions are turned; leave it out", "--kv"},
    {"--num-beams", "there is no beam search; --temperature 0 takes the likeliest token", "--samplers"},
    {"--best-of", "another --seed draws another text", "--prompts"},
    {"--echo", "only what follows the prompt is printed; leave it out", "--prompts"},
    {"--max-length", "--n says how many tokens follow the prompt", "--prompts"},
    {"--log-disable", kProgress},
    {"-ngl", "all layers run on --device; leave it out", "--device"},
    {"--n-gpu-layers", "all layers run on --device; leave it out", "--device"},
    {"--gpu-layers", "all layers run on --device; leave it out", "--device"},
    {"--tensor-parallel-size", "a model runs on one device"},
    {"-tp", "a model runs on one device"},
    {"--gpu-memory-utilization", "--ctx and --parallel decide on the memory", "--parallel", "serve"},
    {"--gpu-memory-utilization", "--memory SIZE limits the memory", "--memory", "train"},
    {"--gpu-memory-utilization", "a device's memory is taken as it is needed; leave it out", "--device"},
    {"--flash-attn", "attention never stores its scores"},
    {"-fa", "attention never stores its scores"},
    {"--gpu", "--device cuda computes on a GPU (toy devices shows what this machine has)", "--device"},
    {"--gpu", kDevices, {}, "devices"},
    {"--cuda", kDevices, {}, "devices"},
    {"--device", kDevices, {}, "devices"},
    {"--list", kDevices, {}, "devices"},
    {"--system-file", kSystemFile, "--system", "chat"},
    {"--system-prompt-file", kSystemFile, "--system", "chat"},
    {"-sysf", kSystemFile, "--system", "chat"},
    {"--cuda", "--device cuda computes on a GPU (toy devices shows what this machine has)", "--device"},
    {"--text", "--corpus takes a file or a folder; write the text into a file", "--corpus"},
    {"--prompt", "--file scores the text of a file, and --file - reads standard input", "--stride"},
    {"--message", "the message comes after the model: toy chat MODEL TEXT", "--tool-command"},
    {"--prompt", "the message comes after the model: toy chat MODEL TEXT", "--tool-command"},
    {"-p", "the message comes after the model: toy chat MODEL TEXT", "--tool-command"},
    {"-p", "the text comes after the model: toy embed MODEL TEXT", {}, "embed"},
    {"--prompt", "the text comes after the model: toy embed MODEL TEXT", {}, "embed"},
    {"-i", kTalks, "--tool-command"},
    {"--interactive", kTalks, "--tool-command"},
    {"-cnv", kTalks, "--tool-command"},
    {"--conversation", kTalks, "--tool-command"},
    {"-st", "a message after the model is answered once: toy chat MODEL TEXT", "--tool-command"},
    {"--single-turn", "a message after the model is answered once: toy chat MODEL TEXT", "--tool-command"},
    {"--format", "--json-schema FILE makes answers JSON that fits a schema", "--tool-command"},
    {"--keepalive", "toy serve keeps a model loaded, and toy chat --url ADDRESS talks to it", "--tool-command"},
    {"--sentences", "--file takes several texts, one per line", {}, "embed"},
    {"--normalize", kVectors, "--raw", "embed"},
    {"--normalize-embeddings", kVectors, "--raw", "embed"},
    {"--chunk-overlap", "passages do not overlap; leave it out", "--passage-tokens"},
    {"--mlock", "files are mapped, and the system keeps what is used"},
    {"--no-mmap", "files are always mapped"},
    {"--jinja", "chat templates and tools are always on"},
    {"--enable-auto-tool-choice", "chat templates and tools are always on"},
    {"--tool-call-parser", "the chat template decides how tools are called"},
    {"--reasoning-parser", "the chat template decides how reasoning is told apart"},
    {"--slots", "/slots is always served; leave it out", "--port"},
    {"--metrics", "/metrics is always served; leave it out", "--port"},
    {"--props", "/props is always served; leave it out", "--port"},
    {"--cont-batching", "requests are always computed together; leave it out", "--port"},
    {"-cb", "requests are always computed together; leave it out", "--port"},
    {"--no-webui", "the page at / cannot be turned off; leave it out", "--port"},
    {"--pooling", "each request says it: \"pooling\": \"mean\"", "--port"},
    {"--rerank", "a model that ranks texts serves /v1/rerank anyway; leave it out", "--port"},
    {"--reranking", "a model that ranks texts serves /v1/rerank anyway; leave it out", "--port"},
    {"--cache-reuse", "what requests begin with in common is computed once; leave it out", "--port"},
    {"--workers", "one process serves all; --parallel says how many texts at once", "--port"},
    {"--daemon", "& at the end of the line keeps it in the background", "--port"},
    {"--detach", "& at the end of the line keeps it in the background", "--port"},
    {"--ssl", kTls, "--tls-cert"},
    {"--tls", kTls, "--tls-cert"},
    {"--https", kTls, "--tls-cert"},
    {"--embedding", "embeddings are always served", "--port"},
    {"--embeddings", "embeddings are always served", "--port"},
    {"--verbose", "progress goes to stderr, and --json prints events for programs", "--json", "train"},
    {"--verbose", "progress goes to stderr, and --json prints results for programs", "--json"},
    {"--verbose", "progress goes to stderr anyway; leave it out"},
    {"--bf16", kTypes, "--compute"},
    {"--fp16", kTypes, "--compute"},
    {"--load-in-4bit", "quantize the file first: toy quantize MODEL OUT --type Q4_K_M"},
    {"--qlora", "lora trains a quantized model as it is: toy quantize MODEL OUT --type Q4_K_M", "--rank", "train"},
    {"--qlora", "toy train lora --model FILE trains an adapter of a quantized model as it is", {}, "train"},
    {"--lora", "a new adapter begins from a model; add the old one to it: toy merge MODEL --lora FILE --out OUT",
     "--rank", "train"},
    {"--lora", "make one model of both first: toy merge MODEL --lora FILE --out OUT", {}, "train warm-start"},
    {"--lora", "make one model of both first: toy merge MODEL --lora FILE --out OUT", {}, "train full-finetune"},
    {"--tasks", kQuestions, "--stride"},
    {"--model-dir", kModels},
    {"--models-dir", kModels},
    {"--bytes", "--rows says how many", "--rows", "corpus"},
    {"--bytes", "--images says how many", "--images", "corpus"},
    {"--rows", "--images says how many", "--images"},
    {"--rows", "--bytes says how much", "--bytes", "corpus"},
    {"--tokens", "--bytes says how much", "--bytes", "corpus"},
    {"--tokens", "--rows says how many", "--rows", "corpus"},
    {"--text", "the text comes after the model: toy embed MODEL TEXT", {}, "embed"},
    {"--n", "--limit reads only the first questions", "--limit", "eval"},
    {"-n", "--limit reads only the first questions", "--limit", "eval"},
    {"--num-samples", "--limit reads only the first questions", "--limit", "eval"},
    {"--lora",
     "an index belongs to one model; make one with the adapter in it: toy merge MODEL --lora FILE --out OUT",
     {},
     "search"},
    {"--load-in-8bit", "quantize the file first: toy quantize MODEL OUT --type Q8_0"},
    {"--temp", kDrawn, "--reward"},
    {"--temperature", kDrawn, "--reward"},
    {"--top-p", kDrawn, "--reward"},
    {"--top-k", kDrawn, "--reward"},
    {"--min-p", kDrawn, "--reward"},
    {"--repeat-penalty", kDrawn, "--reward"},
    {"--samplers", kDrawn, "--reward"},
    {"--presence-penalty", kDrawn, "--reward"},
    {"--frequency-penalty", kDrawn, "--reward"},
    {"--logit-bias", kDrawn, "--reward"},
    {"--stop", "an answer ends with the token that ends a turn, or at --max-tokens", "--reward"},
    {"--draft", "drafts have no part in training", "--reward"},
    {"--json-schema", kConstrained, "--reward"},
    {"--grammar", kConstrained, "--reward"},
    {"--compute", kOtherBits, "--reward"},
    {"--kv", kOtherBits, "--reward"},
    {"--dropout", kOtherBits, "--reward"},
    {"--lora-dropout", kOtherBits, "--reward"},
    {"--temp", "each request says how it is sampled", "--port"},
    {"--temperature", "each request says how it is sampled", "--port"},
    {"--top-p", "each request says how it is sampled", "--port"},
    {"--top-k", "each request says how it is sampled", "--port"},
    {"--api-key", "other users could read the key (ps); write it into a file: --api-key-file FILE", "--api-key-file"},
    {"--gradient-checkpointing", kRecomputes, "--memory"},
    {"--use-gradient-checkpointing", kRecomputes, "--memory"},
    {"--gradient-checkpointing-kwargs", kRecomputes, "--memory"},
    {"--save-strategy", "--checkpoint-every N says how often, in steps", "--checkpoint-every"},
    {"--eval-strategy", "--eval-every N says how often, in steps", "--eval-every"},
    {"--evaluation-strategy", "--eval-every N says how often, in steps", "--eval-every"},
    {"--logging-strategy", "--log-every N says how often, in steps", "--log-every"},
    {"--load-best-model-at-end", "checkpoints/best in the folder of the run is the best; leave it out", "--keep"},
    {"--assistant-only-loss", kOnlyAnswers, "--train-on", "train"},
    {"--completion-only-loss", kOnlyAnswers, "--train-on", "train"},
    {"--train-on-responses-only", kOnlyAnswers, "--train-on", "train"},
    {"--neftune-noise-alpha", "embeddings get no noise; leave it out", "--lr", "train"},
    {"--init-from", "--resume with --out FOLDER resumes a run; toy train warm-start --init FILE trains a model further",
     "--resume", "train"},
    {"--betas", kAdam, "--optimizer", "train"},
    {"--adam-beta1", kAdam, "--optimizer", "train"},
    {"--adam-beta2", kAdam, "--optimizer", "train"},
    {"--num-labels", "the rows of --data say which classes there are; leave it out", {}, "train"},
    {"--bias", "the model decides which maps have biases, and adapters have none; leave it out", {}, "train"},
    {"--metric", "it gives loss and perplexity; toy eval generate compares answers", "--stride"},
    {"--texts", "one TEXT comes after the model; --file takes several, one per line", {}, "embed"},
    {"--url", "toy chat --url URL talks to a server", "--prompts"},
    {"--stream", "text is printed as it is made; leave it out", "--tool-command"},
    {"--num-classes", "the subfolders of --data are the classes; leave it out", "--patch", "train"},
    {"--max-prompt-length", "--tokens limits prompt and answer together", "--tokens", "train"},
    {"--reward-model", "--reward program:CMD asks a program, which may run a model", "--reward"},
    {"--vllm", "what trains also draws the answers; leave it out", "--reward"},
    {"--use-vllm", "what trains also draws the answers; leave it out", "--reward"},
    {"--loss",
     "the other passages of a batch are the negatives (MultipleNegativesRankingLoss); leave it out",
     {},
     "train contrastive"},
    {"--scale", "a scale of 20 is --temperature 0.05", {}, "train contrastive"},
    {"--num-fewshot", "questions are asked without examples; leave it out", "--limit", "eval"},
    {"--fewshot", "questions are asked without examples; leave it out", "--limit", "eval"},
    {"--bits", "--type Q4_K_M has about 4 bits per weight, Q8_0 about 8", "--type", "quantize"},
    {"--type", kKind, "--tokenizer"},
    {"--kind", kKind, "--tokenizer"},
    {"--model-type", kKind, {}, "tokenizer train"},
    {"--model-prefix", "--out NAME.gguf says where it goes", {}, "tokenizer train"},
    {"--include", kFiles, {}, "fetch"},
    {"--quant", kFiles, {}, "fetch"},
    {"--method", "toy merge adds adapters to their model, and does not mix models", {}, "merge"},
    {"--layer", "all layers are shown; leave it out", "--ablate", "look"},
    {"--vocab-size", "write --corpus FILE --tokenizer bpe:512 for a vocabulary of 512 tokens", "--tokenizer"},
    {"--wandb", kReports, {}, "train"},
    {"--wandb-project", kReports, {}, "train"},
    {"--report-to", kReports, {}, "train"},
    {"--precision", kTypes, "--compute"},
    {"--mixed-precision", kTypes, "--compute"},
    {"--warmup-ratio", "--warmup takes a number of steps: --warmup 100 is a tenth of 1000", "--warmup"},
    {"--min-lr", "--final-lr is a factor of --lr at the end", "--final-lr"},
    {"--lr-min", "--final-lr is a factor of --lr at the end", "--final-lr"},
    {"--quiet", kProgress},
    {"-q", kProgress},
    {"--silent", kProgress},
    {"--push-to-hub", "toy uploads nothing; hf upload does"},
    {"--num-workers", "--threads says how many threads work", "--threads"},
    {"--cpu", "the CPU is what computes unless --device says otherwise", "--device"},
    {"--distributed", kRanks, "--shards", "train"},
    {"--distributed", kBenchRanks, "--shards", "bench"},
    {"--ddp", kRanks, "--shards", "train"},
    {"--ddp", kBenchRanks, "--shards", "bench"},
    {"--num-gpus", kRanks, "--shards", "train"},
    {"--num-gpus", kBenchRanks, "--shards", "bench"},
    {"--eval-iters", "--eval-tokens says how many tokens are scored", "--eval-tokens"},
    {"--compile", "there is nothing to compile; leave it out"},
    {"--torch-compile", "there is nothing to compile; leave it out"},
    {"--resume-from-checkpoint", "--resume with --out FOLDER continues the run in that folder", "--resume"},
    {"--train-on-inputs", "--train-on all counts every token", "--train-on"},
    {"--prompt-column", kMapPreferences, "--map", "train dpo"},
    {"--prompt-column", kMapPairs, "--map", "train contrastive"},
    {"--prompt-column", kMapPairs, "--map", "eval retrieval"},
    {"--prompt-column", kMapClasses, "--map", "train classify"},
    {"--prompt-column", kMapClasses, "--map", "eval classify"},
    {"--prompt-column", kMapPrompt, "--map"},
    {"--text-column", kMapPreferences, "--map", "train dpo"},
    {"--text-column", kMapPairs, "--map", "train contrastive"},
    {"--text-column", kMapPairs, "--map", "eval retrieval"},
    {"--text-column", kMapClasses, "--map", "train classify"},
    {"--text-column", kMapClasses, "--map", "eval classify"},
    {"--text-column", kMapText, "--map"},
    {"--dataset-text-field", kMapText, "--map"},
    {"--format", "the fields of a row say what it is; leave it out", "--map", "data"},
    {"--dataset-format", "the fields of a row say what it is (toy help data.md)", "--map"},
    {"--tokenizer", "the model keeps its own", "--init"},
    {"--tokenizer", "the model keeps its own; leave it out", "--model", "train"},
    {"--messages", "each line of standard input is a message: toy chat MODEL < FILE", "--url"},
    {"--model", "a classifier of pictures begins from nothing; leave it out", {}, "train vit"},
    {"--model",
     "a new model begins from nothing; toy train warm-start --init FILE trains one further, toy train lora "
     "--model FILE an adapter of it",
     "--size", "train"},
    {"--ref-model", "the reference is the model without its adapter; leave it out", "--beta"},
    {"--reference-model", "the reference is the model without its adapter; leave it out", "--beta"},
    {"--no-cnv", "infer continues a text and never chats; leave it out", "--prompts"},
    {"-no-cnv", "infer continues a text and never chats; leave it out", "--prompts"},
    {"-cnv", kChats, "--prompts"},
    {"--conversation", kChats, "--prompts"},
    {"-i", kChats, "--prompts"},
    {"--interactive", kChats, "--prompts"},
    {"--chat", kChats, "--prompts"},
    {"-st", kChats, "--prompts"},
    {"--single-turn", kChats, "--prompts"},
    {"--system", kChats, "--prompts"},
    {"--chat-template", kChats, "--prompts"},
    {"--stream", "text is printed as it is made; leave it out", "--prompts"},
    {"-o", "the text goes to stdout: > FILE writes it into a file", "--prompts"},
    {"--out", "the text goes to stdout: > FILE writes it into a file", "--prompts"},
    {"--output", "the text goes to stdout: > FILE writes it into a file", "--prompts"},
    {"--mirostat", "--samplers lists the steps of drawing (toy help sampling.md)", "--samplers"},
    {"--do-sample", "a --temperature above 0 draws, and 0 takes the likeliest token", "--temperature", "eval"},
    {"--do-sample", "a --temperature above 0 draws, and 0 takes the likeliest token", "--samplers"},
    {"--num-return-sequences", "another --seed draws another text", "--prompts"},
    {"--out", "--json > FILE keeps the result", "--stride"},
    {"--output", "--json > FILE keeps the result", "--stride"},
    {"--out", "> FILE keeps what is printed", "--ceilings"},
    {"--output", "> FILE keeps what is printed", "--ceilings"},
    {"--type", "toy quantize writes a file of another type", "--ceilings"},
    {"--api-key", "other users could read the key (ps); put it into TOY_API_KEY", "--url"},
    {"--timeout", "a request ends with its connection; leave it out", "--port"},
    {"--log-level", "the log has a line for each request; --log says where", "--port"},
    {"--format", "text is printed, or a JSON object with --json; leave it out", "--prompts"},
    {"--format", "a file NAME.gguf is GGUF, any other name a Hugging Face folder, and there is no ONNX", {}, "convert"},
    {"--format", "--json prints JSON; leave it out", "--json"},
    {"--dtype", kTypes, "--compute"},
    {"--dtype", "--type says how the file's numbers are stored", "--type"},
    {"--dtype", kStored, "--device"},
    {"--torch-dtype", kTypes, "--compute"},
    {"--torch-dtype", kStored, "--device"},
    {"--threads", "this command has one thread; leave it out"},
    {"--deepspeed", kRanks, "--shards", "train"},
    {"--fsdp", kRanks, "--shards", "train"},
    {"--out", kFetched, {}, "fetch"},
    {"--output", kFetched, {}, "fetch"},
    {"--local-dir", kFetched, {}, "fetch"},
    {"--n", "--decode says how many tokens are generated", "--decode", "bench"},
    {"-n", "--decode says how many tokens are generated", "--decode", "bench"},
    {"--version", "toy --version prints it"},
};

// Commands of a group that it does not have, and why.
inline constexpr struct {
  std::string_view of, theirs, reason;
} kNeedlessCommands[] = {
    {"eval", "hellaswag", kQuestions},
    {"eval", "arc", kQuestions},
    {"eval", "winogrande", kQuestions},
    {"eval", "mmlu", kQuestions},
    {"corpus", "download", "data sets are not downloaded; curl -O ADDRESS fetches a file"},
    {"toy", "tensorboard", "toy train --tensorboard FOLDER writes files for it, and toy runs report draws a run"},
    {"toy", "wandb", "toy runs report FOLDER draws a run"},
    {"runs", "delete", "a run is a folder: rm -r FOLDER"},
    {"runs", "remove", "a run is a folder: rm -r FOLDER"},
    {"runs", "rm", "a run is a folder: rm -r FOLDER"},
    {"runs", "tensorboard", "toy train --tensorboard FOLDER writes files for it; toy runs report draws a run"},
    {"runs", "diff", "toy runs compare A B shows both"},
    {"runs", "plot", "toy runs report FOLDER draws it"},
    {"train", "resume", "toy train --resume --out FOLDER resumes a run"},
    {"train", "ppo", "toy train grpo learns from rewards, without a value model"},
    {"train", "rlhf", "toy train dpo learns from preferences, toy train grpo from rewards"},
    {"train", "simpo", "toy train dpo has the losses dpo, ipo, orpo and kto"},
    {"toy", "push", "toy uploads nothing; hf upload does"},
    {"toy", "upload", "toy uploads nothing; hf upload does"},
    {"toy", "login", "toy fetch reads a token from HF_TOKEN"},
    {"toy", "rm", "a model is a file, and a run a folder: rm removes it"},
    {"toy", "delete", "a model is a file, and a run a folder: rm removes it"},
    {"toy", "create",
     "toy new makes a project, toy train a model; what a Modelfile says are options: toy chat MODEL --system TEXT"},
    {"toy", "stop", "toy runs stop FOLDER stops a run with a checkpoint, Ctrl-C what runs here"},
    {"toy", "test", "toy eval scores a model, and toy bench measures its speed"},
    {"toy", "man", "toy help COMMAND shows its options, and toy help pages the manual"},
    {"runs", "rename", "a run is a folder; rename that"},
    {"runs", "resume", "toy train --resume --out FOLDER resumes it"},
};

// Values of other programs that have no counterpart, and what to do.
inline constexpr struct {
  std::string_view option, theirs, reason;
} kNeedlessValues[] = {{"--seed", "-1", "leave it out, or write --seed $RANDOM for another each time"},
                       {"--seed", "random", "leave it out, or write --seed $RANDOM for another each time"},
                       {"--device", "auto", "leave it out for the CPU; toy devices shows what this machine has"},
                       {"--device", "mps", "leave it out for the CPU; GPUs of Apple compute nothing here"},
                       {"--n", "-1", "leave it out; --help says what is usual"}};

}  // namespace toy::cli::others
