# For doxygen: the plain comment in front of #pragma once becomes the description of the file, as text (the examples and
# formulas in these comments are laid out by hand). The lists of fields in toy/runs/event.h get their description here.
/^#pragma once/ { if (open) print "*/"; open = 0; done = 1 }
!done && /^\/\// {
  line = substr($0, 3)
  gsub(/[\\@]/, "\\\\&", line)
  gsub(/\*\//, "* /", line)
  if (!open) { printf "/** \\file\n"; open = 1 }
  print line
  next
}
/^ *static void fields\(auto& e, auto&& f\)/ { print "/// Calls f(name, field, meaning) for each field." }
{ print }
