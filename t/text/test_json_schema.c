/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema as a grammar: objects, arrays, combinations and refusals, checked with the
 * simple recogniser; test_schema_values.c has single values. */
#include "t/schema_case.h"

/* Checks valid and invalid arguments for a function's parameters. */
static void check_arguments(const struct schema_case *one)
{
  struct lls_error err = {0};
  json_t *schema = json_loads(one->schema, JSON_DECODE_ANY, NULL);
  struct lls_grammar_tree *tree =
      lls_grammar_tree_create(&(struct lls_grammar_bounds){100000, 4000000, 10000});
  lls_grammar_set_root(tree, lls_grammar_json_arguments(tree, schema, true));
  if (lls_grammar_tree_check(tree, &err) != 0)
    fail_msg("%s: %s", one->schema, err.text);
  for (size_t k = 0; k < MOST && one->valid[k] != NULL; k++)
    if (!recognises(tree, one->valid[k], strlen(one->valid[k])))
      fail_msg("%s refuses %s", one->schema, one->valid[k]);
  for (size_t k = 0; k < MOST && one->invalid[k] != NULL; k++)
    if (recognises(tree, one->invalid[k], strlen(one->invalid[k])))
      fail_msg("%s accepts %s", one->schema, one->invalid[k]);
  lls_grammar_tree_destroy(tree);
  json_decref(schema);
}

static void arguments_have_the_names_that_are_said(void **state)
{
  (void)state;
  static const struct schema_case cases[] = {
      {"null", {"{}", "{ }"}, {"{\"a\": 1}", "[]"}},
      {"{}", {"{}"}, {"{\"a\": 1}"}},
      {"{\"type\": \"object\", \"description\": \"none\"}", {"{}"}, {"{\"a\": 1}"}},
      {"{\"properties\": {}}", {"{}"}, {"{\"a\": 1}"}},
      {"{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"properties\": "
       "{\"c\": "
       "{}}}, \"d\": {\"type\": \"object\"}}, \"required\": [\"a\"]}",
       {"{\"a\": 1}", "{\"a\": 1, \"b\": {\"c\": 2}}", "{\"a\": 1, \"d\": {\"x\": 2}}"},
       {"{\"a\": 1, \"x\": 2}", "{\"a\": 1, \"b\": {\"x\": 2}}", "{}"}},
      {"{\"properties\": {\"a\": {}}, \"additionalProperties\": {\"type\": \"null\"}}",
       {"{\"x\": null}"},
       {"{\"x\": 1}"}},
      {"{\"additionalProperties\": true}", {"{\"x\": 1}"}, {"1"}},
      {"{\"patternProperties\": {\"^x\": {}}, \"properties\": {\"a\": {}}}",
       {"{\"a\": 1, \"xy\": 1}"},
       {"1"}},
      {"{\"allOf\": [{\"$ref\": \"#/$defs/a\"}, {\"properties\": {\"b\": {}}}], "
       "\"$defs\": {\"a\": {\"properties\": {\"a\": {}}, \"required\": [\"a\"]}}}",
       {"{\"a\": 1, \"b\": 2}", "{\"a\": 1}"},
       {"{\"a\": 1, \"c\": 2}", "{}"}},
      {"{\"properties\": {\"a\": {}}, \"anyOf\": [{\"properties\": {\"b\": {}}, "
       "\"required\": [\"b\"]}, {\"required\": [\"a\"]}]}",
       {"{\"a\": 1, \"b\": 2}", "{\"b\": 2}", "{\"a\": 1}"},
       {"{\"a\": 1, \"c\": 2}", "{}"}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_arguments(&cases[i]);
}

static void names_may_come_late(void **state)
{
  CHECK(
      {"{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"null\"}}}",
       {"{\"b\": null, \"a\": 1}", "{\"x\": 1, \"a\": 1, \"y\": 2}",
        "{\"a\": 1, \"b\": null}"},
       {"{\"b\": null, \"a\": \"x\"}", "{\"x\": 1, \"b\": 1}"}},
      {"{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"null\"}}, "
       "\"required\": [\"b\"], \"additionalProperties\": {\"type\": \"string\"}}",
       {"{\"b\": null, \"x\": \"y\", \"a\": 1}"},
       {"{\"b\": null, \"a\": \"y\"}", "{\"a\": 1}", "{\"x\": \"y\", \"b\": null}"}},
      {"{\"properties\": {\"a\": {}, \"b\": {}}, \"patternProperties\": {\"^x\": "
       "{\"type\": "
       "\"integer\"}}}",
       {"{\"b\": 1, \"xy\": 2, \"a\": 1}"},
       {"{\"b\": 1, \"xy\": \"z\"}"}},
      {"{\"properties\": {\"a\": {}, \"b\": {}}, \"additionalProperties\": false}",
       {"{\"a\": 1, \"b\": 2}"},
       {"{\"b\": 1, \"a\": 2}"}},
      {"{\"properties\": {\"a\": {}}, \"required\": [\"b\"], \"minProperties\": 2}",
       {"{\"a\": 1, \"b\": 2}", "{\"b\": 1, \"x\": 2}"},
       {"{\"b\": 1}"}});
}

static void counted_properties(void **state)
{
  CHECK({"{\"type\": \"object\", \"minProperties\": 2, \"additionalProperties\": false, "
         "\"properties\": {\"a\": {}, \"b\": {\"type\": \"null\"}, \"c\": {}}}",
         {"{\"a\": 1, \"b\": null}", "{\"a\":1,\"c\":2}", "{\"b\": null, \"c\": 3}",
          "{\"a\": 1, \"b\": null, \"c\": 3}"},
         {"{}", "{\"a\": 1}", "{\"c\": 1}", "{\"a\": 1, \"a\": 1}",
          "{\"a\": 1, \"b\": 2}", "{, \"b\": null, \"c\": 3}"}},
        {"{\"type\": \"object\", \"minProperties\": 2, \"maxProperties\": 2, "
         "\"required\": [\"b\"], \"additionalProperties\": {\"type\": \"integer\"}, "
         "\"properties\": {\"a\": {}, \"b\": {}, \"c\": false}}",
         {"{\"a\": 1, \"b\": 2}", "{\"b\": 1, \"x\": 2}"},
         {"{\"b\": 1}", "{\"a\": 1, \"x\": 2}", "{\"a\": 1, \"b\": 2, \"x\": 3}",
          "{\"b\": 1, \"x\": 2, \"y\": 2}", "{\"b\": 1, \"c\": 2}"}},
        {"{\"type\": \"object\", \"minProperties\": 2, \"required\": [\"b\"], "
         "\"properties\": {\"a\": {}, \"b\": {}}}",
         {"{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"x\": 3}",
          "{\"a\": 1, \"b\": 2, \"x\": 3, \"y\": 4}"},
         {"{\"b\": 2}", "{\"a\": 1, \"x\": 2}"}},
        {"{\"type\": \"object\", \"maxProperties\": 2, \"properties\": {\"a\": {}, "
         "\"b\": {}, \"c\": {}}}",
         {"{}", "{\"a\": 1}", "{\"b\": 2, \"c\": 3}", "{\"c\": 1, \"x\": 2}",
          "{\"x\": 1, \"y\": 2}"},
         {"{\"a\": 1, \"b\": 2, \"c\": 3}", "{\"a\": 1, \"x\": 2, \"y\": 3}"}}, );
}

static void arrays(void **state)
{
  CHECK(
      {"{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 1, "
       "\"maxItems\": 2}",
       {"[1]", "[1, 2]", "[\n  1,\n  2\n]"},
       {"[]", "[1, 2, 3]", "[\"a\"]", "[1 , 2]"}},
      {"{\"type\": \"array\", \"prefixItems\": [{\"type\": \"string\"}, {\"type\": "
       "\"null\"}], "
       "\"items\": false}",
       {"[]", "[\"a\"]", "[\"a\", null]"},
       {"[null]", "[\"a\", null, 1]"}},
      {"{\"type\": \"array\", \"items\": [{\"type\": \"string\"}], \"additionalItems\": "
       "{\"type\": \"integer\"}, \"minItems\": 2}",
       {"[\"a\", 1]", "[\"a\", 1, 2]"},
       {"[\"a\"]", "[\"a\", \"b\"]"}},
      {"{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}",
       {"[]", "[[], [[]]]"},
       {"[1]"}}, );
}

static void unique_items(void **state)
{
  CHECK({"{\"type\": \"array\", \"uniqueItems\": true, \"minItems\": 1, \"maxItems\": 2, "
         "\"items\": {\"enum\": [\"a\", \"b\", 3, null], \"type\": [\"string\", "
         "\"integer\"]}}",
         {"[\"b\", \"a\"]", "[3,\"b\"]", "[\"a\"]", "[ 3 ]"},
         {"[]", "[\"a\", \"a\"]", "[null]", "[\"a\", \"b\", 3]"}},
        {"{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"enum\": [1, 2, 3]}}",
         {"[]", "[3, 1, 2]", "[2, 3]"},
         {"[1, 2, 3, 1]", "[1, 2, 1]", "[,1]", "[1 2]"}},
        {"{\"type\": \"array\", \"uniqueItems\": true, \"maxItems\": 1}",
         {"[]", "[{}]"},
         {"[1, 2]"}}, );
}

static void objects(void **state)
{
  CHECK({"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": "
         "{\"type\": "
         "\"null\"}}, \"required\": [\"a\"], \"additionalProperties\": false}",
         {"{\"a\":1}", "{ \"a\": 1, \"b\": null }", "{\n\t\"a\": 1\n}"},
         {"{}", "{\"b\": null}", "{\"b\": null, \"a\": 1}", "{\"a\": 1, \"c\": 2}"}},
        {"{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}, \"c\": {}}, "
         "\"additionalProperties\": false}",
         {"{}", "{\"b\": 1}", "{\"a\": 1, \"c\": 1}", "{\"a\": 1, \"b\": 2, \"c\": 3}"},
         {"{\"c\": 1, \"a\": 1}", "{,\"a\": 1}", "{\"a\": 1,}", "{\"a\": 1, \"a\": 1}"}},
        {"{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, \"required\": "
         "[\"b\", \"z\"], "
         "\"additionalProperties\": {\"type\": \"integer\"}}",
         {"{\"b\": \"x\", \"z\": 1}", "{\"a\": 0, \"b\": 0, \"z\": 1, \"bb\": 2}"},
         {"{\"b\": 1}", "{\"b\": 1, \"z\": \"x\"}", "{\"b\": 1, \"z\": 1, \"b\": 2}",
          "{\"b\": 1, \"z\": 1, \"y\": \"s\"}"}},
        {"{\"type\": \"object\", \"patternProperties\": {\"^x-\": {\"type\": "
         "\"integer\"}}, "
         "\"additionalProperties\": false, \"minProperties\": 1}",
         {"{\"x-a\": 1}", "{\"x-a\": 1, \"x-\": 2}"},
         {"{}", "{\"y\": 1}", "{\"x-a\": \"s\"}"}},
        {"{\"type\": \"object\", \"required\": [\"a\"], \"minProperties\": 2}",
         {"{\"a\": 1, \"b\": 2}", "{\"a\": 1, \"b\": 2, \"c\": 3}"},
         {"{\"a\": 1}", "{\"b\": 1, \"c\": 2}"}},
        {"{\"type\": \"object\", \"properties\": {\"x-b\": {\"maximum\": 5}, \"c\": "
         "{\"type\": \"null\"}}, \"patternProperties\": {\"^x-\": {\"type\": "
         "\"integer\"}, \"b$\": {\"minimum\": 2}}, \"additionalProperties\": {\"type\": "
         "\"string\"}}",
         {"{}", "{\"x-b\": 3}", "{\"c\": null, \"x-a\": 1}", "{\"x-c-b\": 2}",
          "{\"b\": 2.5, \"bb\": {}}", "{\"é\": \"s\", \"x\": \"\"}"},
         {"{\"x-b\": 1}", "{\"x-b\": 6}", "{\"x-cb\": 1}", "{\"x-a\": \"s\"}",
          "{\"b\": 1}", "{\"é\": 1}", "{\"c\": \"s\"}"}},
        {"{\"type\": \"object\", \"patternProperties\": {\"^[a-z]+$\": {\"const\": 1}}}",
         {"{\"ab\": 1, \"a1\": 2}", "{\"\": []}", "{\"\\n\": 0}"},
         {"{\"ab\": 2}"}},
        {"{\"type\": \"object\", \"additionalProperties\": {\"type\": \"null\"}, "
         "\"maxProperties\": 1}",
         {"{}", "{\"é\": null}"},
         {"{\"a\": null, \"b\": null}", "{\"a\": 1}"}},
        {"{\"type\": \"object\", \"properties\": {\"a\": false, \"b\": {}}, "
         "\"additionalProperties\": "
         "false}",
         {"{}", "{\"b\": 1}"},
         {"{\"a\": 1}"}}, );
}

static void names_of_properties(void **state)
{
  CHECK({"{\"type\": \"object\", \"propertyNames\": {\"enum\": [\"b\", \"a\"]}, "
         "\"additionalProperties\": {\"type\": \"integer\"}}",
         {"{}", "{\"a\": 1}", "{\"b\": 1, \"a\": 2}"},
         {"{\"c\": 1}", "{\"a\": null}"}},
        {"{\"type\": \"object\", \"propertyNames\": {\"$ref\": \"#/$defs/n\", "
         "\"maxLength\": 2}, \"$defs\": {\"n\": {\"pattern\": \"^a\"}}, "
         "\"properties\": {\"ab\": {\"const\": 1}, \"b\": {}}}",
         {"{}", "{\"ab\": 1}", "{\"a\": 2}", "{\"ac\": 2}"},
         {"{\"b\": 1}", "{\"ab\": 2}", "{\"abc\": 1}", "{\"c\": 1}"}},
        {"{\"propertyNames\": {\"format\": \"date\"}}",
         {"1", "{\"2020-02-29\": 1}"},
         {"{\"2021-02-29\": 1}"}},
        {"{\"propertyNames\": {\"type\": \"integer\"}}", {"1", "{}"}, {"{\"1\": 1}"}},
        {"{\"propertyNames\": false}", {"1", "{}"}, {"{\"1\": 1}"}}, );
}

static void combinations(void **state)
{
  CHECK(
      {"{\"anyOf\": [{\"type\": \"integer\", \"minimum\": 5}, {\"type\": \"string\"}], "
       "\"maxLength\": 1}",
       {"5", "\"a\""},
       {"4", "\"ab\"", "null"}},
      {"{\"allOf\": [{\"type\": \"object\", \"properties\": {\"a\": {\"minimum\": 3}}}, "
       "{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"null\"}}, "
       "\"required\": "
       "[\"a\", \"b\"]}], \"unevaluatedProperties\": false}",
       {"{\"a\": 3, \"b\": null}"},
       {"{\"a\": 2, \"b\": null}", "{\"a\": 3}", "{\"a\": 3, \"b\": null, \"c\": 1}"}},
      {"{\"oneOf\": [{\"type\": \"object\", \"properties\": {\"k\": {\"const\": \"a\"}, "
       "\"x\": {\"type\": "
       "\"integer\"}}, \"required\": [\"k\"]}, {\"type\": \"object\", \"properties\": "
       "{\"k\": {\"const\": "
       "\"b\"}, \"y\": {}}, \"required\": [\"k\", \"y\"]}]}",
       {"{\"k\": \"a\"}", "{\"k\": \"a\", \"x\": 1}", "{\"k\": \"b\", \"y\": \"s\"}"},
       {"{\"k\": \"b\"}", "{\"k\": \"c\"}", "{\"k\": \"a\", \"x\": \"s\"}"}},
      {"{\"$ref\": \"#/$defs/node\", \"$defs\": {\"node\": {\"type\": \"object\", "
       "\"properties\": "
       "{\"value\": {\"type\": \"integer\"}, \"next\": {\"anyOf\": [{\"$ref\": "
       "\"#/$defs/node\"}, "
       "{\"type\": \"null\"}]}}, \"required\": [\"value\", \"next\"], "
       "\"additionalProperties\": false}}}",
       {"{\"value\": 1, \"next\": null}",
        "{\"value\": 1, \"next\": {\"value\": 2, \"next\": null}}"},
       {"{\"value\": 1}", "{\"value\": 1, \"next\": {}}"}},
      {"{\"$ref\": \"#/definitions/a~1b%25\", \"definitions\": {\"a/b%\": {\"const\": "
       "1}}}",
       {"1"},
       {"2"}}, );
}

/* Grammars have no complement, so the remaining values are expressed by other
 * keywords. */
static void opposites(void **state)
{
  CHECK(
      {"{\"not\": {\"type\": [\"null\", \"integer\"]}}",
       {"1.5", "-0.25", "\"a\"", "{}"},
       {"null", "1", "1.0", "-0"}},
      {"{\"type\": [\"string\", \"integer\", \"boolean\"], \"not\": {\"enum\": [\"ab\", "
       "3, "
       "true, null]}}",
       {"\"a\"", "\"abc\"", "2", "4", "-3", "false"},
       {"\"ab\"", "3", "true", "null"}},
      {"{\"type\": \"string\", \"not\": {\"pattern\": \"^a\"}, \"maxLength\": 2}",
       {"\"\"", "\"ba\"", "\"b\""},
       {"\"a\"", "\"ab\"", "\"bab\""}},
      {"{\"type\": \"object\", \"not\": {\"required\": [\"a\", \"b\"]}}",
       {"{}", "{\"a\": 1}", "{\"b\": 1, \"c\": 2}"},
       {"{\"a\": 1, \"b\": 2}", "{\"b\": 1, \"a\": 2, \"c\": 3}", "1"}},
      {"{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}, \"c\": {}}, "
       "\"dependencies\": {\"a\": [\"b\"], \"b\": {\"properties\": {\"c\": {\"const\": "
       "1}}}}}",
       {"{}", "{\"c\": 2}", "{\"b\": 0, \"c\": 1}", "{\"a\": 0, \"b\": 0}"},
       {"{\"a\": 0}", "{\"b\": 0, \"c\": 2}", "{\"a\": 0, \"c\": 1}"}},
      {"{\"type\": \"object\", \"properties\": {\"k\": {\"enum\": [\"x\", \"y\"]}, "
       "\"v\": "
       "{\"type\": [\"integer\", \"null\"]}}, \"required\": [\"k\", \"v\"], \"if\": "
       "{\"properties\": {\"k\": {\"const\": \"x\"}}}, \"then\": {\"properties\": "
       "{\"v\": "
       "{\"type\": \"null\"}}}, \"else\": {\"properties\": {\"v\": {\"minimum\": 5}}}}",
       {"{\"k\": \"x\", \"v\": null}", "{\"k\": \"y\", \"v\": 5}",
        "{\"k\": \"y\", \"v\": null}"},
       {"{\"k\": \"x\", \"v\": 5}", "{\"k\": \"y\", \"v\": 4}"}},
      {"{\"oneOf\": [{\"type\": \"integer\", \"minimum\": 1}, {\"type\": \"integer\", "
       "\"maximum\": 5}]}",
       {"0", "6", "-7"},
       {"1", "3", "5"}},
      {"{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, \"oneOf\": "
       "[{\"required\": [\"a\"]}, {\"required\": [\"b\"]}]}",
       {"{\"a\": 1}", "{\"b\": 1, \"c\": 2}"},
       {"{}", "{\"a\": 1, \"b\": 2}", "{\"c\": 1}"}},
      {"{\"oneOf\": [{\"type\": \"array\", \"items\": {\"type\": \"null\"}}, {\"type\": "
       "\"array\", \"items\": {\"type\": [\"null\", \"boolean\"]}, \"maxItems\": 2}]}",
       {"[true]", "[null, false]", "[null, null, null]"},
       {"[]", "[null]", "[null, null]", "[true, true, null]"}},
      {"{\"type\": \"array\", \"contains\": {\"const\": 1}, \"minItems\": 2, "
       "\"maxItems\": 3}",
       {"[1, 2]", "[0, 1]", "[0, 0, 1]", "[1, 1, 1]"},
       {"[1]", "[0, 0]", "[0, 0, 0]", "[1, 0, 0, 0]"}},
      {"{\"oneOf\": [{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, "
       "\"additionalProperties\": false}, {\"type\": \"object\", \"properties\": {\"a\": "
       "{}}, "
       "\"required\": [\"a\"], \"additionalProperties\": {}}, {\"type\": \"object\", "
       "\"properties\": {\"c\": {}}, \"required\": [\"c\"], \"additionalProperties\": "
       "false}]}",
       {"{}", "{\"b\": 1}", "{\"a\": 1, \"d\": 2}", "{\"c\": 1}"},
       {"{\"a\": 1}", "{\"a\": 1, \"b\": 2}", "{\"c\": 1, \"d\": 2}",
        "{\"b\": 1, \"c\": 2}"}},
      {"{\"enum\": [1, 2, [1, 1], [1, 2], {\"a\": 1}], \"not\": {\"const\": 1}, "
       "\"uniqueItems\": true, \"contains\": {\"const\": 2}, \"dependencies\": {\"a\": "
       "[\"b\"]}}",
       {"2", "[1, 2]"},
       {"1", "[1, 1]", "{\"a\": 1}"}}, );
}

/* A part of a branch that cannot be negated is not needed to decide that the branch
 * does not hold. */
static void narrow_opposites(void **state)
{
  CHECK({"{\"oneOf\": [{\"type\": \"object\", \"required\": [\"a\"], "
         "\"patternProperties\": {\"^x\": {\"type\": \"null\"}}}, {\"type\": "
         "\"object\", "
         "\"properties\": {\"b\": {}}, \"required\": [\"b\"]}]}",
         {"{\"a\": 1, \"x\": null}", "{\"b\": 1}", "{\"b\": 1, \"x\": 1}"},
         {"{\"b\": 1, \"a\": 2}", "{}", "{\"a\": 1, \"x\": 1}"}},
        {"{\"oneOf\": [{\"enum\": [2, 4.5]}, {\"type\": \"integer\"}]}",
         {"3", "4.5"},
         {"2", "5.5"}},
        {"{\"oneOf\": [{\"enum\": [[1], 2]}, {\"type\": [\"array\", \"integer\"], "
         "\"maxItems\": 1}]}",
         {"3", "1"},
         {"[1]", "2"}}, );
}

static void properties_come_as_the_text_has_them(void **state)
{
  CHECK({"{\"allOf\": [{\"$ref\": \"#/$defs/base\"}, {\"properties\": {\"more\": "
         "{\"const\": 2}}}], \"properties\": {\"last\": {\"const\": 3}}, "
         "\"required\": [\"last\", \"id\", \"more\"], \"$defs\": {\"base\": {\"type\": "
         "\"object\", \"properties\": {\"id\": {\"const\": "
         "1}}, \"additionalProperties\": true}}}",
         {"{\"id\": 1, \"more\": 2, \"last\": 3}"},
         {"{\"last\": 3, \"id\": 1, \"more\": 2}",
          "{\"more\": 2, \"id\": 1, \"last\": 3}"}},
        {"{\"type\": \"object\", \"required\": [\"a\"], \"properties\": {\"a\": {}}, "
         "\"anyOf\": "
         "[{\"properties\": {\"b\": {\"const\": 1}}, \"required\": [\"b\"]}]}",
         {"{\"a\": 0, \"b\": 1}"},
         {"{\"b\": 1, \"a\": 0}"}},
        {"{\"type\": \"object\", \"anyOf\": [{\"properties\": {\"b\": {\"const\": 1}}, "
         "\"required\": [\"b\"]}], \"properties\": {\"a\": {}}}",
         {"{\"b\": 1, \"a\": 0}"},
         {"{\"a\": 0, \"b\": 1}"}}, );
}

static void refusals_name_the_place(void **state)
{
  (void)state;
  static const struct {
    const char *schema, *says;
  } cases[] = {
      {"{\"properties\": {\"a\": {\"not\": {\"multipleOf\": 2}}}}",
       "the schema at #/properties/a/not: 'multipleOf' is not supported inside 'not'"},
      {"{\"type\": \"array\", \"items\": {\"type\": \"string\", \"pattern\": "
       "\"a(?=b)\"}}",
       "#/items: 'pattern' is not supported the regular expression at byte 3: "
       "look-around"},
      {"{\"oneOf\": [{\"multipleOf\": 2}, {\"multipleOf\": 3}]}",
       "'multipleOf' is not supported inside 'not', or in branches of 'oneOf' that may "
       "hold together"},
      {"{\"oneOf\": [{\"type\": \"integer\", \"multipleOf\": 2}, {\"type\": "
       "\"integer\", \"multipleOf\": 3}]}",
       "'multipleOf' is not supported in branches of 'oneOf' that nothing else tells"},
      {"{\"type\": \"array\", \"uniqueItems\": true}", "'uniqueItems'"},
      {"{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"enum\": [1, 2, 1.0]}}",
       "'uniqueItems'"},
      {"{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"enum\": [1, 2, 3, 4, "
       "5, "
       "6, 7, 8, 9]}}",
       "'uniqueItems'"},
      {"{\"type\": \"object\", \"not\": {\"not\": {\"properties\": {\"a\": {\"const\": "
       "1}}, "
       "\"required\": [\"a\"]}}, \"unevaluatedProperties\": false}",
       "'unevaluatedProperties' is not supported beside"},
      {"{\"propertyNames\": {\"not\": {\"const\": \"a\"}}}",
       "'propertyNames' is not supported"},
      {"{\"if\": {\"propertyNames\": {\"maxLength\": 1}}, \"then\": false}",
       "'propertyNames'"},
      {"{\"type\": \"object\", \"minProperties\": 2}",
       "'minProperties' is not supported where two or more names are not said"},
      {"{\"type\": \"object\", \"minProperties\": 2, \"properties\": {\"a\": {}}}",
       "'minProperties' is not supported beside properties that may be left out"},
      {"{\"type\": \"integer\", \"multipleOf\": 4099, \"minimum\": 1}",
       "'multipleOf' is not supported with this value beside these bounds"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct lls_grammar_tree *tree;
    struct lls_error err = {0};
    assert_int_equal(compile(cases[i].schema, true, &tree, &err), LLS_GRAMMAR_NONE);
    if (strstr(err.text, cases[i].says) == NULL)
      fail_msg("%s: %s", cases[i].schema, err.text);
    lls_grammar_tree_destroy(tree);
    assert_int_not_equal(compile(cases[i].schema, false, &tree, &err), LLS_GRAMMAR_NONE);
    lls_grammar_tree_destroy(tree);
  }
}

static void mistakes_are_refused_also_if_not_strict(void **state)
{
  (void)state;
  static const char *const schemas[] = {
      "1",
      "{\"type\": \"text\"}",
      "{\"$ref\": \"#/$defs/none\"}",
      "{\"$ref\": \"http://elsewhere/schema\"}",
      "{\"$ref\": \"#\"}",
      "{\"allOf\": [{\"$ref\": \"#\"}]}",
      "{\"properties\": []}",
      "{\"minLength\": -1, \"type\": \"string\"}",
      "{\"anyOf\": []}",
      "false",
      "{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}",
  };
  for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
    struct lls_grammar_tree *tree;
    struct lls_error err = {0};
    if (compile(schemas[i], false, &tree, &err) != LLS_GRAMMAR_NONE)
      fail_msg("%s compiles", schemas[i]);
    assert_non_null(strstr(err.text, "the schema at #"));
    lls_grammar_tree_destroy(tree);
  }
}

/* Like the tools of one request: each schema alone would take few steps. */
static void schemas_of_a_tree_have_one_bound(void **state)
{
  (void)state;
  struct lls_grammar_tree *tree =
      lls_grammar_tree_create(&(struct lls_grammar_bounds){10000000, 400000000, 1000000});
  json_t *schema = json_pack("{s:s, s:{}}", "type", "object", "properties");
  struct lls_error err = {0};
  uint32_t n = 0;
  for (int i = 0; i < 400; i++) {
    char name[16];
    snprintf(name, sizeof name, "p%d", i);
    json_object_set_new(json_object_get(schema, "properties"), name,
                        json_pack("{s:s}", "type", "boolean"));
  }
  while (n < 200 && lls_grammar_json_schema(tree, schema, true) != LLS_GRAMMAR_NONE)
    n++;
  assert_in_range(n, 20, 199);
  assert_true(lls_grammar_tree_check(tree, &err) < 0);
  assert_non_null(strstr(err.text, "with those before it"));
  json_decref(schema);
  lls_grammar_tree_destroy(tree);
}

static void any_object(void **state)
{
  (void)state;
  struct lls_grammar_tree *tree =
      lls_grammar_tree_create(&(struct lls_grammar_bounds){1000, 10000, 100});
  lls_grammar_set_root(tree, lls_grammar_json_object(tree));
  assert_true(recognises(tree, "{\"a\": [1, {}]}", 14));
  assert_true(recognises(tree, "{}", 2));
  assert_false(recognises(tree, "[]", 2));
  lls_grammar_tree_destroy(tree);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arguments_have_the_names_that_are_said),
      cmocka_unit_test(names_may_come_late),
      cmocka_unit_test(counted_properties),
      cmocka_unit_test(arrays),
      cmocka_unit_test(objects),
      cmocka_unit_test(unique_items),
      cmocka_unit_test(combinations),
      cmocka_unit_test(opposites),
      cmocka_unit_test(narrow_opposites),
      cmocka_unit_test(names_of_properties),
      cmocka_unit_test(properties_come_as_the_text_has_them),
      cmocka_unit_test(refusals_name_the_place),
      cmocka_unit_test(mistakes_are_refused_also_if_not_strict),
      cmocka_unit_test(schemas_of_a_tree_have_one_bound),
      cmocka_unit_test(any_object),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
