// The functions of libcurl, which is loaded by the first request: it brings thirty libraries, and every start of the
// program would wait for them.
#pragma once

#define CURL_DISABLE_TYPECHECK  // its macros would call functions by name
#include <curl/curl.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo

namespace toy::fetch {

struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

/// Throws Error{bad_input} where the library is missing.
const Curl& curl();

}  // namespace toy::fetch
