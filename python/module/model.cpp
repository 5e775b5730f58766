// Models: texts, scores, logits, tensors.
#include <nanobind/ndarray.h>
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

#include "bind/bound_model.h"
#include "bind/chat_run.h"
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

// An array that owns its values.
template <class T>
nb::object array_of(std::vector<T> values, std::vector<size_t> shape) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner));
}

std::vector<size_t> shape_of(const toy::Shape& shape) {
  std::vector<size_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(size_t(shape[i]));
  return sizes;
}

// The memory that an array looks at.
struct Looked {
  ModelPtr model;  // destroyed last
  toy::HostTensor tensor;
};

// A view without a copy, read-only: it keeps the model alive.
nb::object look_at(const ModelPtr& model, const std::string& name) {
  auto looked = std::make_unique<Looked>(Looked{model, model->model().params->host(name)});
  const toy::View view = looked->tensor.view();
  nb::dlpack::dtype type;
  switch (view.dtype) {
    case toy::DType::f32:
      type = nb::dtype<float>();
      break;
    case toy::DType::f64:
      type = nb::dtype<double>();
      break;
    case toy::DType::i32:
      type = nb::dtype<int32_t>();
      break;
    case toy::DType::f16:
      type = {uint8_t(nb::dlpack::dtype_code::Float), 16, 1};
      break;
    default:
      toy::fail("tensor '{}' is {}, which numpy does not have; use dequantize()", name, toy::name_of(view.dtype));
  }
  const std::vector<size_t> shape = shape_of(view.shape);
  const nb::capsule owner(looked.release(), [](void* p) noexcept { delete static_cast<Looked*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(view.data, shape.size(), shape.data(), owner, nullptr, type));
}

nb::object dequantized(const ModelPtr& model, const std::string& name) {
  const std::vector<size_t> shape = shape_of(model->model().params->type(name).shape);
  std::vector<float> values;
  {
    nb::gil_scoped_release free;
    values = model->model().params->read(name);
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
      .def_prop_ro("reason", &TextRun::reason)
      .def_prop_ro("prompt_tokens", &TextRun::prompt_tokens);
  nb::class_<ChatRun>(m, "ChatRun")
      .def("next", &next_piece)
      .def_prop_ro("message", &ChatRun::message)
      .def_prop_ro("reason", &ChatRun::reason);
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
      .def("array", &look_at, "name"_a)
      .def("dequantized", &dequantized, "name"_a)
      .def("start", &start, "prompt"_a, "options"_a)
      .def("generate", &generate, "prompt"_a, "options"_a)
      .def("chat", &chat, "messages"_a, "options"_a)
      .def("score", &score, "text"_a, "options"_a)
      .def("logits", &logits, "ids"_a, "options"_a);
  m.def(
      "load",
      [](const std::string& what, const std::string& options) {
        nb::gil_scoped_release free;
        return BoundModel::load(what, options);
      },
      "what"_a, "options"_a);
}
