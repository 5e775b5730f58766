#include "hf/layout.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "hf/delta_net.h"
#include "hf/vision.h"
#include "toy/base/glob.h"

namespace toy::hf {
namespace {

Order share(std::vector<int64_t> list) { return std::make_shared<const std::vector<int64_t>>(std::move(list)); }

// "attn_q.weight" of "blk.3.attn_q.weight".
std::string without_block(const TensorSpec& t) {
  return t.block < 0 ? t.name : t.name.substr(t.name.find('.', t.name.find('.') + 1) + 1);
}

// The shape of a folder's tensor, of which sizes are those of all tensors in it.
enum class Form {
  usual,         // [rows], [rows,columns], [experts,rows,columns], or the same as in the model
  filter,        // [rows,1,columns]: one for each channel
  flat,          // [rows columns]: a GGUF holds vectors as matrices
  heads,         // [heads rows,columns]
  turned_heads,  // the same, where the model has [heads,columns,rows]
  vectors,       // [experts,rows]
};
constexpr std::pair<const char*, Form> kForms[] = {
    {"ssm_conv1d*.weight", Form::filter},
    {"shortconv.conv.weight", Form::filter},
    {"ssm_a_log", Form::flat},
    {"ssm_d", Form::flat},
    {"ssm_norm.weight", Form::flat},
    {"attn_k_b.weight", Form::turned_heads},
    {"attn_v_b.weight", Form::heads},
    {"*_exps.bias", Form::vectors},
};
constexpr std::pair<const char*, Form> kStackedForms[] = {
    {"ffn_up_exps.weight", Form::heads},
    {"ffn_down_exps.weight", Form::turned_heads},
};
Form form_of(const TensorSpec& t, bool stacked_experts) {
  const std::string name = without_block(t);
  for (const auto& [pattern, form] : kStackedForms)
    if (stacked_experts && name == pattern) return form;
  for (const auto& [pattern, form] : kForms)
    if (t.shape.rank() > 1 && matches(pattern, name)) return form;
  return Form::usual;
}

struct Sizes {
  int64_t matrices, rows, columns;
};
Sizes sizes_of(const TensorSpec& t, Form form) {
  const Shape& s = t.shape;
  if (form == Form::turned_heads) return {s[0], s[2], s[1]};
  if (form == Form::vectors) return {s[0], s[1], 1};
  if (s.rank() == 4) return {1, s[1] * s[2], s[3]};
  if (s.rank() == 3) return {s[0], s[1], s[2]};
  return {1, s[0], s.rank() == 2 ? s[1] : 1};
}

Shape shape_of(const TensorSpec& t, Form form, const Layout& at, const Sizes& s) {
  const int rank = t.shape.rank();
  if (form == Form::filter) return {at.all_rows, 1, s.columns};
  if (form == Form::flat && rank == 2) return {at.all_rows * s.columns};
  if (form == Form::heads || form == Form::turned_heads) return {s.matrices * at.all_rows, s.columns};
  if (form == Form::vectors) return {s.matrices, at.all_rows};
  if (rank == 4) return t.shape;
  if (rank == 1) return {at.all_rows};
  const Shape matrix = at.transposed ? Shape{s.columns, at.all_rows} : Shape{at.all_rows, s.columns};
  return rank == 3 && at.name.find('*') == at.name.npos ? Shape{s.matrices, matrix[0], matrix[1]} : matrix;
}

}  // namespace

Order numbers(int64_t first, int64_t count, int64_t step) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(first + i * step);
  return share(std::move(list));
}

std::string Layout::name_of(int64_t matrix) const {
  std::string one = name;
  if (const size_t star = one.find('*'); star != one.npos) one.replace(star, 1, std::to_string(matrix));
  return one;
}

int64_t Layout::first_element(int64_t matrix) const {
  return name.find('*') == name.npos ? matrix * all_rows * int64_t(columns->size()) : 0;
}

std::map<int64_t, Order> Layout::rows_in_folder() const {
  std::vector<int64_t> own(rows->size());
  std::iota(own.begin(), own.end(), 0);
  std::sort(own.begin(), own.end(), [&](int64_t a, int64_t b) { return (*rows)[size_t(a)] < (*rows)[size_t(b)]; });
  const auto folders = [&](size_t i) { return (*rows)[size_t(own[i])]; };
  std::map<int64_t, Order> list;
  for (size_t i = 0, n = 0; i < own.size(); i += n) {
    for (n = 1; i + n < own.size() && folders(i + n) == folders(i) + int64_t(n);) ++n;
    list.emplace(folders(i), share({own.begin() + std::ptrdiff_t(i), own.begin() + std::ptrdiff_t(i + n)}));
  }
  return list;
}

Order Layout::columns_in_folder() const {
  std::vector<int64_t> own(columns->size());
  for (size_t c = 0; c < own.size(); ++c) own[size_t((*columns)[c])] = int64_t(c);
  return share(std::move(own));
}

Layouts::Layouts(const HfModel& model, const ModelSpec& spec, float q_scale)
    : model_(model), spec_(spec), q_scale_(q_scale) {
  for (const TensorSpec& t : tensors_of(spec)) {
    int64_t& rows = all_rows_[hf_name(model, t.name)];
    if (t.name == "position_embd.weight") rows = model.unused_positions;
    first_[t.name] = rows;
    rows += sizes_of(t, form_of(t, model.stacked_experts)).rows;
  }
}

Layout Layouts::of(const TensorSpec& t) const {
  const Form form = form_of(t, model_.stacked_experts);
  const Sizes s = sizes_of(t, form);
  Layout at{.name = hf_name(model_, t.name), .matrices = s.matrices};
  at.all_rows = all_rows_.at(at.name);
  at.rows = share(rows_of(t, s.rows, at.all_rows));
  at.columns = numbers(0, s.columns);
  if (t.block >= 0) {
    const DeltaNet* delta = std::get_if<DeltaNet>(&spec_.layers[size_t(t.block)].mixer);
    if (delta && t.name.ends_with(".ssm_out.weight")) at.columns = share(columns_of_delta_net(*delta));
    at.transposed = form == Form::vectors || t.shape.rank() == 3 ? model_.transposed_experts
                                                                 : model_.transposed && t.shape.rank() == 2;
  }
  at.turned = form == Form::turned_heads;
  at.shape = shape_of(t, form, at, s);
  if (spec_.vision.there()) at.shape = vision_shape(spec_.vision, t.name, at.shape);
  at.change = change_of(t);
  return at;
}

std::vector<int64_t> Layouts::rows_of(const TensorSpec& t, int64_t rows, int64_t all_rows) const {
  const std::string name = without_block(t);
  const std::string_view stem = std::string_view(name).substr(0, name.find('.'));
  const LayerSpec* l = t.block >= 0 ? &spec_.layers[size_t(t.block)] : nullptr;
  if (const DeltaNet* delta = l ? std::get_if<DeltaNet>(&l->mixer) : nullptr)
    if (const auto list = rows_of_delta_net(*delta, stem, model_.packed_delta_net)) return *list;
  int64_t first = first_.at(t.name);
  if (stem.ends_with("_exps") && model_.transposed_experts) return *numbers(first / rows, rows, all_rows / rows);
  std::vector<int64_t> list = *numbers(first, rows);
  const bool is_q = stem == "attn_q", in_pairs = l && l->mixer == MixerKind::attention && (is_q || stem == "attn_k") &&
                                                 spec_.positions == PositionKind::rope &&
                                                 spec_.rope.pairing == RopePairing::neighbour;
  if (!in_pairs) return list;
  // Row 2i+b of a head is row b P/2 + i of the folder's, where P of its rows turn, the first ones.
  const int64_t width = rows / (is_q ? l->heads : l->kv_heads), turning = l->rope_dims > 0 ? l->rope_dims : width;
  for (int64_t r = 0; r < rows; ++r)
    if (const int64_t i = r % width; i < turning) list[size_t(r)] += i % 2 * (turning / 2) + i / 2 - i;
  return list;
}

Change Layouts::change_of(const TensorSpec& t) const {
  const std::string name = without_block(t);
  const std::string_view stem = std::string_view(name).substr(0, name.find('.'));
  Change change;
  const bool has_q_norm = t.block >= 0 && spec_.layers[size_t(t.block)].qk_norm != LayerSpec::no_qk_norm;
  if (stem == (has_q_norm ? "attn_q_norm" : "attn_q")) change.scale = q_scale_;
  if (model_.norm_plus_1 && t.part == ModelPart::norm && stem != "ssm_norm") change.add = change.scale;  // s (1 + w)
  if (t.in_file == TensorSpec::InFile::minus_exp) change.function = Change::minus_exp;
  return change;
}

}  // namespace toy::hf
