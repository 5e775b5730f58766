#include "hf/plan.h"

#include <algorithm>
#include <map>

#include "toy/base/error.h"

namespace toy::hf {
namespace {

// Experts of a tensor, and rows and columns of each; a vector has one column.
struct Matrix {
  int64_t experts, rows, columns;
};
Matrix matrix_of(const Shape& s) {
  if (s.rank() == 3) return {s[0], s[1], s[2]};
  return {1, s[0], s.rank() == 2 ? s[1] : 1};
}

// A tensor of the model within one of the folder.
struct Place {
  std::string name;         // with `*` for the number of an expert
  int64_t first_row, rows;  // where it begins, and how many there are of all tensors in it
};

// Where tensors of a model are in the folder: several may be rows of one.
class Places {
 public:
  Places(const HfModel& model, const ModelSpec& spec) : model_(model) {
    for (const TensorSpec& t : tensors_of(spec)) {
      const std::string name = hf_name(model, t.name);
      int64_t& rows = rows_[name];
      first_[t.name] = rows;
      rows += matrix_of(t.shape).rows;
    }
  }
  Place of(const TensorSpec& t) const {
    const std::string name = hf_name(model_, t.name);
    return {name, first_.at(t.name), rows_.at(name)};
  }

 private:
  const HfModel& model_;
  std::map<std::string, int64_t> rows_, first_;
};

bool is_transposed(const HfModel& model, const TensorSpec& t) {
  return model.transposed && t.block >= 0 && t.shape.rank() == 2;
}

std::string of_expert(std::string name, int64_t expert) {
  if (const size_t star = name.find('*'); star != name.npos) name.replace(star, 1, std::to_string(expert));
  return name;
}

// The shape that a folder's tensor has to have.
Shape folder_shape(const HfModel& model, const TensorSpec& t, const Place& place) {
  const Matrix m = matrix_of(t.shape);
  if (t.shape.rank() == 1) return {place.rows};
  if (is_transposed(model, t)) return {m.columns, place.rows};
  if (t.shape.rank() == 3 && place.name.find('*') == place.name.npos) return {m.experts, place.rows, m.columns};
  return {place.rows, m.columns};
}

// What a GGUF has of a tensor besides its numbers: the order of rows, and factors.
Piece decorated(const HfModel& model, const Reading& r, const TensorSpec& t, Piece piece) {
  const auto is = [&](std::string_view name) { return t.name.find("." + std::string(name) + ".") != t.name.npos; };
  if (t.block >= 0 && r.spec.positions == PositionKind::rope && r.spec.rope.pairing == RopePairing::neighbour &&
      (is("attn_q") || is("attn_k"))) {
    const LayerSpec& l = r.spec.layers[size_t(t.block)];
    piece.order = Piece::pairs, piece.heads = is("attn_q") ? l.heads : l.kv_heads;
  }
  const bool has_q_norm = t.block >= 0 && r.spec.layers[size_t(t.block)].qk_norm != LayerSpec::no_qk_norm;
  if (is(has_q_norm ? "attn_q_norm" : "attn_q")) piece.scale = r.q_scale;
  if (model.norm_plus_1 && t.part == ModelPart::norm) piece.add = piece.scale;  // s (1 + w)
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

View expert_of(const View& tensor, int64_t expert) {
  if (tensor.shape.rank() != 3) return tensor;
  View v = tensor;
  v.shape = Shape{tensor.shape[1], tensor.shape[2]};
  v.stride = {tensor.stride[1], tensor.stride[2]};
  v.data = static_cast<std::byte*>(tensor.data) + bytes_of(tensor.dtype, expert * tensor.stride[0]);
  return v;
}

void refuse_unknown(const Shards& shards, const HfModel& model, const ModelSpec& spec) {
  std::vector<std::string> known;
  for (const TensorSpec& t : tensors_of(spec)) known.push_back(of_expert(hf_name(model, t.name), 0));
  for (const std::string& name : shards.left()) {
    if (spec.tied && name == "lm_head.weight") continue;  // the embedding once more
    const std::string near = nearest(name, known);
    fail("tensor '{}' is not known in the class {} as config.json states it{}", name, model.class_name,
         near.empty() ? "" : fmt::format("; the nearest is '{}'", near));
  }
}

}  // namespace

std::vector<Output> plan_gguf(const HfModel& model, const Reading& r, Shards& shards, std::optional<DType> stored) {
  const Places places(model, r.spec);
  std::vector<Output> outputs;
  for (const FileTensor& file : file_tensors(r.spec)) {
    Output& out = outputs.emplace_back(Output{file.name, file.shape, DType::f32, {}});
    for (const TensorSpec& t : file.parts) {
      const Place place = places.of(t);
      const Matrix m = matrix_of(t.shape);
      for (int64_t e = 0; e < m.experts; ++e) {
        const View view = expert_of(find_view(shards, model, r.spec, t, place, e), e);
        Piece piece;
        piece.rows = is_transposed(model, t) ? columns_of(view, place.first_row, m.rows)
                                             : rows_of(view, place.first_row, m.rows);
        out.pieces.push_back(decorated(model, r, t, std::move(piece)));
        if (t.narrow) out.stored = stored.value_or(view.dtype == DType::f64 ? DType::f32 : view.dtype);
      }
    }
  }
  refuse_unknown(shards, model, r.spec);
  return outputs;
}

std::vector<Output> plan_folder(const HfModel& model, const ModelSpec& spec, const gguf::File& file, DType stored) {
  const Places places(model, spec);
  const Reading reading{spec, 1};
  std::vector<Output> outputs;
  std::map<std::string, size_t> number;                               // of outputs, by name
  std::map<size_t, std::map<int64_t, std::vector<Piece>>> by_expert;  // pieces of an output that holds all experts
  for (const FileTensor& f : file_tensors(spec)) {
    const gguf::TensorInfo& info = file.require(f.name);
    const View all(const_cast<std::byte*>(info.data), *info.dtype, info.shape);
    int64_t row = 0;  // within the file's tensor
    for (const TensorSpec& t : f.parts) {
      const Place place = places.of(t);
      const Matrix m = matrix_of(t.shape);
      for (int64_t e = 0; e < m.experts; ++e) {
        const auto [at, is_new] = number.emplace(of_expert(place.name, e), outputs.size());
        if (is_new) outputs.push_back({at->first, folder_shape(model, t, place), stored, {}});
        Piece piece;
        if (is_transposed(model, t)) {
          check(!is_quantized(all.dtype),
                "{}: tensor '{}' is {}, and its columns become rows; use --type on a copy that "
                "`toy convert` made of floats",
                file.path(), f.name, info.type_name);
          check(place.rows == all.shape[0], "{}: '{}' would be made of several tensors", file.path(), at->first);
          if (&t == &f.parts.front())
            piece.rows = columns_of(all, 0, m.columns);
          else
            continue;  // its columns are there already
        } else {
          piece.rows = rows_of(expert_of(all, e), row, m.rows);
        }
        piece = decorated(model, reading, t, std::move(piece));
        if (piece.order == Piece::pairs) piece.order = Piece::halves;
        piece.add = -piece.add;
        by_expert[at->second][e].push_back(std::move(piece));
      }
      row += m.rows;
    }
  }
  for (auto& [at, experts] : by_expert)
    for (auto& [e, pieces] : experts) outputs[at].pieces.insert(outputs[at].pieces.end(), pieces.begin(), pieces.end());
  return outputs;
}

}  // namespace toy::hf
