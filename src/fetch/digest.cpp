#include "fetch/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "toy/base/error.h"

namespace toy::fetch {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(Kind kind, uint64_t bytes) : state_(std::make_unique<State>()) {
  if (EVP_DigestInit_ex(state_->context, kind == sha256 ? EVP_sha256() : EVP_sha1(), nullptr) != 1)
    fail_internal("libcrypto has no {}", kind == sha256 ? "SHA-256" : "SHA-1");
  if (kind == sha256) return;
  const std::string header = fmt::format("blob {}", bytes);
  EVP_DigestUpdate(state_->context, header.c_str(), header.size() + 1);  // with its NUL
}

Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) != 1) fail_internal("libcrypto: no digest");
}

std::string Digest::hex() {
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_DigestFinal_ex(state_->context, sum, &length) != 1) fail_internal("libcrypto: no digest");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

}  // namespace toy::fetch
