#include "toy/eval/importance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/graph/op_def.h"
#include "toy/models/transformer.h"

namespace toy {
namespace {

// What the matrix of this name is multiplied with, squared and summed over rows: output `output` of the plan.
struct Tap {
  std::string tensor;  // as files name it
  size_t output;
};

struct Taps {
  std::vector<Tap> taps;
  std::vector<Value> outputs;
};

// Maps that share their operand (q, k and v) share an output.
Taps find_taps(Graph& g, const std::vector<TensorSpec>& tensors) {
  std::map<std::string, std::string> file_names;
  for (const TensorSpec& t : tensors) file_names[t.name] = t.file_name.empty() ? t.name : t.file_name;
  std::vector<std::pair<std::string, Value>> operands;
  for (const Node& n : g.nodes())
    if (n.kind == NodeKind::op && n.op->name() == "linear" && g.node(n.inputs[1]).kind == NodeKind::param)
      operands.emplace_back(file_names.at(g.node(n.inputs[1]).name), n.inputs[0]);
  Taps t;
  std::map<Value, size_t> seen;
  for (const auto& [name, x] : operands) {
    const auto [known, fresh] = seen.try_emplace(x, t.outputs.size());
    if (fresh) t.outputs.push_back(sum(x * x, 0));
    t.taps.push_back({name, known->second});
  }
  return t;
}

}  // namespace

gguf::Imatrix measure_importance(Device& device, const Model& model, std::span<const int32_t> tokens, int64_t chunk,
                                 const std::function<void(int64_t, int64_t)>& progress) {
  check(!tokens.empty(), "imatrix: the text has no tokens; give a longer one");
  check(chunk >= 1, "imatrix: chunks of {} tokens, expected at least 1", chunk);
  const int64_t n = std::min(chunk, int64_t(tokens.size())), chunks = int64_t(tokens.size()) / n;
  model.spec.require_positions(n, "ctx");
  Graph g;
  const TensorType ids{DType::i32, {n}, 0};
  const Value inputs = g.input("tokens", ids, model.spec.vocab);
  const nn::Context ctx{.batch = {.sequence = g.input("sequence", ids), .position = g.input("position", ids, n)}};
  const Weights weights = model.weights(g);
  const Transformer transformer(model.spec, weights, n);
  transformer.logits(transformer(inputs, ctx));
  const Taps t = find_taps(g, weights.declared());
  auto plan = std::make_shared<const Plan>(compile(g, t.outputs, {}, device));
  require_memory(plan->arena_bytes + plan->input_bytes(device), "reading chunks of this length");
  Session session(device, plan, {model.params.get()});
  std::vector<int32_t> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), 0);
  session.set("sequence", std::vector<int32_t>(size_t(n), 0));
  session.set("position", positions);
  const bool bos = model.tokenizer && model.tokenizer->adds_bos() && model.tokenizer->bos();
  std::vector<std::vector<double>> sums(t.outputs.size());
  for (int64_t c = 0; c < chunks; ++c) {
    const auto begin = tokens.begin() + c * n;
    std::vector<int32_t> piece(begin, begin + n);
    if (bos) piece[0] = *model.tokenizer->bos();
    session.set("tokens", piece);
    session.run();
    for (size_t i = 0; i < sums.size(); ++i) {
      const std::vector<float> squares = session.values(i);
      sums[i].resize(squares.size());
      for (size_t k = 0; k < squares.size(); ++k) {
        if (!std::isfinite(squares[k])) fail_internal("imatrix: an activation is not finite; the weights are broken");
        sums[i][k] += double(squares[k]);
      }
    }
    if (progress) progress(c + 1, chunks);
  }
  gguf::Imatrix m;
  m.chunks = uint32_t(chunks), m.chunk_size = uint32_t(n);
  for (const Tap& tap : t.taps) {
    std::vector<float>& means = m.columns[tap.tensor];
    means.clear();
    for (const double s : sums[tap.output]) means.push_back(float(s / double(chunks * n)));
    m.counts[tap.tensor] = {float(chunks * n)};
  }
  return m;
}

}  // namespace toy
