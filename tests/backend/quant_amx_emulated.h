// The kernel of quant_amx.cpp on plain loops instead of instructions on tiles, so that every machine with AVX-512 tests
// it.
#pragma once

#include "backend/cpu/quant/quant_isa.h"

namespace toy::test {

/// nullptr where the machine does not have quant_vnni(). run() throws std::logic_error for what AMX would refuse.
const cpu::QuantIsa* quant_amx_emulated();

}  // namespace toy::test
