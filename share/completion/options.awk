# From what a program prints for --help: a line for each option and each command,
#   PROGRAM <tab> WORD <tab> SHORT or "" <tab> ARGUMENT or "" <tab> the first part of its text
# -v name=PROGRAM. An argument is FILE, FOLDER, a|b|c, or another word in capitals; a command has no dashes.

function flush() {
  if (word != "") {
    sub(/([.:;] | \().*/, "", text)
    sub(/^ +/, "", text)
    sub(/[ .:;]+$/, "", text)
    printf "%s\t%s\t%s\t%s\t%s\n", name, word, letter, argument, text
  }
  word = ""
}

# "  -c, --config=FILE  text", "      --port=N  text", "  --config FILE" with its text below
/^  (-[a-zA-Z], |    )?--[a-z]/ {
  flush()
  line = $0
  sub(/^ +/, "", line)
  letter = line ~ /^-[a-zA-Z], / ? substr(line, 2, 1) : ""
  sub(/^-[a-zA-Z], /, "", line)
  text = ""
  if (match(line, /  +/)) {
    text = substr(line, RSTART + RLENGTH)
    line = substr(line, 1, RSTART - 1)
  }
  match(line, /^--[a-z0-9-]+/)
  word = substr(line, 1, RLENGTH)
  argument = substr(line, RLENGTH + 1)
  sub(/^[= []+/, "", argument)
  sub(/[ \].].*/, "", argument)
  next
}
# commands: "  status   text"
/^  [a-z]+  +[a-z]/ && word !~ /^--/ {
  flush()
  word = $1
  letter = argument = ""
  text = $0
  sub(/^ +[a-z]+ +/, "", text)
  next
}
/^ +[^ -]/ && word != "" { text = text " " trim($0); next }
{ flush() }
END { flush() }

function trim(s) {
  sub(/^ +/, "", s)
  return s
}
