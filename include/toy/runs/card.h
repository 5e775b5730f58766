// The report card of a model that was trained in stages: what each stage taught, and what it cost.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/runs/log.h"
#include "toy/runs/run.h"

namespace toy::runs {

/// Answers to one set of questions, as `toy eval generate --json --rows` prints them.
struct Answers {
  /// The part of some questions that is answered right.
  struct Share {
    double accuracy = 0;
    std::optional<double> error;  ///< standard error; absent where a single question has none
    int64_t questions = 0;
  };
  /// What was asked, and what the model wrote.
  struct Row {
    std::string kind, question, text, wanted;
    bool right = false;
  };
  Share all;
  std::map<std::string, Share> kinds;
  std::vector<Row> rows;
  double temperature = 0;  ///< that they were drawn at; 0: the likeliest
};
/// Throws Error{bad_input} with the reason for what is not such a text, as without --rows.
Answers parse_answers(std::string_view json);

/// FLOP per token of a step, from the text of a run's flow.json: forward, backward and update. Throws Error{bad_input}
/// for what is no such text.
double flops_per_token(std::string_view flow);

/// Contents of a run's model and of the model that it began with, as finished.json records them; "" where unknown.
struct Origin {
  std::string model, init;
  bool adapter = false;  ///< the run's model is one
};
/// From the text of a run's finished.json. Throws Error{bad_input} for what is no such text.
Origin parse_origin(std::string_view finished);

/// One run of the several that a model comes from.
struct Stage {
  Log log;
  Summary summary;
  std::optional<double> flops_per_token = {};
  std::optional<Answers> likeliest = {};  ///< each answer is the likeliest
  Origin origin = {};
  std::optional<Answers> drawn = {};  ///< each answer is drawn from the model's distribution
};

/// Cost and accuracy of every stage, as `toy runs card --json` prints them. FLOP are tokens times FLOP per token:
/// passes that only score or draw are left out. Throws Error{bad_input} where the stages are in another order than they
/// were trained in, as far as their origins tell.
nlohmann::ordered_json card_numbers(std::span<const Stage> stages);
/// One HTML file that reads nothing else, from disk or network. The conversations are the first of each kind of
/// question. Throws Error{bad_input} as card_numbers(), and where the answers of two stages are to other questions.
std::string html_report_card(const std::string& title, std::span<const Stage> stages);

}  // namespace toy::runs
