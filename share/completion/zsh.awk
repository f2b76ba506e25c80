# Completion for zsh from options.awk's lines of one program.
BEGIN { FS = "\t" }
NR == 1 {
  print "#compdef " $1
  print "# Completion of " $1 " for zsh, made from its --help."
  print "_arguments -s \\"
}
{
  text = $5
  gsub(/[][\\:]/, "", text)
  gsub(/'/, "'\\\\''", text) # '\'' inside quotes
}
$2 ~ /^--/ {
  what = argument($4)
  print "  '" $2 ($4 != "" ? "=" : "") "[" text "]" what "' \\"
  if ($3 != "") print "  '-" $3 ($4 != "" ? "+" : "") "[" text "]" what "' \\"
}
$2 !~ /^--/ { commands = commands " " $2 "\\:\"" text "\"" }
END { print commands == "" ? "  '*:file:_files'" : "  '1:command:((" commands " ))' '*:file:_files'" }
function argument(a, list) {
  if (a == "") return ""
  if (a == "FILE") return ":file:_files"
  if (a == "FOLDER") return ":folder:_files -/"
  if (a == "KIND") a = "scheduler|cache|predictor|drafter"
  if (a !~ /\|/) return ":" tolower(a) ": "
  list = a
  gsub(/\|/, " ", list)
  return ":value:(" list ")"
}
