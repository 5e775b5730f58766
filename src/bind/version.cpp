#include "bind/version.h"

namespace toy::bind {

const char* version() { return TOY_VERSION; }

}  // namespace toy::bind
