# SPDX-License-Identifier: Apache-2.0
# The paragraph "Figures..." of each policy's README, as a module: {"scheduler fcfs": "..."}.
function flush() {
  if (text != "")
    printf "  \"%s\": \"%s\",\n", name, text
  text = ""
}
BEGIN { print "// Made by share/console/meanings.awk of plugins/*/*/README.\nexport const meanings = {" }
FNR == 1 {
  flush()
  n = split(FILENAME, part, "/")
  kind = part[n - 2]
  sub(/s$/, "", kind)
  name = kind " " part[n - 1]
}
/^Figures/ { inside = 1 }
/^[ \t]*$/ { inside = 0 }
inside {
  line = $0
  gsub(/\\/, "\\\\", line)
  gsub(/"/, "\\\"", line)
  text = text (text == "" ? "" : " ") line
}
END {
  flush()
  print "};"
}
