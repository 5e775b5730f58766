#include "hf/plan.h"

#include <algorithm>
#include <map>

#include "hf/encoders.h"
#include "hf/layout.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"

namespace toy::hf {
namespace {

// The tensor of the folder that has this matrix.
const View& find_view(Shards& shards, const HfModel& model, const ModelSpec& spec, const TensorSpec& t,
                      const Layout& at, int64_t matrix) {
  std::string name = at.name_of(matrix);
  // Of a model whose output is its embedding, where a GGUF has to hold it twice.
  if (t.name == "output.weight" && !shards.find(name) && !spec.tied) {
    const std::string embedding = hf_name(model, "token_embd.weight");
    if (shards.find(embedding)) name = embedding;
  }
  const View& view = shards.require(name);
  check(view.shape == at.shape, "the tensor '{}' is {}; config.json asks for {}", name, view.shape.str(),
        at.shape.str());
  check(is_float(view.dtype), "the tensor '{}' is {}; supported: F32, F16, BF16, F64", name, name_of(view.dtype));
  return view;
}

Rows rows_of(const View& tensor, const Layout& at, int64_t matrix) {
  const auto columns = int64_t(at.columns->size());
  View view = tensor;
  view.data = tensor.as<std::byte>() + bytes_of(tensor.dtype, at.first_element(matrix));
  view.shape = {at.all_rows, columns};
  view.stride = {columns, 1};
  if (at.transposed) view.stride = {1, at.all_rows};
  Rows rows{view, at.rows, at.columns, at.change};
  if (at.turned) {
    std::swap(rows.rows, rows.columns);
    rows.matrix.shape = {columns, at.all_rows};
    std::swap(rows.matrix.stride[0], rows.matrix.stride[1]);
  }
  return rows;
}

// MXFP4, if the folder has this tensor so.
std::optional<PackedRows> packed_rows_of(Shards& shards, const Layout& at, int64_t matrix) {
  const auto* blocks = shards.find_bytes(at.name + "_blocks");
  if (!blocks) return std::nullopt;
  const auto* scales = shards.find_bytes(at.name + "_scales");
  const auto columns = int64_t(at.columns->size());
  const Shape want{at.matrices, at.all_rows, columns / 32, 16}, groups{want[0], want[1], want[2]};
  check(columns % 32 == 0 && blocks->shape == want && scales && scales->shape == groups,
        "the tensor '{0}_blocks' is {1}, and '{0}_scales' {2}; config.json asks for {3} and {4}", at.name,
        blocks->shape.str(), scales ? scales->shape.str() : "missing", want.str(), groups.str());
  const int64_t first = matrix * at.all_rows * groups[2];
  return PackedRows{blocks->data + first * 16, scales->data + first, groups[2], at.rows};
}

void refuse_unknown(const Shards& shards, const HfModel& model, const ModelSpec& spec) {
  // What transformers 4 saved although nothing uses it.
  const auto is_unused = [&](const std::string& name) {
    for (size_t i = 0; i < spec.layers.size(); ++i)
      for (const char* of_kv : {"attn_k", "attn_v", "attn_k_norm"})
        if (spec.layers[i].shared_kv && name == hf_name(model, fmt::format("blk.{}.{}.weight", i, of_kv))) return true;
    return false;
  };
  std::vector<std::string> known;
  for (const TensorSpec& t : tensors_of(spec)) known.push_back(Layout{.name = hf_name(model, t.name)}.name_of(0));
  for (const std::string& name : shards.left()) {
    if ((spec.tied && name == "lm_head.weight") || is_unused(name) || is_unused_in_encoder(name, model))
      continue;  // the head: the embedding once more
    const std::string near = nearest(name, known);
    fail("tensor '{}' is not known in the class {} as config.json states it{}", name, model.class_name,
         near.empty() ? "" : fmt::format("; the nearest is '{}'", near));
  }
}

// The model with the names that this folder has.
HfModel as_in(Shards& shards, const HfModel& model) {
  HfModel other = model;
  other.names = model.other_names;
  return !other.names.empty() && shards.find(hf_name(other, "blk.0.ffn_gate_exps.weight")) ? other : model;
}

DType stored_as(DType type) { return type == DType::f64 ? DType::f32 : type; }

}  // namespace

std::vector<Output> plan_gguf(const HfModel& of_class, const Reading& r, Shards& shards, std::optional<DType> stored) {
  const HfModel model = as_in(shards, of_class);
  const Layouts layouts(model, r.spec, r.q_scale);
  std::vector<Output> outputs;
  for (const FileTensor& file : file_tensors(r.spec)) {
    Output& out = outputs.emplace_back(Output{file.name, file.shape});
    const auto add = [&](const TensorSpec& t, auto part, DType type) {
      out.parts.emplace(int64_t(out.parts.size()), std::move(part));
      if (t.narrow) out.stored = stored.value_or(stored_as(type));
    };
    for (const TensorSpec& t : file.parts) {
      const Layout at = layouts.of(t);
      for (int64_t i = 0; i < at.matrices; ++i) {
        if (const auto packed = at.transposed ? packed_rows_of(shards, at, i) : std::nullopt) {
          add(t, *packed, DType::mxfp4);
          continue;
        }
        const View& view = find_view(shards, model, r.spec, t, at, i);
        add(t, rows_of(view, at, i), view.dtype);
      }
    }
  }
  refuse_unknown(shards, model, r.spec);
  return outputs;
}

std::vector<Output> plan_folder(const HfModel& model, const ModelSpec& spec, const gguf::File& file, DType stored) {
  const Layouts layouts(model, spec);
  std::vector<Output> outputs;
  std::map<std::string, size_t> number;  // of outputs, by name
  for (const FileTensor& f : file_tensors(spec)) {
    const gguf::TensorInfo* own = file.find(f.name);
    // Of a model whose output is its embedding, in a class that does not tie them.
    const gguf::TensorInfo& info =
        own || f.name != "output.weight" ? file.require(f.name) : file.require("token_embd.weight");
    auto* data = const_cast<std::byte*>(info.data);
    for (const TensorSpec& t : f.parts) {
      const Layout at = layouts.of(t);
      const std::map<int64_t, Order> rows = at.rows_in_folder();
      const Order columns = at.columns_in_folder();
      Shape shape{int64_t(at.rows->size()), int64_t(columns->size())};
      if (at.turned) std::swap(shape[0], shape[1]);
      for (int64_t i = 0; i < at.matrices; ++i) {
        const View matrix(data, *info.dtype, shape);
        data += matrix.bytes();
        const auto [name, is_new] = number.emplace(at.name_of(i), outputs.size());
        if (is_new) outputs.push_back({name->first, at.shape, stored});
        auto& parts = outputs[name->second].parts;
        const int64_t first = i * at.all_rows;
        if (at.transposed) {
          const auto [part, is_first] = parts.emplace(first, Columns{at.all_rows});
          std::get<Columns>(part->second).sources.push_back({matrix, at.rows});
        } else if (at.turned) {
          parts.emplace(first + at.rows->front(), Columns{shape[0], {{matrix, columns}}});
        } else {
          for (const auto& [row, of_matrix] : rows)
            parts.emplace(first + row, Rows{matrix, of_matrix, columns, at.change.inverse()});
          if (rows.begin()->first > 0 && parts.size() == 1)  // positions that no token has
            parts.emplace(0, Rows{matrix,
                                  std::make_shared<const std::vector<int64_t>>(size_t(rows.begin()->first)),
                                  columns,
                                  {.scale = 0}});
        }
      }
    }
  }
  return outputs;
}

}  // namespace toy::hf
