#include "cli/main.h"

int main(int argc, char** argv) { return toy::cli::main(argc, argv); }
