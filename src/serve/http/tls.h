// What a server needs to speak TLS.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "serve/http/http_server.h"

namespace toy::serve {

/// nullptr: plain HTTP. Throws Error{bad_input} naming the file that is not a certificate or its key.
std::unique_ptr<boost::asio::ssl::context> tls_context(const TlsFiles& files);

}  // namespace toy::serve
