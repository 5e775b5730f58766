#include "serve/http/tls.h"

#include <filesystem>
#include <fstream>

#include "toy/base/error.h"

namespace toy::serve {

namespace asio = boost::asio;
using boost::system::error_code;

std::unique_ptr<asio::ssl::context> tls_context(const TlsFiles& files) {
  if (files.certificate.empty()) return nullptr;
  for (const std::string& file : {files.certificate, files.key})
    check(std::filesystem::is_regular_file(file) && std::ifstream(file).good(),
          "{}: cannot be read; give PEM files to --tls-cert and --tls-key", file);
  using asio::ssl::context;
  auto c = std::make_unique<context>(context::tls_server);
  c->set_options(context::default_workarounds | context::no_tlsv1 | context::no_tlsv1_1 | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(c->native_handle(), SSL_MODE_RELEASE_BUFFERS);                  // of idle connections
  c->set_password_callback([](size_t, context::password_purpose) { return ""; });  // else OpenSSL asks the terminal
  error_code error;
  c->use_certificate_chain_file(files.certificate, error);
  check(!error, "{}: not a certificate in PEM form ({})", files.certificate, error.message());
  c->use_private_key_file(files.key, context::pem, error);
  check(!error, "{}: not the private key of {} in PEM form without a password ({})", files.key, files.certificate,
        error.message());
  check(SSL_CTX_check_private_key(c->native_handle()) == 1, "{}: not the private key of {}; they do not match",
        files.key, files.certificate);
  return c;
}

}  // namespace toy::serve
