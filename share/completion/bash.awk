# Completion for bash from options.awk's lines of one program.
BEGIN { FS = "\t" }
{ words = words (words == "" ? "" : " ") $2 }
$4 != "" {
  pattern = $2 ($3 != "" ? "|-" $3 : "")
  cases = cases "    " pattern ") " action($4) " ;;\n"
}
{ name = $1 }
END {
  fn = "_" name
  gsub(/-/, "_", fn)
  print "# Completion of " name " for bash, made from its --help."
  print fn "() {"
  print "  local cur prev"
  print "  _init_completion -n = 2>/dev/null || {"
  print "    cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}"
  print "    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi"
  print "    [[ ${COMP_WORDS[COMP_CWORD]} != = ]] || prev=${COMP_WORDS[COMP_CWORD-1]}"
  print "  }"
  print "  if [[ $cur == --*=* ]]; then prev=${cur%%=*} cur=${cur#*=}; fi"
  print "  case $prev in"
  printf "%s", cases
  print "    *)"
  print "      COMPREPLY=($(compgen -W '" words "' -- \"$cur\"))"
  print "      [[ ${#COMPREPLY[@]} -gt 0 || $cur == -* ]] || COMPREPLY=($(compgen -f -- \"$cur\")) ;;"
  print "  esac"
  print "}"
  print "complete -o filenames -F " fn " " name
}
function action(argument, list) {
  if (argument == "FOLDER") return "COMPREPLY=($(compgen -d -- \"$cur\"))"
  if (argument == "KIND") argument = "scheduler|cache|predictor|drafter"
  if (argument !~ /\|/) return argument == "FILE" ? "COMPREPLY=($(compgen -f -- \"$cur\"))" : "COMPREPLY=()"
  list = argument
  gsub(/\|/, " ", list)
  return "COMPREPLY=($(compgen -W '" list "' -- \"$cur\"))"
}
