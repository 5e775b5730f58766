// What is probably wrong with a chat template.
#pragma once

#include <string>

#include "toy/dialog/dialog.h"

namespace toy {

/// That the template does not show what the user says, or refuses a plain question, in one line; "": nothing.
std::string template_doubt(const Dialog& dialog);

}  // namespace toy
