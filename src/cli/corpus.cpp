// toy corpus: texts to train on whose exact probability is known, and yardsticks for a model's loss on them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/options.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/data/text_files.h"
#include "toy/synth/ngram.h"
#include "toy/synth/stories.h"

namespace toy::cli {
namespace {

void print(bool json, const nlohmann::ordered_json& j, const std::string& text) {
  if (json)
    fmt::print("{}\n", json_text(j));
  else
    fmt::print("{}\n", text);
}

bool begins_with_stories(std::string_view beginning) {
  const size_t end = beginning.rfind("\n\n");  // of the last story that is there as a whole
  if (end == beginning.npos) return false;
  try {
    return score_stories(beginning.substr(0, end + 2)).stories > 0;
  } catch (const Error&) {
    return false;
  }
}

struct Stories {
  StoryOptions o;
  std::string out;
  void add(CLI::App& app) {
    o.bytes = 1'000'000;
    app.add_option("--bytes", o.bytes, "Length of the text, rounded up to the end of a story")
        ->capture_default_str()
        ->check(from_to(1, double(int64_t(1) << 34)));
    add_seed_option(app, o.seed, "Seed of the stories");
    app.add_option("--out", out, "File to write (default: stdout)")->check(file_name());
    app.callback([this] {
      if (!out.empty()) refuse_replacing("out", out, begins_with_stories);
      const std::string text = write_stories(o);
      if (out.empty()) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        return;
      }
      AtomicFile file(out);
      file.write(text);
      file.commit();
      fmt::print("{}\n", out);
    });
  }
};

struct Floor {
  std::string file;
  bool json = false;
  void add(CLI::App& app) {
    app.add_option("--file", file, "Text written by `toy corpus stories`")->required()->check(file_name());
    app.add_flag("--json", json, "Print a JSON object");
    app.callback([this] {
      const StoryScore s = score_stories(read_text_file(file));
      const double rate = s.nats_per_byte();
      print(json, {{"nats_per_byte", rate}, {"nats", s.nats}, {"bytes", s.bytes}, {"stories", s.stories}},
            fmt::format("{:.6f} nats/byte", rate));
    });
  }
};

struct Ngram {
  std::string train, file;
  bool json = false;
  void add(CLI::App& app) {
    app.add_option("--train", train, "Text to train on")->required()->check(file_name());
    app.add_option("--file", file, "Text to score")->required()->check(file_name());
    app.add_flag("--json", json, "Print a JSON object");
    app.callback([this] {
      const NgramModel model = NgramModel::train(read_text_file(train));
      const double rate = model.nats_per_byte(read_text_file(file));
      print(json, {{"nats_per_byte", rate}, {"order", 5}}, fmt::format("{:.6f} nats/byte", rate));
    });
  }
};

}  // namespace

void add_corpus(CLI::App& app) {
  app.require_subcommand(1);
  add_subcommand<Stories>(app, "stories", "Write English stories from a random grammar");
  add_subcommand<Floor>(app, "floor", "Print the lowest possible loss on stories, in nats per byte");
  add_subcommand<Ngram>(app, "ngram", "Print the loss of a 5-gram model, which a good model beats");
}

}  // namespace toy::cli
