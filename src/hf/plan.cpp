#include "hf/plan.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "hf/delta_net.h"
#include "hf/kimi_linear.h"
#include "toy/base/error.h"
#include "toy/base/options.h"

namespace toy::hf {
namespace {

// A vector for each expert.
bool is_expert_bias(const TensorSpec& t) { return t.name.ends_with("_exps.bias"); }

// "attn_q" of "blk.3.attn_q.weight".
std::string_view stem_of(const TensorSpec& t) {
  std::string_view name = t.name;
  if (t.block >= 0) name.remove_prefix(name.find('.', 4) + 1);
  return name.substr(0, name.find('.'));
}

// Of a tensor in such a layer.
const DeltaNet* delta_net_of(const ModelSpec& spec, const TensorSpec& t) {
  if (t.block < 0) return nullptr;
  const LayerSpec& l = spec.layers[size_t(t.block)];
  return l.mixer == MixerKind::gated_delta ? &l.delta : nullptr;
}

// A filter for each channel; a folder's are [channels,1,W].
bool is_filter(const TensorSpec& t) {
  return (stem_of(t).starts_with("ssm_conv1d") || t.name.ends_with(".shortconv.conv.weight")) && t.shape.rank() > 1;
}

// Of Mamba-2: a GGUF holds vectors as matrices.
bool is_flat(const TensorSpec& t) {
  const std::string_view stem = stem_of(t);
  return t.shape.rank() == 2 && (stem == "ssm_a_log" || stem == "ssm_d" || stem == "ssm_norm");
}

// Of a latent's heads: a folder has the rows of all in one matrix.
bool is_of_latent(const TensorSpec& t) { return stem_of(t) == "attn_k_b" || stem_of(t) == "attn_v_b"; }

// Whose matrices of heads are columns in the folder.
bool is_latent_key(const TensorSpec& t) { return stem_of(t) == "attn_k_b"; }

// Experts of a folder's tensor, and rows and columns of each; a vector has one column.
struct Matrix {
  int64_t experts, rows, columns;
};
Matrix matrix_of(const TensorSpec& t) {
  const Shape& s = t.shape;
  if (is_latent_key(t)) return {1, s[0] * s[2], s[1]};
  if (is_of_latent(t)) return {1, s[0] * s[1], s[2]};
  if (s.rank() == 4) return {1, s[1] * s[2], s[3]};
  if (s.rank() == 3) return {s[0], s[1], s[2]};
  if (is_expert_bias(t)) return {s[0], s[1], 1};
  return {1, s[0], s.rank() == 2 ? s[1] : 1};
}

// Has the folder's tensor another rank?
bool is_reshaped(const TensorSpec& t) { return is_filter(t) || is_flat(t) || is_of_latent(t) || t.shape.rank() == 4; }

// A tensor of the model within one of the folder.
struct Place {
  std::string name;         // with `*` for the number of an expert
  int64_t first_row, rows;  // where it begins, and how many there are of all tensors in it
  std::vector<Run> runs;    // where its rows are, in their order
};

// Where tensors of a model are in the folder: several may be rows of one.
class Places {
 public:
  Places(const HfModel& model, const ModelSpec& spec) : model_(model), spec_(spec) {
    for (const TensorSpec& t : tensors_of(spec)) {
      const std::string name = hf_name(model, t.name);
      int64_t& rows = rows_[name];
      first_[t.name] = rows;
      rows += matrix_of(t).rows;
    }
  }
  Place of(const TensorSpec& t) const {
    const std::string name = hf_name(model_, t.name);
    const int64_t first = first_.at(t.name);
    std::vector<Run> runs{{first, matrix_of(t).rows}};
    if (const DeltaNet* d = delta_net_of(spec_, t))
      if (const auto rows = rows_of_delta_net(*d, stem_of(t), model_.packed_delta_net)) runs = *rows;
    if (is_of_latent(t)) runs = rows_of_latent(spec_.layers[size_t(t.block)], stem_of(t));
    return {name, first, rows_.at(name), std::move(runs)};
  }

 private:
  const HfModel& model_;
  const ModelSpec& spec_;
  std::map<std::string, int64_t> rows_, first_;
};

bool is_transposed(const HfModel& model, const TensorSpec& t) {
  return model.transposed && t.block >= 0 && t.shape.rank() == 2;
}

// Does it go as_columns? Then tensors take turns.
bool takes_turns(const HfModel& model, const TensorSpec& t) {
  return model.transposed_experts && (t.shape.rank() == 3 || is_expert_bias(t));
}

std::string of_expert(std::string name, int64_t expert) {
  if (const size_t star = name.find('*'); star != name.npos) name.replace(star, 1, std::to_string(expert));
  return name;
}

// The shape that a folder's tensor has to have.
Shape folder_shape(const HfModel& model, const TensorSpec& t, const Place& place) {
  const Matrix m = matrix_of(t);
  if (t.shape.rank() == 1) return {place.rows};
  if (is_filter(t)) return {place.rows, 1, m.columns};
  if (is_flat(t)) return {place.rows * m.columns};
  if (is_of_latent(t)) return {place.rows, m.columns};
  if (t.shape.rank() == 4) return t.shape;
  if (is_expert_bias(t)) return {m.experts, place.rows};
  if (takes_turns(model, t)) return {m.experts, m.columns, place.rows};
  if (is_transposed(model, t)) return {m.columns, place.rows};
  if (t.shape.rank() == 3 && place.name.find('*') == place.name.npos) return {m.experts, place.rows, m.columns};
  return {place.rows, m.columns};
}

// What a GGUF has of a tensor besides its numbers: the order within heads and of columns, and functions.
Piece decorated(const HfModel& model, const Reading& r, const TensorSpec& t, Piece piece) {
  const auto is = [&](std::string_view name) { return stem_of(t) == name; };
  if (t.block >= 0 && r.spec.positions == PositionKind::rope && r.spec.rope.pairing == RopePairing::neighbour &&
      (is("attn_q") || is("attn_k"))) {
    const LayerSpec& l = r.spec.layers[size_t(t.block)];
    if (l.mixer == MixerKind::attention)
      piece.order = Piece::pairs, piece.heads = is("attn_q") ? l.heads : l.kv_heads, piece.turned = l.rope_dims;
  }
  piece.transposed = is_latent_key(t);
  const bool has_q_norm = t.block >= 0 && r.spec.layers[size_t(t.block)].qk_norm != LayerSpec::no_qk_norm;
  if (is(has_q_norm ? "attn_q_norm" : "attn_q")) piece.scale = r.q_scale;
  if (model.norm_plus_1 && t.part == ModelPart::norm && !is("ssm_norm")) piece.add = piece.scale;  // s (1 + w)
  if (t.in_file == TensorSpec::InFile::minus_exp) piece.function = Piece::minus_exp;
  if (const DeltaNet* d = delta_net_of(r.spec, t); d && is("ssm_out") && d->heads == HeadMap::tile)
    piece.columns = {d->key_heads, d->width};
  return piece;
}

// The way back.
Piece undecorated(const HfModel& model, const Reading& r, const TensorSpec& t, Piece piece) {
  piece = decorated(model, r, t, std::move(piece));
  if (piece.order == Piece::pairs) piece.order = Piece::halves;
  if (piece.function == Piece::minus_exp) piece.function = Piece::log_minus;
  if (const DeltaNet* d = delta_net_of(r.spec, t); piece.columns.groups > 0)
    piece.columns.groups = d->value_heads / d->key_heads;
  piece.add = -piece.add;
  return piece;
}

// The tensor of the folder that this one is a part of.
const View& find_view(Shards& shards, const HfModel& model, const ModelSpec& spec, const TensorSpec& t,
                      const Place& place, int64_t expert) {
  std::string name = of_expert(place.name, expert);
  // Of a model whose output is its embedding, where a GGUF has to hold it twice.
  if (t.name == "output.weight" && !shards.find(name) && !spec.tied) {
    const std::string embedding = hf_name(model, "token_embd.weight");
    if (shards.find(embedding)) name = embedding;
  }
  const View& view = shards.require(name);
  const Shape want = folder_shape(model, t, place);
  check(view.shape == want, "the tensor '{}' is {}; config.json asks for {}", name, view.shape.str(), want.str());
  check(is_float(view.dtype), "the tensor '{}' is {}; supported: F32, F16, BF16, F64", name, name_of(view.dtype));
  return view;
}

View expert_of(const TensorSpec& t, const View& tensor, int64_t expert) {
  if (is_reshaped(t)) {
    const int64_t columns = tensor.shape.rank() > 1 ? tensor.shape.back() : matrix_of(t).columns;
    return {tensor.data, tensor.dtype, {tensor.shape.count() / columns, columns}};
  }
  if (tensor.shape.rank() != 3 && !is_expert_bias(t)) return tensor;
  View v = tensor;
  v.shape = Shape{};
  for (int i = 1; i < tensor.shape.rank(); ++i) {
    v.shape.push_back(tensor.shape[i]);
    v.stride[size_t(i - 1)] = tensor.stride[size_t(i)];
  }
  v.data = static_cast<std::byte*>(tensor.data) + bytes_of(tensor.dtype, expert * tensor.stride[0]);
  return v;
}

// Rows of an expert that take turns with those of other tensors.
Piece piece_in_turns(Shards& shards, const HfModel& model, const ModelSpec& spec, const TensorSpec& t,
                     const Place& place, int64_t expert) {
  const Matrix m = matrix_of(t);
  const int64_t first = place.first_row / m.rows, step = place.rows / m.rows;
  Piece piece;
  if (const auto* blocks = shards.find_bytes(place.name + "_blocks")) {
    const auto* scales = shards.find_bytes(place.name + "_scales");
    const Shape want{m.experts, place.rows, m.columns / 32, 16}, groups{want[0], want[1], want[2]};
    check(m.columns % 32 == 0 && blocks->shape == want && scales && scales->shape == groups,
          "the tensor '{0}_blocks' is {1}, and '{0}_scales' {2}; config.json asks for {3} and {4}", place.name,
          blocks->shape.str(), scales ? scales->shape.str() : "missing", want.str(), groups.str());
    const int64_t at = (expert * place.rows + first) * groups[2];
    piece.packed = {blocks->data + at * 16, scales->data + at, m.rows, groups[2], step};
    return piece;
  }
  const View view = expert_of(t, find_view(shards, model, spec, t, place, expert), expert);
  piece.rows = every(is_expert_bias(t) ? rows_of(view, first, m.rows) : columns_of(view, first, m.rows), step);
  return piece;
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
  for (const TensorSpec& t : tensors_of(spec)) known.push_back(of_expert(hf_name(model, t.name), 0));
  for (const std::string& name : shards.left()) {
    if ((spec.tied && name == "lm_head.weight") || is_unused(name)) continue;  // the head: the embedding once more
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
  const Places places(model, r.spec);
  std::vector<Output> outputs;
  for (const FileTensor& file : file_tensors(r.spec)) {
    Output& out = outputs.emplace_back(Output{file.name, file.shape, DType::f32, {}});
    for (const TensorSpec& t : file.parts) {
      const Place place = places.of(t);
      const Matrix m = matrix_of(t);
      for (int64_t e = 0; e < m.experts; ++e) {
        if (takes_turns(model, t)) {
          const Piece& piece = out.pieces.emplace_back(piece_in_turns(shards, model, r.spec, t, place, e));
          if (t.narrow) out.stored = stored.value_or(piece.packed ? DType::mxfp4 : stored_as(piece.rows.dtype));
          continue;
        }
        const View view = expert_of(t, find_view(shards, model, r.spec, t, place, e), e);
        for (const Run& run : place.runs) {
          Piece piece;
          piece.rows =
              is_transposed(model, t) ? columns_of(view, run.first, run.rows) : rows_of(view, run.first, run.rows);
          out.pieces.push_back(decorated(model, r, t, std::move(piece)));
        }
        if (t.narrow) out.stored = stored.value_or(stored_as(view.dtype));
      }
    }
  }
  refuse_unknown(shards, model, r.spec);
  return outputs;
}

MapPlace place_of_map(const HfModel& model, const ModelSpec& spec, const TensorSpec& t) {
  const Place place = Places(model, spec).of(t);
  MapPlace map{place.name, {}, {}, place.rows};
  for (const Run& run : place.runs) {
    const Piece piece = decorated(model, {spec, 1}, t, {});
    const int64_t width = run.rows / piece.heads;
    for (int64_t r = 0; r < run.rows; ++r) {
      const int64_t in_head = r % width;
      map.rows.push_back(run.first +
                         (piece.order == Piece::pairs ? r - in_head + in_head % 2 * (width / 2) + in_head / 2 : r));
    }
    if (!map.columns.empty()) continue;
    const int64_t columns = t.shape[1], groups = piece.columns.groups, head = piece.columns.width;
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t in_group = groups > 0 ? columns / (groups * head) : 1;  // heads
      const int64_t j = c / (groups * head + (groups == 0)), g = groups > 0 ? c / head % groups : 0;
      map.columns.push_back(groups > 0 ? (g * in_group + j) * head + c % head : c);
    }
  }
  return map;
}

std::vector<Output> plan_folder(const HfModel& model, const ModelSpec& spec, const gguf::File& file, DType stored) {
  const Places places(model, spec);
  const Reading reading{spec, 1};
  std::vector<Output> outputs;
  std::map<std::string, size_t> number;  // of outputs, by name
  // Pieces of an output by expert and first row: one holds all experts, or several tensors.
  std::map<size_t, std::map<int64_t, std::multimap<int64_t, Piece>>> by_expert;
  for (const FileTensor& f : file_tensors(spec)) {
    const gguf::TensorInfo* own = file.find(f.name);
    // Of a model whose output is its embedding, in a class that does not tie them.
    const gguf::TensorInfo& info =
        own || f.name != "output.weight" ? file.require(f.name) : file.require("token_embd.weight");
    const View all(const_cast<std::byte*>(info.data), *info.dtype, info.shape);
    int64_t row = 0;  // within the file's tensor
    for (const TensorSpec& t : f.parts) {
      const Place place = places.of(t);
      const Matrix m = matrix_of(t);
      for (int64_t e = 0; e < m.experts; ++e) {
        const auto [at, is_new] = number.emplace(of_expert(place.name, e), outputs.size());
        if (is_new) outputs.push_back({at->first, folder_shape(model, t, place), stored, {}});
        auto& pieces = by_expert[at->second][e];
        if (takes_turns(model, t)) {
          outputs[at->second].as_columns = place.rows / m.rows;
          pieces.emplace(place.first_row, Piece{.rows = rows_of(expert_of(t, all, e), 0, m.rows)});
        } else if (is_transposed(model, t)) {
          check(!is_quantized(all.dtype),
                "{}: tensor '{}' is {}, and its columns become rows; use --type on a copy that "
                "`toy convert` made of floats",
                file.path(), f.name, info.type_name);
          check(place.rows == all.shape[0], "{}: '{}' would be made of several tensors", file.path(), at->first);
          // Those of the other parts are there already.
          if (&t == &f.parts.front()) pieces.emplace(0, Piece{.rows = columns_of(all, 0, m.columns)});
        } else {
          int64_t from = row;
          for (const Run& run : place.runs) {
            const int64_t rows = is_latent_key(t) ? m.columns : run.rows;
            Piece piece{.rows = rows_of(expert_of(t, all, e), from, rows)};
            pieces.emplace(run.first, undecorated(model, reading, t, std::move(piece)));
            from += rows;
          }
        }
      }
      row += m.rows;
    }
  }
  for (auto& [at, experts] : by_expert)
    for (auto& [e, pieces] : experts)
      for (auto& [row, piece] : pieces) outputs[at].pieces.push_back(std::move(piece));
  return outputs;
}

}  // namespace toy::hf
