#include "toy/grammar/grammar.h"
