/* SPDX-License-Identifier: Apache-2.0 */
/* Lark grammars and structural tags as grammars, checked with the simple recogniser;
 * unsupported constructs and mistakes have messages. t/api/structured.t compares with
 * llguidance and Lark on sampled texts. */
#include "text/grammar/lark.h"
#include "text/grammar/structural_tag.h"

#include "t/grammar_texts.h"

#include <errno.h>

static uint32_t build(struct lls_grammar_tree *tree, const char *source, size_t n)
{
  if (*source != '{')
    return lls_grammar_text(tree, source, n);
  char copy[2048];
  assert_true(n < sizeof copy);
  for (size_t i = 0; i <= n; i++)
    copy[i] = source[i] == '\'' ? '"' : source[i];
  json_t *tag = json_loads(copy, 0, NULL);
  assert_non_null(tag);
  uint32_t node = lls_grammar_structural_tag(tree, tag);
  json_decref(tag);
  return node;
}

static void larks_grammars(void **state)
{
  (void)state;
  static const struct grammar_texts cases[] = {
      {"start: \"a\" | b\nb: \"x\" start?\n", {"a", "x", "xxa"}, {"", "ax"}},
      {"// c\n?start: item (\",\" item)* -> list\n# d\n!item: NAME\nNAME: /[a-z]+/\n",
       {"ab", "a,b"},
       {"", "a,", "A"}},
      {"start: \"a\"\n     | \"b\"\n     |\n", {"a", "b", ""}, {"ab"}},
      {"start: \"no\"i [\"x\"] 'y'~2 \"z\"~1..2 \"w\"{,1}",
       {"noyyz", "NOxyyzzw"},
       {"noyz", "nxyyz", "noyyzzz"}},
      {"start: \"a\"..\"c\" \"\\n\" \"\\u00e9\"", {"b\né"}, {"d\né"}},
      {"%import common.INT -> N\n%import common (WS, CNAME)\n%ignore WS\n"
       "start: CNAME \"=\" N\n",
       {"a=1", "a = 12 ", "_b\t=\n3"},
       {" a=1", "a=1 2", "a b=1"}},
      {"%ignore /;+/\nstart: A+\nA: \"x\" \"y\"\n", {"xy", "xy;;xy;"}, {"x;y", ";xy"}},
      {"start: \"<\" v \">\"\nv: %json {\"enum\": [1, \"}\"]} | \"(\" v \")\"",
       {"<1>", "<\"}\">", "<((1))>"},
       {"<2>", "<(1>"}},
      {"%import common.ESCAPED_STRING\n%import common.SIGNED_NUMBER\n"
       "start: ESCAPED_STRING | SIGNED_NUMBER",
       {"\"a\\\"b\"", "\"\"", "-1.5e+3", "+.5", "7"},
       {"\"a", "1.e", "e3"}},
      {"start: /a\\/b|[^x]/", {"a/b", "é"}, {"x", "aa"}},
      {"# a ::= b\nroot ::= \"a\"", {"a"}, {"b"}},
  };
  check_grammars(build, cases, sizeof cases / sizeof cases[0]);
}

#define CALL(name, schema)                                                               \
  "{'type':'tag','begin':'<f=" name ">','content':{'type':'json_schema','json_schema':"  \
  "{" schema "}},'end':'</f>'}"
#define INTEGER      "'type':'integer'"
#define FORMAT(body) "{'type':'structural_tag','format':{" body "}}"

static void structural_tags(void **state)
{
  (void)state;
  static const struct grammar_texts cases[] = {
      {"{'structures':[{'begin':'<f=a>','schema':{" INTEGER "},'end':'</f>'},"
       "{'begin':'<f=b>','schema':{'type':'null'},'end':'</f>'}],'triggers':['<f']}",
       {"", "hi <", "a <f=a>12</f> b <f=b>null</f>", "<<f=b>null</f>"},
       {"<f", "<f=a>", "<f=b>1</f>", "x <f=c>1</f>", "<f=a>1</f"}},
      {FORMAT("'type':'triggered_tags','triggers':['<f='],'tags':[" CALL(
           "a", INTEGER) "],'at_least_one':true,'stop_after_first':true"),
       {"<f=a>1</f>"},
       {"", "x<f=a>1</f>", "<f=a>1</f> "}},
      {FORMAT("'type':'triggered_tags','triggers':['<f='],'tags':[" CALL(
           "a", INTEGER) "],'excludes':['no'],'at_least_one':true"),
       {"<f=a>1</f>", "<f=a>1</f>, n", "<f=a>1</f><f=a>2</f>"},
       {"x", "<f=a>1</f> no"}},
      {FORMAT("'type':'tag','begin':'<t>','content':{'type':'any_text'},'end':'</t>'"),
       {"<t></t>", "<t>a</</t>", "<t><</t>"},
       {"<t>", "<t></t></t>", "<t></t>x"}},
      {FORMAT("'type':'sequence','elements':[{'type':'tag','begin':'<t>','content':{"
              "'type':'any_text'},'end':['</t>','.']},{'type':'or','elements':[{'type':"
              "'const_string','value':'y'},{'type':'regex','pattern':'[0-9]{2}'}]}]"),
       {"<t>a</t>y", "<t>b.12"},
       {"<t>a</t>", "<t>a.b.y", "y"}},
      {FORMAT("'type':'tag','begin':'(','content':{'type':'triggered_tags','triggers':["
              "'<f'],'tags':[" CALL("a", INTEGER) "]},'end':')'"),
       {"()", "(a<f=a>1</f>b)"},
       {"(", "(a))", "(<f)", "(<f=a>)</f>)"}},
      {FORMAT("'type':'tags_with_separator','separator':', ','tags':[" CALL(
           "a", INTEGER) "," CALL("b", INTEGER) "]"),
       {"", "<f=a>1</f>", "<f=a>1</f>, <f=b>2</f>"},
       {"x", "<f=a>1</f><f=b>2</f>"}},
      {FORMAT("'type':'dispatch','rules':[['aba',{'type':'const_string','value':'!'}],["
              "'ac',{'type':'const_string','value':'?'}]]"),
       {"xab", "aba!", "aaba!c", "ac?xaba!", "aba!ac?ab"},
       {"aba", "abac", "aba?", "ababa!"}},
      {FORMAT("'type':'repeat','min':1,'max':2,'content':{'type':'grammar','grammar':"
              "'start: /[ab]/'}"),
       {"a", "ba"},
       {"", "aba"}},
      {FORMAT("'type':'star','content':{'type':'const_string','value':'é'}"),
       {"", "éé"},
       {"e"}},
  };
  check_grammars(build, cases, sizeof cases / sizeof cases[0]);
}

static void mistakes_are_named(void **state)
{
  (void)state;
  static const struct grammar_mistake cases[] = {
      {"%import common.X\nstart: X", "line 1: an %import of a name"},
      {"a: \"b\"", "no rule called start"},
      {"start: a\n\nb: \"x", "line 3: a \" without"},
      {"start: missing", "the rule \"missing\" is used and not defined"},
      {"start: A\nA: start", "line 2: a terminal that names a rule"},
      {"start[lazy]: \"a\"", "options of rules"},
      {"start.2: \"a\"", "priorities"},
      {"t{x}: x\nstart: t{\"a\"}", "templates"},
      {"start: /a/i", "flags of regular expressions"},
      {"start: /a(?=b)/", "look-around"},
      {"start: /^a/", "an anchor"},
      {"start: /a\n", "a / without"},
      {"start: A\nA: /a/ & /b/", "& between terminals"},
      {"start: A\nA: ~/a/", "~ before a terminal"},
      {"start: <think>", "no special token of the model"},
      {"start: <[1-3]>", "tokens by their numbers"},
      {"start: @other", "other grammars"},
      {"start: \"a\"..\"bc\"", "a range that is not"},
      {"start: \"a\")", "a ) or ] without"},
      {"start: (\"a\"", "a ( without"},
      {"start: \"a\"~3..2", "a repetition that is not"},
      {"%declare A\nstart: A", "%declare"},
      {"start: %json [1", "%json without"},
      {"start: %json {\"uniqueItems\": true}", "'uniqueItems' is not supported"},
      {"{'format':{'type':'token','token':1}}", "the format \"token\""},
      {"{'format':{'type':'any_text','max_tokens':4}}", "'max_tokens' is not supported"},
      {"{'format':{'type':'tag','begin':{},'content':{'type':'any_text'},'end':'x'}}",
       "tokens are not supported"},
      {"{'format':{'type':'tag','begin':'x','end':'y'}}", "must be an object with a"},
      {"{'structures':[],'triggers':['<']}", "need 'triggers' and 'tags'"},
      {"{'structures':[{'begin':'a','schema':{},'end':'b'}],'triggers':['<']}",
       "no trigger is the beginning of the tag's begin \"a\""},
      {"{'structures':[{'begin':'a','end':'b'}],'triggers':['a']}", "must be a schema"},
      {"{'triggers':['a']}", "there is neither 'format' nor"},
      {"{'format':{'type':'json_schema','json_schema':{},'style':'qwen_xml'}}",
       "the style \"qwen_xml\""},
  };
  check_mistakes(build, cases, sizeof cases / sizeof cases[0]);
}

/* Each trigger is built twice by the one around it: building all would take 2^40
 * formats. */
static void nested_triggers_end(void **state)
{
  (void)state;
  json_t *tag = json_pack("{s:s}", "type", "any_text");
  for (int depth = 0; depth < 40; depth++)
    tag = json_pack("{s:s, s:[s], s:b, s:[{s:s, s:s, s:s, s:o}]}", "type",
                    "triggered_tags", "triggers", "<", "at_least_one", true, "tags",
                    "type", "tag", "begin", "<", "end", ">", "content", tag);
  struct lls_grammar_tree *tree = new_tree();
  struct lls_error err = {0};
  json_t *whole = json_pack("{s:o}", "format", tag);
  lls_grammar_structural_tag(tree, whole);
  assert_int_equal(lls_grammar_tree_check(tree, &err), -E2BIG);
  lls_grammar_tree_destroy(tree);
  json_decref(whole);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nested_triggers_end),
      cmocka_unit_test(larks_grammars),
      cmocka_unit_test(structural_tags),
      cmocka_unit_test(mistakes_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
