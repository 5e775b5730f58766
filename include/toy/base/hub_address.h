// Addresses of the Hugging Face hub, as a browser shows them.
#pragma once

#include <string>

namespace toy {

/// "toy fetch OWNER/REPO FILE --revision BRANCH", the command that downloads what is at an address such as
/// https://huggingface.co/OWNER/REPO/resolve/BRANCH/FILE, or that OWNER/REPO:TYPE means; "" for any other text. Throws
/// Error{bad_input} for the address of a data set or a space.
std::string fetch_of_address(const std::string& address);

}  // namespace toy
