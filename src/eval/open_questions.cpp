#include "toy/eval/open_questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <map>
#include <utility>

#include "data/row_files.h"
#include "data/row_forms.h"
#include "dialog/normalized.h"
#include "eval/json_rows.h"
#include "text/unicode.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/dialog/dialog.h"
#include "toy/dialog/dialog_input.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kRows = 512;  // computed together

// Says in an error of the input where the question is.
template <class F>
auto at(const OpenQuestion& q, const F& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) throw;
    fail("{}: {}", q.where, e.what());
  }
}

std::vector<int32_t> ids_of(const OpenQuestion& q, const Tokenizer& tokenizer, const std::optional<Dialog>& dialog,
                            EncodeOptions options, std::time_t now, RowNotes& notes) {
  std::vector<int32_t> ids;
  if (q.messages.is_null()) {
    ids = encode_prompt(tokenizer, q.prompt, options);
  } else {
    check(dialog.has_value(), "the model has no chat template; use rows with a prompt, or a model with one");
    DialogText text = dialog->render(
        {.messages = q.messages, .tools = q.tools, .documents = q.documents, .variables = q.variables, .now = now});
    ids = std::move(text.ids);
    notes.add(q.where, text.notes);
  }
  notes.add(q.where, q.notes);
  check(!ids.empty(), "the prompt is empty, and no beginning-of-sequence token is added");
  return ids;
}

// What to do where a row has no prompt and no messages.
std::string prompt_of(const ordered_json& row) {
  for (const char* other : {"question", "instruction", "input", "text", "query", "problem"})
    if (row.contains(other)) return fmt::format("rename '{}' to 'prompt'", other);
  return "give one of them";
}

// What to do where a row has no answer.
std::string answer_of(const ordered_json& row) {
  for (const char* other : {"completion", "response", "output", "solution", "target", "label"})
    if (row.contains(other)) return fmt::format("rename '{}' to 'answer'", other);
  const auto messages = row.find("messages");
  const bool ends_with_answer = messages != row.end() && messages->is_array() && !messages->empty() &&
                                messages->back().is_object() &&
                                messages->back().value("role", ordered_json()) == "assistant";
  if (ends_with_answer)
    return "move the text of the last message to a field 'answer' (toy eval MODEL --data FILE scores rows as they are)";
  return "a question has a field 'answer' with the text that is right, apart from its messages";
}

OpenQuestion question_of(ordered_json row) {
  for (auto field = row.begin(); field != row.end();) field = field->is_null() ? row.erase(field) : std::next(field);
  const auto one_of = [&](const char* a, const char* b) {
    const bool both = row.contains(a) && row.contains(b);
    check(row.contains(a) != row.contains(b), "there is {} '{}' {} '{}'; {}", both ? "both" : "neither", a,
          both ? "and" : "nor", b,
          both          ? "give one of them"
          : b[0] == 'm' ? prompt_of(row)
                        : answer_of(row));
    return row.contains(a);
  };
  OpenQuestion q;
  std::vector<std::string> unused;
  if (one_of("prompt", "messages") && !row.at("prompt").is_array()) {
    q.prompt = text_of(row, "prompt");
    check(!row.contains("tools"), "'tools' are for rows with messages");
    for (const auto& [name, value] : row.items())
      if (name != "prompt" && name != "answer" && name != "answers" && name != "kind") unused.push_back(one_line(name));
  } else {
    // A row to learn from, without the answer.
    ordered_json asked = row;
    for (const char* own : {"answer", "answers", "kind"}) asked.erase(own);
    if (row.contains("prompt")) asked["messages"] = row.at("prompt"), asked.erase("prompt");
    RowForm form = row_form(asked);
    q.messages = dialog::normalized_messages(form.messages);
    q.tools = dialog::normalized_tools(form.tools);
    q.documents = std::move(form.documents), q.variables = std::move(form.variables);
    unused = std::move(form.unused);
  }
  if (one_of("answer", "answers"))
    q.answers = {text_of(row, "answer")};
  else
    q.answers = texts_of(row.at("answers"), "answers");
  if (row.contains("kind")) q.kind = text_of(row, "kind");
  if (!unused.empty()) q.notes = {unused_note(unused)};
  check(!q.answers.empty(), "'answers' is empty");
  for (const std::string& a : q.answers) check(!trimmed(a).empty(), "an answer is empty");
  return q;
}

}  // namespace

OpenQuestion parse_open_question(std::string_view line) { return question_of(parse_row(line)); }

std::vector<OpenQuestion> read_open_questions(const TextFile& file) {
  std::vector<OpenQuestion> questions;
  for_each_question(file, [&](ordered_json row, const std::string& where) {
    questions.push_back(question_of(std::move(row)));
    questions.back().where = where;
  });
  check(!questions.empty(), "{}: there is no question in it", file.path);
  return questions;
}

std::vector<std::vector<int32_t>> prompt_ids(const std::vector<OpenQuestion>& questions, const Tokenizer& tokenizer,
                                             const ChatTemplate* chat,
                                             const std::function<void(const std::string&)>& warn, bool parse_special) {
  std::optional<Dialog> dialog;
  if (chat) dialog.emplace(tokenizer, *chat);
  const std::time_t now = std::time(nullptr);  // one for all that templates tell
  RowNotes notes(warn);
  std::vector<std::vector<int32_t>> all;
  for (const OpenQuestion& q : questions)
    all.push_back(at(q, [&] { return ids_of(q, tokenizer, dialog, {.parse_special = parse_special}, now, notes); }));
  return all;
}

std::string normalized_answer(std::string_view text, const MatchOptions& options) {
  constexpr std::string_view kPunctuation = R"(!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~)";
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = first_code_point(text.substr(i));
    const std::string_view bytes = text.substr(i, c.bytes);
    i += c.bytes;
    if (options.ignore_punctuation && kPunctuation.find(bytes) != kPunctuation.npos) continue;
    if (options.ignore_case && is_utf8(bytes))
      result += utf8_encode(lower_case(c.value));
    else
      result += bytes;
  }
  return trimmed(result);
}

OpenScore score_open_questions(Device& device, const Model& model, const std::optional<ChatTemplate>& chat,
                               const std::vector<OpenQuestion>& questions, const OpenOptions& options,
                               const std::function<void(size_t, const OpenAnswer&)>& on_answer) {
  check(!questions.empty(), "there is no question");
  const int64_t room = options.context > 0 ? options.context : model.spec.context, n = options.generate.max_tokens;
  check(n > 0 && n < room, "n is {}; use 1 to {}, which leaves room for a prompt in a context of {}", n, room - 1,
        room);
  OpenScore score;
  score.answers.resize(questions.size());
  std::vector<std::vector<int32_t>> prompts =
      prompt_ids(questions, *model.tokenizer, chat ? &*chat : nullptr, options.warn, options.parse_special);
  std::vector<std::vector<std::string>> expected;
  size_t longest = 0;
  for (size_t i = 0; i < questions.size(); ++i)
    at(questions[i], [&] {
      std::vector<int32_t>& ids = prompts[i];
      score.answers[i].cut = std::max<int64_t>(0, int64_t(ids.size()) - (room - n));
      score.cut += score.answers[i].cut > 0;
      ids.erase(ids.begin(), ids.begin() + score.answers[i].cut);
      longest = std::max(longest, ids.size());
      std::vector<std::string>& right = expected.emplace_back();
      for (const std::string& a : questions[i].answers) right.push_back(normalized_answer(a, options.match));
      check(std::ranges::none_of(right, &std::string::empty), "an answer is only punctuation, which is ignored");
    });
  const int sequences = int(std::min<int64_t>(options.sequences, int64_t(questions.size())));
  Decoder decoder(device, model,
                  {.sequences = sequences,
                   .context = int64_t(longest) + n,
                   .max_rows = std::max<int64_t>(sequences, std::min<int64_t>(sequences * int64_t(longest), kRows)),
                   .kv = options.kv,
                   .exact = options.exact,
                   .repack = options.repack});
  GenerationService service(decoder, model.tokenizer.get());
  int64_t right = 0;
  for (size_t i = 0; i < questions.size(); ++i) {
    TextRequest r{.prompt = std::move(prompts[i]), .options = options.generate, .stops = options.stops};
    r.options.sampler.seed += i;
    r.on_text = [&answer = score.answers[i]](const GeneratedToken&, const std::string& text) {
      answer.text += text;
      return true;
    };
    r.on_end = [&, i](const TextEnd& end) {
      if (end.error) std::rethrow_exception(end.error);
      OpenAnswer& a = score.answers[i];
      a.text += end.text;
      a.tokens = int64_t(end.generated.tokens.size());
      a.finished = end.generated.reason != FinishReason::length;
      a.right = std::ranges::find(expected[i], normalized_answer(a.text, options.match)) != expected[i].end();
      right += a.right, score.unfinished += !a.finished;
      if (on_answer) on_answer(i, a);
    };
    service.submit(std::move(r));
  }
  service.run();
  score.accuracy = part_of(right, int64_t(questions.size()));
  std::map<std::string, std::pair<int64_t, int64_t>> kinds;  // right, all
  for (size_t i = 0; i < questions.size(); ++i) {
    if (questions[i].kind.empty()) continue;
    auto& [right_ones, all] = kinds[questions[i].kind];
    right_ones += score.answers[i].right, ++all;
  }
  for (const auto& [kind, counts] : kinds) score.kinds[kind] = {part_of(counts.first, counts.second), counts.second};
  return score;
}

}  // namespace toy
