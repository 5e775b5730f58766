// What tests of messages share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "toy/base/error.h"

namespace toy::testing {

/// The message of the Error that `call` throws, whatever its code; "no error" if it throws none.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// The message of the Error{bad_input} that `call` must throw; "" (and a failure) if it throws none.
template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline void expect_contains(std::string_view text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string_view::npos) << "\"" << part << "\" is not in: " << text;
}

}  // namespace toy::testing
