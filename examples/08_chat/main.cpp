// A chat model from scratch: conversations, a tokenizer with the marks of their template, training, and a conversation.
// docs/chat-from-scratch.md does the same with the command line.
//
//   example_chat FOLDER [ROWS]
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "toy/backend/devices.h"
#include "toy/decode/generate.h"
#include "toy/dialog/dialog.h"
#include "toy/dialog/dialog_input.h"
#include "toy/models/model.h"
#include "toy/synth/chats.h"
#include "toy/train/recipes.h"

namespace {

using namespace toy;
using nlohmann::ordered_json;

int run(const std::string& folder, int64_t rows) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/chats.jsonl") << write_chats(1, rows);

  // The recipe makes the vocabulary: <|im_start|> and <|im_end|> become control tokens, and the second ends an answer.
  const ordered_json options = {{"data", folder + "/chats.jsonl"},
                                {"chat_template", "chatml"},
                                {"tokenizer", "bpe:400"},
                                {"size", "tiny"},
                                {"epochs", 3},
                                {"lr", 6e-3},
                                {"batch", 16},
                                {"out", folder},
                                {"overwrite", true}};
  const auto device = make_cpu_device();
  TrainObserver silent;
  const TrainResult result = parse_recipe("from-scratch", options.dump()).train(*device, silent);
  fmt::print("{} steps, validation loss {:.3f}\n", result.step, result.eval->loss);

  const Model model = load_model(result.model_path, *device);
  const Dialog dialog(*model.tokenizer, *load_chat_template(gguf::File::open(result.model_path)));
  ordered_json messages = ordered_json::array();
  bool ends = true;
  for (const char* question : {"Hello!", "My name is Nora.", "What is my name?"}) {
    messages.push_back({{"role", "user"}, {"content", question}});
    const std::string prompt = dialog.render({.messages = messages}).text;
    const std::string answer = generate(*device, model, prompt, {.max_tokens = 40});
    ends = ends && model.tokenizer->encode(answer).size() < 40;
    messages.push_back({{"role", "assistant"}, {"content", answer}});
    fmt::print("> {}\n{}\n", question, answer);
  }
  fmt::print("{}\n", ends ? "ok" : "FAILED");
  return ends ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print(stderr, "usage: example_chat FOLDER [ROWS]\n"), 2;
  try {
    return run(argv[1], argc > 2 ? std::atoll(argv[2]) : 4000);
  } catch (const std::exception& e) {
    fmt::print(stderr, "chat: {}\n", e.what());
    return 1;
  }
}
