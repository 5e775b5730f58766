#include "serve/http/http_server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <thread>

#include "serve/http/connection.h"
#include "serve/http/tls.h"
#include "toy/base/error.h"

namespace toy::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Each connection takes a file descriptor; the soft limit is often 1024.
void raise_open_files() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void HttpServer::State::accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    accepting = false;
    if (error == asio::error::operation_aborted) return;
    if (error) {  // no file descriptor is left: others will be closed
      retry.expires_after(milliseconds(100));
      retry.async_wait([this](error_code stopped) {
        if (!stopped) accept();
      });
      accepting = true;
      return;
    }
    const auto connection = std::make_shared<Connection>(std::move(socket), *this);
    const bool full = connections.size() >= limits.connections;
    if (connections.size() < limits.connections + 256) {  // those beyond are closed without a word
      connections.insert(connection);
      connection->start(full);
    }
    accept();
  });
  accepting = true;
}

void HttpServer::State::wait_for_signal() {
  signals.add(SIGINT);
  signals.add(SIGTERM);
  signals.async_wait([this](error_code error, int) {
    if (!error) begin_stop();
  });
}

void HttpServer::State::begin_stop() {
  if (stopping) return;
  stopping = true;
  error_code ignored;
  signals.clear(ignored);  // the system ends the process with the next one
  if (calls.stopping)
    calls.stopping(size_t(std::ranges::count_if(connections, [](const auto& c) { return c->busy(); })));
  grace.expires_after(seconds(limits.grace_seconds));
  grace.async_wait([this](error_code cancelled) {
    if (!cancelled) end_grace();
  });
  const auto all = connections;  // closing removes from it
  for (const auto& c : all)
    if (!c->busy()) c->close();
  end_if_done();
}

void HttpServer::State::end_grace() {
  if (calls.ending) calls.ending();
  grace.expires_after(seconds(calls.ending ? limits.last_seconds : 0));
  grace.async_wait([this](error_code cancelled) {
    if (!cancelled) end_now();
  });
}

// Handlers that do not end leave their clients without an answer.
void HttpServer::State::end_now() {
  ending = true;
  const auto all = connections;
  for (const auto& c : all) c->give_up(calls.bad(503, "the server is shutting down"));
  grace.expires_after(milliseconds(200));  // what was sent last is on its way
  grace.async_wait([this](error_code cancelled) {
    if (!cancelled) io.stop();
  });
}

void HttpServer::State::end_if_done() {
  if (!stopping || ending) return;
  for (const auto& c : connections)
    if (c->busy()) return;
  ending = true;
  grace.expires_after(milliseconds(200));  // what was sent last is on its way
  grace.async_wait([this](error_code cancelled) {
    if (!cancelled) io.stop();
  });
}

void HttpServer::State::bound_unsent() {
  while (unsent > limits.all_unsent) {
    std::shared_ptr<Connection> slowest;
    for (const auto& c : connections)
      if (c->behind_since() && (!slowest || *c->behind_since() < *slowest->behind_since())) slowest = c;
    if (!slowest) return;
    slowest->close();
  }
}

HttpServer::HttpServer(const std::string& host, uint16_t port, const HttpLimits& limits, const TlsFiles& tls)
    : state_(std::make_unique<State>(limits, tls_context(tls))) {
  raise_open_files();
  error_code error;
  const auto found = tcp::resolver(state_->io).resolve(host, std::to_string(port), tcp::resolver::passive, error);
  const size_t colon = host.rfind(':');
  check(host.find("://") == host.npos, "host '{}' is a URL; leave out {}", host, host.substr(0, host.find("://") + 3));
  const bool has_port = (error || found.empty()) && colon != host.npos && colon > 0 && host.find(':') == colon &&
                        colon + 1 < host.size() && host.find_first_not_of("0123456789", colon + 1) == host.npos;
  check(!has_port, "host '{}' has a port; give it apart: --host {} --port {}", host,
        host.substr(0, std::min(colon, host.size())), host.substr(std::min(colon, host.size() - 1) + 1));
  check(!error && !found.empty(), "there is no host '{}'; use an address of this machine, such as 127.0.0.1", host);
  tcp::acceptor& a = state_->acceptor;
  const tcp::endpoint endpoint = found.begin()->endpoint();
  a.open(endpoint.protocol(), error);
  if (!error) a.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) a.bind(endpoint, error);
  check(error != asio::error::address_in_use, "port {} of {} is in use; choose another with --port", port, host);
  check(!error, "cannot listen on port {} of {}: {}; choose others with --port and --host", port, host,
        error.message());
  a.listen(1024, error);
  check(error != asio::error::address_in_use, "port {} of {} is in use; choose another with --port", port, host);
  check(!error, "cannot listen on port {} of {}: {}", port, host, error.message());
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

bool HttpServer::loopback() const { return state_->acceptor.local_endpoint().address().is_loopback(); }

void HttpServer::stop() {
  asio::post(state_->io, [this] { state_->begin_stop(); });
}

// A lack of memory ends the connection whose work it was, which Connection::Mine sees to.
void HttpServer::State::run_until_stopped() {
  while (true) {
    try {
      if (!accepting) accept();
      io.run();
      return;
    } catch (...) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
}

bool HttpServer::State::handlers_end_within(milliseconds time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  while (handling > 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(2));
  return handling == 0;
}

void HttpServer::run(const HttpCalls& calls) {
  State& s = *state_;
  s.calls = calls;
  s.handlers = std::make_unique<asio::thread_pool>(kHandlers);
  s.one_by_one.emplace(s.handlers->get_executor());
  s.wait_for_signal();
  s.run_until_stopped();
  const auto all = s.connections;
  for (const auto& c : all) c->close();
  s.handlers->stop();  // requests that nobody has looked at
  if (!s.handlers_end_within(milliseconds(500)) && calls.stuck) calls.stuck();
  s.handlers->join();
}

}  // namespace toy::serve
