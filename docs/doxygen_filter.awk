# For doxygen: the plain comment in front of #pragma once becomes the description of the file, as text (the examples and
# formulas in these comments are laid out by hand). Everything else passes as it is.
/^#pragma once/ { if (open) print "*/"; open = 0; done = 1 }
!done && /^\/\// {
  line = substr($0, 3)
  gsub(/[\\@]/, "\\\\&", line)
  gsub(/\*\//, "* /", line)
  if (!open) { printf "/** \\file\n"; open = 1 }
  print line
  next
}
{ print }
