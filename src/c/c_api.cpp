// The C interface, include/toy/c/toy.h: calls of src/bind without exceptions.
#include "toy/c/toy.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <span>

#include "bind/bound_model.h"
#include "bind/chat_run.h"
#include "bind/describe_options.h"
#include "bind/file_error.h"
#include "bind/score_fields.h"
#include "bind/text_run.h"
#include "bind/train_run.h"
#include "bind/version.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

using toy::bind::TextKind;

struct toy_model {
  std::shared_ptr<toy::bind::BoundModel> bound;
};
struct toy_text {
  std::unique_ptr<toy::bind::TextRun> run;
  std::string piece;
};

namespace {

thread_local std::string last_error;

// What a callback has stopped.
struct StoppedByCallback {};

template <class F>
toy_status guarded(const F& f) {
  last_error.clear();
  try {
    f();
    return TOY_OK;
  } catch (const StoppedByCallback&) {
    last_error = "a callback has ended the computation";
    return TOY_STOPPED;
  } catch (const toy::Error& e) {
    last_error = toy::valid_utf8(e.what());
    return e.code() == toy::ErrorCode::bad_input ? TOY_BAD_INPUT : TOY_FAILURE;
  } catch (const std::filesystem::filesystem_error& e) {
    last_error = toy::valid_utf8(toy::bind::file_error_text(e));
    return TOY_BAD_INPUT;
  } catch (const std::bad_alloc&) {
    last_error = "there is not enough memory";
  } catch (const std::exception& e) {
    last_error = toy::valid_utf8(e.what());
  } catch (...) {
    last_error = "something that is no exception was thrown";
  }
  return TOY_FAILURE;
}

template <class T>
T& given(T* pointer, const char* what) {
  toy::check(pointer != nullptr, "{} is NULL", what);
  return *pointer;
}

std::string options_of(const char* json) { return json != nullptr ? json : ""; }

// Memory for toy_free().
void* allocated(size_t bytes) {
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

template <class T>
T* copied(std::span<const T> values) {
  auto* memory = static_cast<T*>(allocated(values.size_bytes()));
  if (!values.empty()) std::memcpy(memory, values.data(), values.size_bytes());
  return memory;
}

char* copied(const std::string& text) { return copied(std::span(text.c_str(), text.size() + 1)); }

// '\0' ends a text in C.
std::string without_zeros(std::string text) {
  for (size_t at = 0; (at = text.find('\0', at)) != text.npos;) text.replace(at, 1, "\xEF\xBF\xBD");
  return text;
}

std::span<const int32_t> ids_of(const int32_t* ids, size_t count) {
  toy::check(ids != nullptr || count == 0, "ids is NULL");
  return {ids, count};
}

// Shows pieces to a callback, and stops for it.
class Shown {
 public:
  Shown(toy_on_text call, void* user) : call_(call), user_(user) {}
  void piece(const std::string& text) {
    if (call_ != nullptr && !text.empty() && call_(user_, text.c_str()) != 0) stopped = true;
  }
  bool stopped = false;

 private:
  toy_on_text call_;
  void* user_;
};

}  // namespace

int toy_abi(void) { return TOY_ABI; }
const char* toy_version(void) { return toy::bind::version(); }
const char* toy_last_error(void) { return last_error.c_str(); }
void toy_free(void* memory) { std::free(memory); }

toy_status toy_options(const char* call, char** json) {
  return guarded([&] { given(json, "json") = copied(toy::bind::options_json(&given(call, "call"))); });
}

toy_status toy_load(const char* model, const char* options, toy_model** out) {
  return guarded([&] {
    given(out, "out");
    *out = new toy_model{toy::bind::BoundModel::load(&given(model, "model"), options_of(options))};
  });
}

void toy_model_free(toy_model* model) { delete model; }

toy_status toy_spec(const toy_model* model, char** json) {
  return guarded([&] { given(json, "json") = copied(given(model, "model").bound->spec_json()); });
}

toy_status toy_encode(const toy_model* model, const char* text, int as_prompt, int32_t** ids, size_t* count) {
  return guarded([&] {
    toy::bind::TextOptions o;
    o.bos = o.parse_special = as_prompt != 0;
    const auto list = given(model, "model").bound->prompt_ids(&given(text, "text"), o);
    given(count, "count") = list.size();
    given(ids, "ids") = copied(std::span(list));
  });
}

toy_status toy_decode(const toy_model* model, const int32_t* ids, size_t count, char** bytes, size_t* size) {
  return guarded([&] {
    const std::string text = given(model, "model").bound->tokenizer().decode(ids_of(ids, count));
    given(size, "size") = text.size();
    given(bytes, "bytes") = copied(text);
  });
}

toy_status toy_generate(toy_model* model, const char* prompt, const char* options, toy_on_text on_text, void* user,
                        char** text) {
  return guarded([&] {
    const auto& bound = given(model, "model").bound;
    bound->tokenizer();
    auto o = toy::bind::parse_text_options(options_of(options), bound->model(), TextKind::continuation);
    auto ids = bound->prompt_ids(&given(prompt, "prompt"), o);
    const auto run = toy::bind::continue_text(bound, std::move(ids), std::move(o));
    Shown shown(on_text, user);
    std::string all;
    while (const auto part = shown.stopped ? std::nullopt : run->next()) {
      const std::string piece = without_zeros(part->text);
      all += piece;
      shown.piece(piece);
    }
    if (text != nullptr) *text = copied(all);
    if (shown.stopped) throw StoppedByCallback();
  });
}

toy_status toy_chat(toy_model* model, const char* messages, const char* options, toy_on_text on_text, void* user,
                    char** message) {
  return guarded([&] {
    const auto& bound = given(model, "model").bound;
    auto o = toy::bind::parse_text_options(options_of(options), bound->model(), TextKind::chat);
    toy::bind::ChatRun run(bound, &given(messages, "messages"), std::move(o));
    Shown shown(on_text, user);
    while (const auto piece = shown.stopped ? std::nullopt : run.next()) shown.piece(without_zeros(piece->text));
    if (message != nullptr) *message = copied(run.message());
    if (shown.stopped) throw StoppedByCallback();
  });
}

toy_status toy_text_begin(toy_model* model, const int32_t* prompt, size_t count, const char* options, toy_text** out) {
  return guarded([&] {
    const auto& bound = given(model, "model").bound;
    given(out, "out");
    auto o = toy::bind::parse_text_options(options_of(options), bound->model(), TextKind::continuation);
    const auto ids = ids_of(prompt, count);
    *out = new toy_text{toy::bind::continue_text(bound, {ids.begin(), ids.end()}, std::move(o)), {}};
  });
}

toy_status toy_text_next(toy_text* text, int32_t* id, double* logprob, const char** piece) {
  return guarded([&] {
    toy_text& t = given(text, "text");
    given(piece, "piece");
    const auto part = t.run->next();
    t.piece = part ? without_zeros(part->text) : "";
    *piece = part ? t.piece.c_str() : nullptr;
    if (id != nullptr) *id = part ? part->token.chosen.id : -1;
    if (logprob != nullptr) *logprob = part ? part->token.chosen.logprob : 0;
  });
}

void toy_text_free(toy_text* text) { delete text; }

toy_status toy_score(toy_model* model, const char* text, const char* options, char** json, double** logprobs,
                     size_t* count) {
  return guarded([&] {
    std::vector<toy::TokenScore> tokens;
    const auto o = toy::bind::parse_score_options(options_of(options));
    const auto score = given(model, "model").bound->score(&given(text, "text"), o, tokens, [] { return false; });
    if (logprobs != nullptr) {
      std::vector<double> list;
      for (const toy::TokenScore& t : tokens) list.push_back(t.token.logprob);
      given(count, "count") = list.size();
      *logprobs = copied(std::span<const double>(list));
    }
    given(json, "json") = copied(toy::bind::score_json(score));
  });
}

toy_status toy_logits(toy_model* model, const int32_t* ids, size_t count, const char* options, float** logits,
                      size_t* vocabulary) {
  return guarded([&] {
    const auto& bound = given(model, "model").bound;
    const auto values = bound->logits(ids_of(ids, count), options_of(options));
    given(vocabulary, "vocabulary") = size_t(bound->model().spec.vocab);
    given(logits, "logits") = copied(std::span(values));
  });
}

toy_status toy_tensors(const toy_model* model, char** json) {
  return guarded([&] {
    const nlohmann::ordered_json names = given(model, "model").bound->model().params->names();
    given(json, "json") = copied(toy::json_text(names));
  });
}

toy_status toy_tensor(const toy_model* model, const char* name, toy_tensor_view* view) {
  return guarded([&] {
    const toy::Model& m = given(model, "model").bound->model();
    toy::check(m.params->device().host_visible(),
               "the device '{}' has memory of its own; use toy_dequantize(), or load the model on the CPU",
               m.params->device().name());
    const toy::HostTensor tensor = m.params->host(&given(name, "name"));
    const toy::View& v = tensor.view();
    toy_tensor_view& out = given(view, "view");
    out = {};
    out.data = v.data, out.dtype = toy::name_of(v.dtype).data(), out.rank = v.shape.rank();
    out.bytes = toy::bytes_of(v.dtype, v.shape);
    for (int i = 0; i < v.shape.rank() && i < 8; ++i) out.shape[i] = v.shape[i];
  });
}

toy_status toy_dequantize(const toy_model* model, const char* name, float** values, size_t* count) {
  return guarded([&] {
    const auto list = given(model, "model").bound->values(&given(name, "name"));
    given(count, "count") = list.size();
    given(values, "values") = copied(std::span(list));
  });
}

toy_status toy_train(const char* recipe, const char* options, toy_on_event on_event, void* user, char** result) {
  return guarded([&] {
    bool stopped = false;
    const auto event = [&](const std::string& json) {
      if (on_event != nullptr && on_event(user, json.c_str()) != 0) stopped = true;
    };
    const std::string left =
        toy::bind::train(&given(recipe, "recipe"), options == nullptr || !*options ? "{}" : options,
                         {.event = event, .preparing = {}, .stop = [&] { return stopped; }});
    if (result != nullptr) *result = copied(left);
    if (stopped) throw StoppedByCallback();
  });
}
