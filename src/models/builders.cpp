#include "models/builders.h"

namespace toy {

std::vector<nn::Adapter> make_adapters(const Weights& w, const std::string& name, const Shape& weight, bool rows) {
  std::vector<nn::Adapter> list;
  for (size_t i = 0; i < w.adapters().size(); ++i) {
    const AdapterSpec& adapter = w.adapters()[i];
    const auto map = adapter.maps.find(w.full_name(name));
    if (map == adapter.maps.end()) continue;
    const AdapterNames names(name, i);
    TensorSpec a{Init::matrix, names.a, weight}, b{Init::zeros, names.b, weight};
    a.shape[weight.rank() - 2] = b.shape[weight.rank() - 1] = map->second.rank;
    if (rows) a.init = Init::zeros, b.init = Init::matrix, a.shape = {weight[0], a.shape[0]}, b.shape[0] = weight[1];
    a.adapter = b.adapter = int(i);
    list.push_back({w(a), w(b), double(map->second.scale), {}, names.a, w.factors(i)});
    if (adapter.dropout > 0) list.back().dropout = {w.random(), adapter.dropout};
    if (map->second.principal) {
      a.name = names.a0, b.name = names.b0;
      list.back().first_a = w(a), list.back().first_b = w(b);
    }
    if (map->second.magnitude == AdapterSpec::Magnitude::none) continue;
    TensorSpec m{Init::ones, names.m, {weight[0]}}, n{Init::zeros, names.n, {weight[0]}};
    m.adapter = n.adapter = int(i);
    list.back().magnitude = w(m), list.back().norm = w(n);
    list.back().constant_norm = map->second.magnitude == AdapterSpec::Magnitude::constant;
  }
  return list;
}

nn::Linear make_linear(const Weights& w, const std::string& name, int64_t rows, int64_t columns, bool bias,
                       const std::string& in_file) {
  const auto in = [&](const char* kind) { return in_file.empty() ? "" : in_file + kind; };
  TensorSpec weight{Init::matrix, name + ".weight", {rows, columns}, in(".weight")};
  weight.adaptable = true;
  return {w(weight), bias ? w({Init::zeros, name + ".bias", {rows}, in(".bias")}) : Value{},
          make_adapters(w, weight.name, weight.shape)};
}

nn::RmsNorm make_rms_norm(const Weights& w, const std::string& name, int64_t width, float eps,
                          const std::string& in_file) {
  return {w.of(ModelPart::norm)({Init::ones, name + ".weight", {width}, in_file.empty() ? "" : in_file + ".weight"}),
          eps};
}

}  // namespace toy
