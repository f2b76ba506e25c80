# Completion for fish from options.awk's lines of one program.
BEGIN { FS = "\t" }
NR == 1 { print "# Completion of " $1 " for fish, made from its --help." }
{
  text = $5
  gsub(/\\/, "\\\\", text)
  gsub(/'/, "\\'", text)
  line = "complete -c " $1
  if ($2 !~ /^--/) line = line " -f -n __fish_use_subcommand -a " $2
  else line = line " -l " substr($2, 3) ($3 != "" ? " -s " $3 : "") argument($4)
  print line " -d '" text "'"
}
function argument(a, list) {
  if (a == "") return ""
  if (a == "FILE") return " -r -F"
  if (a == "FOLDER") return " -x -a '(__fish_complete_directories)'"
  if (a == "KIND") a = "scheduler|cache|predictor|drafter"
  if (a !~ /\|/) return " -x"
  list = a
  gsub(/\|/, " ", list)
  return " -x -a '" list "'"
}
