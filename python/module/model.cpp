// Models: texts, scores, logits, tensors.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>
#include <variant>

#include "arrays.h"
#include "bind/bound_model.h"
#include "bind/chat_run.h"
#include "bind/score_fields.h"
#include "bind/taps.h"
#include "bind/text_run.h"
#include "module.h"
#include "toy/base/error.h"

using namespace nb::literals;
using toy::bind::BoundModel;
using toy::bind::ChatRun;
using toy::bind::TextKind;
using toy::bind::TextOptions;
using toy::bind::TextRun;
using ModelPtr = std::shared_ptr<BoundModel>;
using Prompt = std::variant<std::string, std::vector<int32_t>>;

namespace {

nb::object dequantized(const ModelPtr& model, const std::string& name) {
  const std::vector<size_t> shape = shape_of(model->model().params->type(name).shape);
  std::vector<float> values;
  {
    nb::gil_scoped_release free;
    values = model->values(name);
  }
  return array_of(std::move(values), shape);
}

std::unique_ptr<TextRun> start(const ModelPtr& model, const Prompt& prompt, const std::string& options) {
  nb::gil_scoped_release free;
  TextOptions o = toy::bind::parse_text_options(options, model->model(), TextKind::continuation);
  const auto* text = std::get_if<std::string>(&prompt);
  std::vector<int32_t> ids = text ? model->prompt_ids(*text, o) : std::get<std::vector<int32_t>>(prompt);
  return toy::bind::continue_text(model, std::move(ids), std::move(o));
}

// Bytes that are not UTF-8 become U+FFFD.
nb::object str_of(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
}

nb::object generate(const ModelPtr& model, const Prompt& prompt, const std::string& options) {
  model->tokenizer();
  const std::unique_ptr<TextRun> run = start(model, prompt, options);
  std::string text;
  {
    nb::gil_scoped_release free;
    while (const auto part = run->next()) {
      text += part->text;
      check_signals();
    }
  }
  return str_of(text);
}

// What a run says of itself. Who computes its next token holds its lock meanwhile.
template <class Run, std::string (Run::*property)() const>
std::string said_by(const Run& run) {
  nb::gil_scoped_release free;
  return (run.*property)();
}

// (id, text, logprob, [(id, logprob), ...]), or None at the end.
nb::object next_part(TextRun& run) {
  std::optional<toy::bind::TextPart> part;
  {
    nb::gil_scoped_release free;
    part = run.next();
  }
  if (!part) return nb::none();
  nb::list best;
  for (const toy::TokenLogprob& b : part->token.best) best.append(nb::make_tuple(b.id, b.logprob));
  return nb::make_tuple(part->token.chosen.id, str_of(part->text), part->token.chosen.logprob, best);
}

std::unique_ptr<ChatRun> chat(const ModelPtr& model, const std::string& messages, const std::string& options) {
  nb::gil_scoped_release free;
  TextOptions o = toy::bind::parse_text_options(options, model->model(), TextKind::chat);
  return std::make_unique<ChatRun>(model, messages, std::move(o));
}

// (text, thought), or None at the end.
nb::object next_piece(ChatRun& run) {
  std::optional<toy::dialog::Piece> piece;
  {
    nb::gil_scoped_release free;
    piece = run.next();
  }
  return piece ? nb::object(nb::make_tuple(str_of(piece->text), str_of(piece->thought))) : nb::none();
}

// (numbers as JSON, ids, logprobs)
nb::tuple score(const ModelPtr& model, const std::string& text, const std::string& options) {
  std::vector<toy::TokenScore> tokens;
  toy::TextScore s;
  {
    nb::gil_scoped_release free;
    const auto o = toy::bind::parse_score_options(options);
    s = model->score(text, o, tokens, [] {
      check_signals();
      return false;
    });
  }
  std::vector<int32_t> ids;
  std::vector<double> logprobs;
  for (const toy::TokenScore& t : tokens) ids.push_back(t.token.id), logprobs.push_back(t.token.logprob);
  const size_t n = ids.size();
  return nb::make_tuple(toy::bind::score_json(s), array_of(std::move(ids), {n}), array_of(std::move(logprobs), {n}));
}

nb::object logits(const ModelPtr& model, const std::vector<int32_t>& ids, const std::string& options) {
  std::vector<float> values;
  {
    nb::gil_scoped_release free;
    values = model->logits(ids, options);
  }
  return array_of(std::move(values), {ids.size(), size_t(model->model().spec.vocab)});
}

// Texts, or lists of ids: (values, lengths of the vectors), one after the other.
nb::list embed(const ModelPtr& model, const std::vector<Prompt>& texts, const std::string& options) {
  std::vector<toy::bind::TextToEmbed> list;
  for (size_t i = 0; i < texts.size(); ++i) {
    list.push_back({texts.size() == 1 ? "text" : "text " + std::to_string(i + 1), "", {}});
    if (const auto* text = std::get_if<std::string>(&texts[i]))
      list.back().text = *text;
    else
      list.back().ids = std::get<std::vector<int32_t>>(texts[i]);
  }
  size_t width = 0;
  std::vector<std::vector<float>> vectors;
  {
    nb::gil_scoped_release free;
    vectors = model->embed(list, options, width);
  }
  nb::list all;
  for (std::vector<float>& v : vectors) {
    const size_t rows = v.size() / width;
    all.append(array_of(std::move(v), {rows, width}));
  }
  return all;
}

nb::dict taps(const ModelPtr& model, const std::vector<int32_t>& ids, const std::vector<std::string>& patterns,
              const std::string& options) {
  std::vector<toy::bind::Tap> found;
  {
    nb::gil_scoped_release free;
    found = toy::bind::taps(*model, ids, patterns, options);
  }
  nb::dict all;
  for (toy::bind::Tap& t : found)
    all[t.name.c_str()] =
        t.i32.empty() ? array_of(std::move(t.f32), shape_of(t.shape)) : array_of(std::move(t.i32), shape_of(t.shape));
  return all;
}

std::vector<int32_t> encode(const ModelPtr& model, const std::string& text, bool bos, bool parse_special) {
  TextOptions o;
  o.bos = bos, o.parse_special = parse_special;
  return model->prompt_ids(text, o);
}

nb::bytes decode(const ModelPtr& model, const std::vector<int32_t>& ids) {
  const std::string text = model->tokenizer().decode(ids);
  return nb::bytes(text.data(), text.size());
}

}  // namespace

void add_model(nb::module_& m) {
  nb::class_<TextRun>(m, "TextRun")
      .def("next", &next_part)
      .def_prop_ro("reason", &said_by<TextRun, &TextRun::reason>)
      .def_prop_ro("prompt_tokens", &TextRun::prompt_tokens);
  nb::class_<ChatRun>(m, "ChatRun")
      .def("next", &next_piece)
      .def_prop_ro("message", &said_by<ChatRun, &ChatRun::message>)
      .def_prop_ro("reason", &said_by<ChatRun, &ChatRun::reason>);
  nb::class_<BoundModel>(m, "Model")
      .def_prop_ro("path", [](const BoundModel& b) { return b.path(); })
      .def_prop_ro("spec", [](const BoundModel& b) { return b.spec_json(); })
      .def_prop_ro("warnings", [](const BoundModel& b) { return b.model().warnings; })
      .def_prop_ro("tokenizer_kind", [](const BoundModel& b) { return std::string(b.tokenizer().kind()); })
      .def("encode", &encode, "text"_a, "bos"_a, "parse_special"_a)
      .def("decode", &decode, "ids"_a)
      .def("token",
           [](const BoundModel& b, int32_t id) {
             b.check_ids(std::span(&id, 1));
             const std::string text = b.tokenizer().written(id);
             return nb::bytes(text.data(), text.size());
           })
      .def_prop_ro("bos", [](const BoundModel& b) { return b.tokenizer().bos(); })
      .def_prop_ro("eos", [](const BoundModel& b) { return b.tokenizer().eos(); })
      .def_prop_ro("vocab", [](const BoundModel& b) { return b.model().spec.vocab; })
      .def_prop_ro("names", [](const BoundModel& b) { return b.model().params->names(); })
      .def("has", [](const BoundModel& b, const std::string& name) { return b.model().params->has(name); })
      .def("tensor_type",
           [](const BoundModel& b, const std::string& name) {
             return std::make_tuple(std::string(toy::name_of(b.model().params->stored(name))),
                                    shape_of(b.model().params->type(name).shape));
           })
      .def(
          "array",
          [](const ModelPtr& model, const std::string& name) {
            std::optional<toy::HostTensor> tensor;
            {
              nb::gil_scoped_release free;
              tensor = model->tensor(name);
            }
            return look_at(model, std::move(*tensor), name, false);
          },
          "name"_a)
      .def("dequantized", &dequantized, "name"_a)
      .def("start", &start, "prompt"_a, "options"_a)
      .def("generate", &generate, "prompt"_a, "options"_a)
      .def("chat", &chat, "messages"_a, "options"_a)
      .def("score", &score, "text"_a, "options"_a)
      .def("logits", &logits, "ids"_a, "options"_a)
      .def("embed", &embed, "texts"_a, "options"_a)
      .def_prop_ro("svg", [](BoundModel& b) { return toy::bind::forward_svg(b); })
      .def_prop_ro("tap_names", [](BoundModel& b) { return toy::bind::tap_names(b); })
      .def("taps", &taps, "ids"_a, "names"_a, "options"_a);
  m.def(
      "load",
      [](const std::string& what, const std::string& options) {
        nb::gil_scoped_release free;
        return BoundModel::load(what, options);
      },
      "what"_a, "options"_a);
}
