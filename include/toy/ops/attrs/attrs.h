// Typed attributes of an op, type-erased. A struct lists its fields once; equality, hashing and printing follow from
// that.
//
//   struct RmsNormAttrs {
//     float eps = 1e-5f;
//     static constexpr auto fields() { return std::tuple(field("eps", &RmsNormAttrs::eps)); }
//   };
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <variant>

#include "toy/base/error.h"
#include "toy/tensor/shape.h"

namespace toy {

/// A member of an attribute struct and its name.
template <class T, class M>
struct AttrField {
  const char* name;
  M T::*member;
};
/// What a struct's fields() lists.
template <class T, class M>
constexpr AttrField<T, M> field(const char* name, M T::*member) {
  return {name, member};
}

/// A field's value as a printer or a signature sees it.
using AttrValue = std::variant<bool, int64_t, double, std::string, Shape>;

/// The attributes of one node: nothing, or a copy of one attribute struct. Cheap to copy, immutable.
class Attrs {
 public:
  Attrs() = default;
  /// Holds a copy of an attribute struct.
  template <class T>
  requires(!std::is_same_v<T, Attrs>) Attrs(const T& value) : data_(std::make_shared<Model<T>>(value)) {}

  bool empty() const { return !data_; }
  /// Throws Error{failure} when the node holds another struct: a defect of the caller.
  template <class T>
  const T& as() const {
    if (!data_ || data_->type() != typeid(T))
      fail_internal("attributes: this node does not hold a {}", typeid(T).name());
    return static_cast<const Model<T>&>(*data_).value;
  }
  /// Calls f(name, value) for each field, in order.
  void visit(const std::function<void(const char*, const AttrValue&)>& f) const {
    if (data_) data_->visit(f);
  }
  friend bool operator==(const Attrs& a, const Attrs& b) {
    if (!a.data_ || !b.data_) return !a.data_ && !b.data_;
    return a.data_ == b.data_ || a.data_->equals(*b.data_);
  }

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual const std::type_info& type() const = 0;
    virtual void visit(const std::function<void(const char*, const AttrValue&)>&) const = 0;
    virtual bool equals(const Concept&) const = 0;
  };
  template <class M>
  static AttrValue to_value(const M& m) {
    if constexpr (std::is_same_v<M, bool> || std::is_same_v<M, std::string> || std::is_same_v<M, Shape>)
      return m;
    else if constexpr (std::is_same_v<M, DType>)
      return std::string(name_of(m));
    else if constexpr (std::is_enum_v<M> || std::is_integral_v<M>)
      return int64_t(m);
    else
      return double(m);
  }
  template <class T>
  struct Model final : Concept {
    explicit Model(const T& v) : value(v) {}
    const std::type_info& type() const override { return typeid(T); }
    void visit(const std::function<void(const char*, const AttrValue&)>& f) const override {
      std::apply([&](auto... fd) { (f(fd.name, to_value(value.*fd.member)), ...); }, T::fields());
    }
    bool equals(const Concept& other) const override {
      if (other.type() != typeid(T)) return false;
      const T& o = static_cast<const Model&>(other).value;
      return std::apply([&](auto... fd) { return ((value.*fd.member == o.*fd.member) && ...); }, T::fields());
    }
    T value;
  };
  std::shared_ptr<const Concept> data_;
};

}  // namespace toy
