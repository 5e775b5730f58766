#include "toy/eval/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "eval/json_rows.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/threads.h"
#include "toy/base/utf8.h"
#include "toy/decode/sampler.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSpaces = " \t\n\r\f\v";
constexpr int64_t kRows = 256;       // computed together
constexpr size_t kMostChoices = 64;  // of a question
constexpr const char* kExample =
    R"({"prompt": "Question: What is 2 + 2?\nAnswer:", "choices": [" 3", " 4"], "answer": 1})";

int64_t characters_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; });
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
}

// The number of the right answer, in JSON a number or its digits; from 0.
size_t index_of(const ordered_json& value, const char* name, size_t first, size_t choices) {
  check(choices > 0, "there are no choices");
  int64_t n = -1;
  if (value.is_number_integer()) {
    n = value.get<int64_t>();
  } else if (value.is_string()) {
    const auto& digits = value.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error != std::errc() || end != digits.data() + digits.size()) n = -1;
  }
  check(n >= int64_t(first) && n < int64_t(first + choices), "'{}' is {}, expected {} to {}, the number of a choice",
        name, json_text(value), first, first + choices - 1);
  return size_t(n) - first;
}

// WikiHow's articles have marks in brackets.
std::string without_marks(std::string_view original) {
  std::string text = trimmed(original);
  replace_all(text, " [title]", ". ");
  for (size_t open = 0; (open = text.find('[', open)) != text.npos;) {
    const size_t close = text.find(']', open);
    if (close == text.npos) break;
    if (text.substr(open, close - open).find('\n') != std::string::npos) {  // `.` of a regular expression ends there
      ++open;
      continue;
    }
    text.erase(open, close + 1 - open);
  }
  replace_all(text, "  ", " ");
  return text;
}

// The context in two parts, or as others pass it on: in one.
std::string hellaswag_context(const ordered_json& row) {
  if (!row.contains("ctx_a") && row.contains("ctx")) return text_of(row, "ctx");
  std::string second = text_of(row, "ctx_b");
  for (char& c : second)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  if (!second.empty() && second[0] >= 'a' && second[0] <= 'z') second[0] = char(second[0] - 'a' + 'A');
  return text_of(row, "ctx_a") + " " + second;
}

Question hellaswag(const ordered_json& row) {
  const std::string context = hellaswag_context(row);
  const bool has_topic = row.contains("activity_label") || row.contains("ctx_a");
  const std::string prompt = without_marks((has_topic ? text_of(row, "activity_label") + ": " : "") + context);
  Question q;
  for (const std::string& ending : texts_of(row.at("endings"), "endings")) {
    const std::string answer = without_marks(ending);
    q.choices.push_back({prompt, " " + answer, characters_of(answer)});
  }
  check(row.contains("label"), "'label' is missing");
  q.right = index_of(row.at("label"), "label", 0, q.choices.size());
  return q;
}

Question arc(const ordered_json& row) {
  const ordered_json& question = row.at("question");
  const bool original = question.is_object();  // with a `stem`, and choices as a list of objects
  const std::string prompt =
      "Question: " + (original ? text_of(question, "stem") : text_of(row, "question")) + "\nAnswer:";
  const ordered_json& holder = original ? question : row;
  check(holder.contains("choices"), "'choices' is missing");
  const ordered_json& choices = holder.at("choices");
  std::vector<std::string> texts, labels;
  if (choices.is_object()) {
    check(choices.contains("text") && choices.contains("label"), "'choices' has no 'text' and 'label'");
    texts = texts_of(choices.at("text"), "text"), labels = texts_of(choices.at("label"), "label");
  } else {
    check(choices.is_array(), "'choices' is neither an object nor a list");
    for (const ordered_json& c : choices) {
      check(c.is_object(), "'choices' has something else than objects");
      texts.push_back(text_of(c, "text")), labels.push_back(text_of(c, "label"));
    }
  }
  check(texts.size() == labels.size(), "there are {} texts and {} labels", texts.size(), labels.size());
  Question q;
  for (const std::string& text : texts) q.choices.push_back({prompt, " " + text, characters_of(text)});
  const auto right = std::find(labels.begin(), labels.end(), text_of(row, "answerKey"));
  check(right != labels.end(), "'answerKey' is '{}'; the choices are {}", text_of(row, "answerKey"),
        fmt::join(labels, ", "));
  q.right = size_t(right - labels.begin());
  return q;
}

// As lm-evaluation-harness asks it.
Question piqa(const ordered_json& row) {
  const std::string prompt = "Question: " + text_of(row, "goal") + "\nAnswer:";
  Question q;
  for (const char* name : {"sol1", "sol2"}) {
    const std::string& answer = text_of(row, name);
    q.choices.push_back({prompt, " " + answer, characters_of(answer)});
  }
  check(row.contains("label"), "'label' is missing");
  q.right = index_of(row.at("label"), "label", 0, 2);
  return q;
}

// The options fill a gap, and what follows it is judged: partial evaluation (Trinh and Le 2018).
Question winogrande(const ordered_json& row) {
  const std::string& sentence = text_of(row, "sentence");
  const size_t gap = sentence.find('_');
  check(gap != sentence.npos, "'sentence' has no gap '_'");
  const std::string answer = trimmed(sentence.substr(gap + 1));
  Question q;
  for (const char* option : {"option1", "option2"})
    q.choices.push_back({sentence.substr(0, gap) + text_of(row, option), " " + answer, characters_of(answer)});
  check(row.contains("answer"), "'answer' is missing");
  q.right = index_of(row.at("answer"), "answer", 1, 2);
  return q;
}

Question plain(const ordered_json& row) {
  Question q;
  const std::string& prompt = text_of(row, "prompt");
  check(row.at("choices").is_array(), "'choices' is not a list; write rows as {}", kExample);
  const std::vector<std::string> texts = texts_of(row.at("choices"), "choices");
  for (const std::string& text : texts) q.choices.push_back({prompt, text, characters_of(text)});
  check(row.contains("answer"), "'answer' is missing");
  const ordered_json& answer = row.at("answer");
  const std::string text = answer.is_string() ? answer.get<std::string>() : "";
  const auto right = answer.is_string() ? std::find(texts.begin(), texts.end(), text) : texts.end();
  const bool is_letter = text.size() == 1 && text[0] >= 'A' && size_t(text[0] - 'A') < texts.size();
  q.right = right != texts.end() ? size_t(right - texts.begin())
            : is_letter          ? size_t(text[0] - 'A')
                                 : index_of(answer, "answer", 0, texts.size());
  return q;
}

// The ids of a choice, and where its answer begins. Both are encoded together, because the tokens at the seam may
// depend on both; the answer's are those after as many as its prompt has alone.
struct Ids {
  std::vector<int32_t> ids;
  size_t first = 0;
};

Ids ids_of(const Tokenizer& tokenizer, const Choice& c, EncodeOptions o) {
  // Spaces at the end of the prompt go with the answer, as words begin with them.
  const size_t end = c.prompt.find_last_not_of(kSpaces) + 1;
  const std::string prompt = c.prompt.substr(0, end), answer = c.prompt.substr(end) + c.answer;
  Ids r{encode_prompt(tokenizer, prompt + answer, o), encode_prompt(tokenizer, prompt, o).size()};
  check(r.ids.size() >= 2, "prompt and choice are one token, and the first token is not predicted");
  r.first = std::clamp<size_t>(r.first, 1, r.ids.size() - 1);
  return r;
}

// Says in an error of the input which question it is about.
template <class F>
void of_question(int64_t number, const F& f) {
  try {
    f();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) throw;
    fail("question {}: {}", number, e.what());
  }
}

class Answering {
 public:
  Answering(Device& device, const Model& model, const std::vector<Question>& questions, const ChoicesOptions& o)
      : tokenizer_(*model.tokenizer), encoding_{.parse_special = o.parse_special}, team_(device.host_threads()) {
    size_t most = 1, longest = 1;
    for (size_t i = 0; i < questions.size(); ++i)
      of_question(int64_t(i) + 1, [&] {
        most = std::max(most, questions[i].choices.size());
        for (const Choice& c : questions[i].choices)
          longest = std::max(longest, ids_of(tokenizer_, c, encoding_).ids.size());
      });
    context_ = std::min(o.context > 0 ? o.context : model.spec.context, int64_t(longest));
    decoder_ = std::make_unique<Decoder>(device, model,
                                         DecoderOptions{.sequences = int(most),
                                                        .context = context_,
                                                        .max_rows = kRows,
                                                        .kv = o.kv,
                                                        .exact = o.exact,
                                                        .repack = o.repack});
  }

  AnsweredQuestion operator()(const Question& q) {
    std::vector<Ids> choices;
    for (const Choice& c : q.choices) choices.push_back(ids_of(tokenizer_, c, encoding_));
    AnsweredQuestion a{.logprobs = std::vector<double>(choices.size()), .cut = cut(choices)};
    read_shared(choices);
    read_answers(choices, a.logprobs);
    std::vector<double> normalized;
    for (size_t i = 0; i < a.logprobs.size(); ++i)
      normalized.push_back(a.logprobs[i] / double(std::max<int64_t>(1, q.choices[i].characters)));
    const auto best = [](const std::vector<double>& v) {
      return size_t(std::max_element(v.begin(), v.end()) - v.begin());
    };
    a.best = best(a.logprobs), a.best_normalized = best(normalized);
    return a;
  }

 private:
  // Leaves tokens out at the beginning, as many of every choice, so that the longest fits.
  int64_t cut(std::vector<Ids>& choices) const {
    size_t longest = 0;
    for (const Ids& c : choices) longest = std::max(longest, c.ids.size());
    const size_t room = size_t(context_) + 1;  // the last token is only predicted
    if (longest <= room) return 0;
    const size_t cut = longest - room;
    for (Ids& c : choices) {
      check(c.first > cut, "an answer has {} tokens, and the context is {}", c.ids.size() - c.first, context_);
      c.ids.erase(c.ids.begin(), c.ids.begin() + ptrdiff_t(cut));
      c.first -= cut;
    }
    return int64_t(cut);
  }

  // Computes what all choices begin with, but for the last token before an answer, whose logits are wanted.
  void read_shared(const std::vector<Ids>& choices) {
    shared_ = choices[0].first - 1;
    for (const Ids& c : choices) {
      const auto end = choices[0].ids.begin() + ptrdiff_t(std::min({shared_, c.first - 1, c.ids.size()}));
      shared_ =
          size_t(std::mismatch(choices[0].ids.begin(), end, c.ids.begin(), c.ids.end()).first - choices[0].ids.begin());
    }
    for (size_t i = 0; i < choices.size(); ++i) decoder_->state().reset(int(i));
    std::vector<DecodeRow> rows;
    for (size_t i = 0; i < shared_; ++i) rows.push_back({0, choices[0].ids[i], false});
    if (!rows.empty()) decoder_->decode(rows);
    for (size_t i = 1; i < choices.size(); ++i) decoder_->state().fork(0, int(i));
  }

  void read_answers(const std::vector<Ids>& choices, std::vector<double>& logprobs) {
    std::vector<DecodeRow> rows;
    std::vector<std::pair<size_t, int32_t>> wanted;  // choice and token
    const auto flush = [&] {
      if (rows.empty()) return;
      decoder_->decode(rows);
      scores_.resize(wanted.size());
      team_.run([&](int thread) {
        const Range mine = part(int64_t(wanted.size()), thread, team_.size());
        for (int64_t i = mine.begin; i < mine.end; ++i)
          scores_[size_t(i)] = log_softmax_at(decoder_->logits(size_t(i)), wanted[size_t(i)].second);
      });
      for (size_t i = 0; i < wanted.size(); ++i) logprobs[wanted[i].first] += scores_[i];
      rows.clear(), wanted.clear();
    };
    for (size_t c = 0; c < choices.size(); ++c)
      for (size_t i = shared_; i + 1 < choices[c].ids.size(); ++i) {
        const bool counts = i + 1 >= choices[c].first;
        rows.push_back({int(c), choices[c].ids[i], counts});
        if (counts) wanted.emplace_back(c, choices[c].ids[i + 1]);
        if (int64_t(rows.size()) == kRows) flush();
      }
    flush();
  }

  const Tokenizer& tokenizer_;
  EncodeOptions encoding_;
  int64_t context_ = 0;
  std::unique_ptr<Decoder> decoder_;
  ThreadPool team_;
  size_t shared_ = 0;
  std::vector<double> scores_;
};

// "question, options, answer"
std::string fields_of(const ordered_json& row) {
  constexpr size_t kMost = 12;
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) names.push_back(one_line(name));
  if (names.size() > kMost) names.resize(kMost), names.emplace_back("...");
  return names.empty() ? "no fields" : fmt::format("the fields {}", fmt::join(names, ", "));
}

// What to do with a row that is no question.
std::string instead_of(const ordered_json& row) {
  const bool has_answer = row.contains("answer") || row.contains("answers");
  if (row.contains("messages")) return "toy eval MODEL --data FILE scores the answers of conversations";
  if (has_answer && std::ranges::none_of(row, [](const ordered_json& value) { return value.is_array(); }))
    return "toy eval generate MODEL FILE takes questions without choices";
  return fmt::format(
      "a question has prompt, choices and answer, such as {}, or the fields of HellaSwag, ARC, PIQA or WinoGrande",
      kExample);
}

Question question_of(const ordered_json& row) {
  Question q = row.contains("endings")                                 ? hellaswag(row)
               : row.contains("sentence") && row.contains("option1")   ? winogrande(row)
               : row.contains("answerKey") && row.contains("question") ? arc(row)
               : row.contains("goal") && row.contains("sol1")          ? piqa(row)
               : row.contains("prompt") && row.contains("choices")     ? plain(row)
                                                                       : Question{};
  check(!q.choices.empty(), "the row has {}; {}", fields_of(row), instead_of(row));
  check(q.choices.size() >= 2 && q.choices.size() <= kMostChoices, "there are {} choices, expected 2 to {}",
        q.choices.size(), kMostChoices);
  for (const Choice& c : q.choices) check(!trimmed(c.answer).empty(), "a choice is empty");
  return q;
}

}  // namespace

Question parse_question(std::string_view line) { return question_of(parse_row(line)); }

std::vector<Question> read_questions(const TextFile& file) {
  std::vector<Question> questions;
  for_each_question(file, [&](const ordered_json& row, const std::string&) { questions.push_back(question_of(row)); });
  check(!questions.empty(), "{}: there is no question in it", file.path);
  return questions;
}

ChoicesScore score_choices(Device& device, const Model& model, const std::vector<Question>& questions,
                           const ChoicesOptions& options,
                           const std::function<void(const Question&, const AnsweredQuestion&)>& on_question) {
  check(!questions.empty(), "there is no question");
  check(options.context >= 0, "ctx is {}, expected at least 1 (0: the model's own)", options.context);
  Answering answer(device, model, questions, options);
  ChoicesScore score;
  int64_t right = 0, right_normalized = 0;
  for (const Question& q : questions) {
    ++score.questions;
    AnsweredQuestion a;
    of_question(score.questions, [&] { a = answer(q); });
    if (std::any_of(a.logprobs.begin(), a.logprobs.end(), [](double l) { return std::isnan(l); }))
      fail_internal("question {}: the model gives NaN: its weights are broken", score.questions);
    right += a.best == q.right, right_normalized += a.best_normalized == q.right;
    score.cut += a.cut > 0;
    if (on_question) on_question(q, a);
  }
  score.accuracy = part_of(right, score.questions);
  score.accuracy_normalized = part_of(right_normalized, score.questions);
  return score;
}

}  // namespace toy
