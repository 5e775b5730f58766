#include "fetch/curl.h"

#include <dlfcn.h>

#include "toy/base/error.h"

namespace toy::fetch {

const Curl& curl() {
  static const Curl loaded = [] {
    void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    const auto find = [library]<class F>(F*& function, const char* name) {
      if (library) function = reinterpret_cast<F*>(dlsym(library, name));
      check(function != nullptr, "downloads need libcurl: {}; on Debian: apt-get install libcurl4", dlerror());
    };
    Curl c;
    find(c.global_init, "curl_global_init");
    find(c.easy_init, "curl_easy_init");
    find(c.easy_cleanup, "curl_easy_cleanup");
    find(c.easy_reset, "curl_easy_reset");
    find(c.easy_setopt, "curl_easy_setopt");
    find(c.easy_getinfo, "curl_easy_getinfo");
    find(c.easy_perform, "curl_easy_perform");
    find(c.easy_strerror, "curl_easy_strerror");
    find(c.slist_append, "curl_slist_append");
    find(c.slist_free_all, "curl_slist_free_all");
    if (c.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) fail_internal("libcurl cannot start");
    return c;
  }();
  return loaded;
}

}  // namespace toy::fetch
