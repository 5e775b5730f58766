#include "backend/gpu/cuda/cublaslt.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "backend/gpu/cuda/cublaslt_functions.h"
#include "backend/gpu/cuda/functions.h"
#include "backend/gpu/library.h"
#include "toy/base/error.h"

namespace toy::gpu {
namespace cublaslt {

const Functions& functions() {
  static const Functions loaded = [] {
    Functions f;
    f.missing = "NVIDIA's driver is older than what cuBLASLt needs";
    int driver = 0;  // it runs libraries of its own major version of CUDA, and older ones
    if (cuda::functions().missing.empty()) cuda::functions().cuDriverGetVersion(&driver);
    for (const auto& [name, major] : {std::pair{"libcublasLt.so.13", 13}, {"libcublasLt.so.12", 12}}) {
      if (driver / 1000 < major) continue;
      f = {};
      Library library(name);
#define F(result, name, ...) library.find(f.name, #name);
      TOY_CUBLASLT_FUNCTIONS(F)
#undef F
      f.missing = library.missing();
      if (f.missing.empty()) break;
    }
    return f;
  }();
  return loaded;
}

namespace {

void check_status(Status status, std::string_view what) {
  if (status == kOk) return;
  const char* const text = functions().cublasLtGetStatusString(status);
  fail_internal("device 'cuda': cuBLASLt: {}: {} (error {}); with TOY_CUBLASLT=off toy multiplies without it", what,
                text ? text : "an error that it does not explain", status);
}

template <class Handle>
class Owner {
 public:
  explicit Owner(Status (*destroy)(Handle)) : destroy_(destroy) {}
  ~Owner() {
    if (handle_) destroy_(handle_);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  Handle* out() { return &handle_; }
  operator Handle() const { return handle_; }

 private:
  Status (*destroy_)(Handle);
  Handle handle_ = nullptr;
};

// The library counts columns first: what is c[M,N] here is its D, a matrix of N rows and M columns, and our b is its A.
// Matrices are given as they lie, and turned by an attribute.
struct Planned {
  Owner<Desc> desc{functions().cublasLtMatmulDescDestroy};
  Owner<Layout> a{functions().cublasLtMatrixLayoutDestroy}, b{functions().cublasLtMatrixLayoutDestroy},
      d{functions().cublasLtMatrixLayoutDestroy};
  Algo algo = {};
};

uint32_t alignment_of(const void* memory) {
  const auto at = reinterpret_cast<uintptr_t>(memory);
  return at == 0 ? 256 : uint32_t(std::min<uintptr_t>(at & ~(at - 1), 256));
}
const void* c_of(const LibraryProduct& p) { return p.acc ? p.acc : p.c; }
// What a plan depends on. Where memory lies is not part of it.
using Key = std::array<int64_t, 10>;
Key key_of(const LibraryProduct& p) {
  return {p.M,
          p.N,
          p.K,
          p.a_turned + 2 * p.b_turned,
          p.bias != nullptr,
          p.acc != nullptr,
          alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(c_of(p)),
          alignment_of(p.c)};
}

class CublasLt final : public Multiplier {
 public:
  explicit CublasLt(int multiprocessors) : multiprocessors_(multiprocessors) {}
  ~CublasLt() override {
    plans_.clear();
    if (handle_) f_.cublasLtDestroy(handle_);
  }
  std::string title() const override {
    const size_t v = f_.cublasLtGetVersion();
    return fmt::format("cuBLASLt {}.{}.{}, {} SMs", v / 10000, v / 100 % 100, v % 100, multiprocessors_);
  }
  void plan(const LibraryProduct& p) override { planned(p); }
  void queue(const LibraryProduct& p, void* stream) override {
    const Planned& how = planned(p);
    if (p.bias) set(how.desc, kBias, p.bias);
    const float alpha = 1, beta = p.acc ? 1 : 0;
    check_status(f_.cublasLtMatmul(handle_, how.desc, &alpha, p.b, how.a, p.a, how.b, &beta, c_of(p), how.d, p.c, how.d,
                                   &how.algo, p.workspace, kLibraryWorkspace, stream),
                 "a product");
  }

 private:
  template <class T>
  void set(Desc desc, int attribute, const T& value) const {
    check_status(f_.cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value), "an attribute");
  }
  template <class T>
  void prefer(Preference preference, int attribute, const T& value) const {
    check_status(f_.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "a preference");
  }

  const Planned& planned(const LibraryProduct& p) {
    Planned*& slot = at_[key_of(p)];
    if (!slot) slot = &make(p);
    return *slot;
  }
  Planned& make(const LibraryProduct& p) {
    if (!handle_) check_status(f_.cublasLtCreate(&handle_), "it does not start");
    auto made = std::make_unique<Planned>();
    check_status(f_.cublasLtMatmulDescCreate(made->desc.out(), kComputeF32, kF32), "a product");
    set(made->desc, kTransA, p.b_turned ? kTransposed : kPlain);
    set(made->desc, kTransB, p.a_turned ? kTransposed : kPlain);
    if (p.bias) set(made->desc, kEpilogue, kEpilogueBias), set(made->desc, kBias, p.bias);
    lay(made->a, kBf16, p.N, p.K, p.b_turned);
    lay(made->b, kBf16, p.K, p.M, p.a_turned);
    lay(made->d, kF32, p.N, p.M, false);
    Owner<Preference> preference(f_.cublasLtMatmulPreferenceDestroy);
    check_status(f_.cublasLtMatmulPreferenceCreate(preference.out()), "a preference");
    prefer(preference, kMostWorkspace, kLibraryWorkspace);
    prefer(preference, kAlignmentA, alignment_of(p.b));
    prefer(preference, kAlignmentB, alignment_of(p.a));
    prefer(preference, kAlignmentC, alignment_of(c_of(p)));
    prefer(preference, kAlignmentD, alignment_of(p.c));
    Heuristic best = {};
    int found = 0;
    const std::string what = fmt::format("no way to multiply [{},{}] by [{},{}]", p.M, p.K, p.K, p.N);
    check_status(f_.cublasLtMatmulAlgoGetHeuristic(handle_, made->desc, made->a, made->b, made->d, made->d, preference,
                                                   1, &best, &found),
                 what);
    if (found == 0) fail_internal("device 'cuda': cuBLASLt: {}; use TOY_CUBLASLT=off", what);
    check_status(best.state, what);
    made->algo = best.algo;
    return *plans_.emplace_back(std::move(made));
  }
  // Of a matrix that has rows and columns when it has been turned.
  void lay(Owner<Layout>& layout, int type, int64_t rows, int64_t columns, bool turned) const {
    const int64_t high = turned ? columns : rows, wide = turned ? rows : columns;
    check_status(f_.cublasLtMatrixLayoutCreate(layout.out(), type, uint64_t(high), uint64_t(wide), high), "a matrix");
  }

  const Functions& f_ = functions();
  int multiprocessors_;
  Handle handle_ = nullptr;  // made for the first product: it takes memory of the GPU
  std::vector<std::unique_ptr<Planned>> plans_;
  std::map<Key, Planned*> at_;
};

}  // namespace
}  // namespace cublaslt

bool cublaslt_is_wanted() {
  const char* const said = std::getenv("TOY_CUBLASLT");
  return !said || std::string_view(said) != "off";
}
bool cublaslt_is_there() { return cublaslt_is_wanted() && cublaslt::functions().missing.empty(); }

std::unique_ptr<Multiplier> make_multiplier(int multiprocessors) {
  return std::make_unique<cublaslt::CublasLt>(multiprocessors);
}

}  // namespace toy::gpu
