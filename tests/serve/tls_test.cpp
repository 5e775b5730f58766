// The server over TLS, with a certificate that the test makes.
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <memory>

#include "loopback.h"
#include "testing/files.h"

namespace toy::serve::tls_test {
namespace {

template <auto free>
struct Free {
  template <class T>
  void operator()(T* p) const {
    free(p);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

// A key, and a certificate for 127.0.0.1 that it has signed, as PEM files.
class SelfSigned {
 public:
  explicit SelfSigned(const char* password = nullptr) : key_(EVP_EC_gen("P-256")) {
    const std::unique_ptr<X509, Free<X509_free>> x(X509_new());
    X509_set_version(x.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(x.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(x.get()), 3600);
    X509_set_pubkey(x.get(), key_.get());
    const unsigned char name[] = "toy";
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x.get()), "CN", MBSTRING_ASC, name, -1, -1, 0);
    X509_set_issuer_name(x.get(), X509_get_subject_name(x.get()));
    const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> of(
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1"));
    X509_add_ext(x.get(), of.get(), -1);
    X509_sign(x.get(), key_.get(), EVP_sha256());
    const std::unique_ptr<FILE, Free<fclose>> c(fopen(files.certificate.c_str(), "w")),
        k(fopen(files.key.c_str(), "w"));
    PEM_write_X509(c.get(), x.get());
    PEM_write_PrivateKey(k.get(), key_.get(), password ? EVP_aes_128_cbc() : nullptr, nullptr, 0, nullptr,
                         const_cast<char*>(password));
  }

 private:
  Key key_;
  testing::Folder folder_;

 public:
  const TlsFiles files{folder_.path("cert.pem"), folder_.path("key.pem")};
};

// A client that trusts this certificate alone.
class TlsClient {
 public:
  TlsClient(uint16_t port, const std::string& certificate, int version = 0) : client_(port) {
    SSL_CTX_load_verify_locations(context_.get(), certificate.c_str(), nullptr);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    if (version) SSL_CTX_set_max_proto_version(context_.get(), version);
    if (version) SSL_CTX_set_security_level(context_.get(), 0);
    ssl_.reset(SSL_new(context_.get()));
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), "127.0.0.1");
    SSL_set_fd(ssl_.get(), client_.socket());
    connected = SSL_connect(ssl_.get()) == 1;
    ERR_clear_error();
  }
  bool send(std::string_view bytes) {
    return bytes.empty() || SSL_write(ssl_.get(), bytes.data(), int(bytes.size())) == int(bytes.size());
  }
  std::string receive(std::string_view end = {}) {
    char buffer[16384];
    while (end.empty() || all_.find(end) == all_.npos) {
      const int n = SSL_read(ssl_.get(), buffer, sizeof buffer);
      if (n <= 0) break;
      all_.append(buffer, size_t(n));
    }
    return all_;
  }
  // Did the other side say that this is the end?
  bool ended() const { return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }
  // Says goodbye as TLS has it, and keeps the socket.
  void say_goodbye() { SSL_shutdown(ssl_.get()); }
  bool connected = false;

 private:
  Client client_;
  std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>> context_{SSL_CTX_new(TLS_client_method())};
  std::unique_ptr<SSL, Free<SSL_free>> ssl_;
  std::string all_;
};

class Tls : public ::testing::Test {
 protected:
  std::string ask(const std::string& request, std::string_view end = {}) const {
    TlsClient client(server_.port(), cert_.files.certificate);
    EXPECT_TRUE(client.connected);
    client.send(request);
    std::string all = client.receive(end);
    EXPECT_TRUE(!end.empty() || client.ended());
    return all;
  }
  int64_t metric(const std::string& name) const {
    const std::string all = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const size_t at = all.find("\ntoy_" + name + " ");
    return at == all.npos ? -1 : std::stoll(all.substr(at + name.size() + 6));
  }
  static ServerOptions limits() {
    ServerOptions o;
    o.http.connections = 40;
    return o;
  }
  const SelfSigned cert_;
  const Loopback server_{{.sequences = 2}, limits(), cert_.files};
};

const std::string kLong = R"({"prompt": "a", "max_tokens": 500, "ignore_eos": true, "stream": true})",
                  kMany = R"({"prompt": "a", "max_tokens": 500, "n": 100, "ignore_eos": true, "stream": true})";

TEST_F(Tls, RepliesAndStreams) {
  EXPECT_NE(ask("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").find(R"({"status":"ok"})"),
            std::string::npos);
  const std::string body(300000, ' ');
  EXPECT_NE(ask(post("/v1/completions", R"({"prompt": "a", "max_tokens": 3})" + body)).find("\"length\""),
            std::string::npos);
  EXPECT_NE(ask(post("/v1/completions", kLong)).find("data: [DONE]"), std::string::npos);
}

// Requests on one connection, one of them a stream, and one that comes before the reply to the one before.
TEST_F(Tls, KeepsTheConnection) {
  TlsClient client(server_.port(), cert_.files.certificate);
  for (int i = 0; i < 3; ++i) {
    client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(client.receive(R"({"status":"ok"})").find("HTTP/1.1 200"), size_t(0));
  }
  std::string request = post("/v1/completions", kLong);
  request.replace(request.find("Connection: close\r\n"), 19, "");
  client.send(request);
  client.receive("data: ");
  client.send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string all = client.receive();
  EXPECT_LT(all.find("data: [DONE]"), all.find("\"tiny\",\"object\":\"model\""));
  EXPECT_TRUE(all.ends_with("}]}"));
  EXPECT_TRUE(client.ended());
}

// With and without a word; in the middle of a handshake, of a request and of a stream.
TEST_F(Tls, ClientsThatDisconnect) {
  std::vector<std::unique_ptr<TlsClient>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<TlsClient>(server_.port(), cert_.files.certificate));
    clients.back()->send(i < 8 ? post("/v1/completions", kMany)
                               : "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10");
    if (i == 0) clients[0]->receive("data: ");  // before the others, one of which would go first if it came first
  }
  for (int i = 0; i < 5; ++i) clients[size_t(i)]->say_goodbye();
  for (int i = 5; i < 10; ++i) clients[size_t(i)].reset();
  Client(server_.port()).send("\x16\x03\x01");
  for (int i = 0; i < 500 && metric("requests_running") + metric("requests_waiting") > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(metric("requests_running"), 0);
  EXPECT_EQ(metric("requests_waiting"), 0);
  EXPECT_LT(metric("generated_tokens_total"), 500 * 100 * 8 / 2);
}

TEST_F(Tls, PlainHttpAndNonsense) {
  const auto reply = server_.get("/health");
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.error().find("https://"), std::string::npos);
  Client nonsense(server_.port());
  nonsense.send(std::string(100000, '\x16'));
  nonsense.receive();  // until the server closes
  EXPECT_FALSE(TlsClient(server_.port(), cert_.files.certificate, TLS1_1_VERSION).connected);
  EXPECT_TRUE(TlsClient(server_.port(), cert_.files.certificate, TLS1_2_VERSION).connected);
  EXPECT_FALSE(TlsClient(server_.port(), SelfSigned().files.certificate).connected);
  EXPECT_NE(ask("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").find("200 OK"),
            std::string::npos);
}

TEST_F(Tls, LimitsHold) {
  EXPECT_NE(ask("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20000, 'a') + "\r\n\r\n").find(" 431 "),
            std::string::npos);
  TlsClient large(server_.port(), cert_.files.certificate);
  const std::string megabyte(size_t(1) << 20, ' ');
  large.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20971520\r\n\r\n");
  for (int i = 0; i < 20 && large.send(megabyte); ++i) {
  }
  EXPECT_NE(large.receive("}}").find(" 413 "), std::string::npos);
  std::vector<std::unique_ptr<TlsClient>> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(std::make_unique<TlsClient>(server_.port(), cert_.files.certificate));
  EXPECT_NE(ask("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", "}}").find(" 503 "), std::string::npos);
}

TEST(TlsFiles, ThatCannotBe) {
  const SelfSigned a, b, locked("secret");
  const auto refuses = [](const TlsFiles& files, const std::string& words) {
    try {
      const HttpServer server("127.0.0.1", 0, {}, files);
      ADD_FAILURE() << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  };
  refuses({"/none.pem", a.files.key}, "/none.pem");
  refuses({a.files.certificate, "/"}, "cannot be read");
  refuses({a.files.key, a.files.key}, "not a certificate");
  refuses({a.files.certificate, a.files.certificate}, "private key");
  refuses({a.files.certificate, b.files.key}, b.files.key);
  refuses({a.files.certificate, locked.files.key}, "without a password");
}

}  // namespace
}  // namespace toy::serve::tls_test
