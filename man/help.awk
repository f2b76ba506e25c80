# A man page of section 1 from what a tool prints for --help; -v name= -v version=.
# Understands "  -o, --option=X  text", "  --option X" with its text below, further in,
# "  word   text", "Title:", and takes other indented lines as they are.

function roff(s) {
  gsub(/\\/, "\\e", s)
  gsub(/-/, "\\-", s)
  if (s ~ /^[.']/) s = "\\&" s
  return s
}
function verbatim(on) {
  if (on != asis) print on ? ".PP\n.nf" : ".fi"
  asis = on
}
function item(term, text) {
  verbatim(0)
  print ".TP\n\\fB" roff(term) "\\fR"
  if (text != "") print roff(text)
  inside = 1
  own = text == "" ? margin($0) : -1 # the text is what stands further in
}
function margin(s) {
  match(s, /[^ ]/)
  return RSTART
}

BEGIN { title = toupper(name) }
/^Usage: / {
  usage = substr($0, 8)
  next
}
usage != "" && !described && /^[^ ]/ { about = about (about == "" ? "" : " ") $0; next }
usage != "" && !described {
  described = 1
  short = about
  sub(/(: |\. |\.$).*/, "", short)
  short = tolower(substr(short, 1, 1)) substr(short, 2)
  printf ".TH %s 1 \"\" \"llmserve %s\"\n", roff(title), version
  print ".SH NAME\n" roff(name) " \\- " roff(short)
  print ".SH SYNOPSIS\n" roff(usage)
  print ".SH DESCRIPTION\n" roff(about)
}
/^$/ { verbatim(0); inside = 0; own = -1; print ".PP"; next }
/^[A-Z].*:$/ { verbatim(0); print ".SS " roff(substr($0, 1, length($0) - 1)); next }
asis && /^    / { print roff($0); next }
inside && own >= 0 && /^ / && margin($0) > own { print roff(trim($0)); next }
/^ +-.*[^ ]  +[^ ]/ {
  match($0, /[^ ]  +[^ ]/)
  item(trim(substr($0, 1, RSTART)), substr($0, RSTART + RLENGTH - 1))
  next
}
/^ +-/ { item(trim($0), ""); next }
/^  [a-z][a-z]*   *[a-z]/ && $1 != name {
  text = $0
  sub(/^ +[a-z]+ +/, "", text)
  item($1, text)
  next
}
/^ / && inside { print roff(trim($0)); next }
/^ / { verbatim(1); print roff($0); next }
{ verbatim(0); print roff($0) }
END { verbatim(0) }

function trim(s) {
  sub(/^ +/, "", s)
  sub(/ +$/, "", s)
  return s
}
