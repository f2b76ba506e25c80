/* SPDX-License-Identifier: Apache-2.0 */
/* Matches patterns of schemas with known texts (names of properties and constants), and
 * with each other. PCRE2 is set to read an expression as ECMA 262 does where the two
 * differ. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/grammar/regex.h"
#include "text/grammar/regex_product.h"
#include "text/grammar/schema_compile.h"

#include <errno.h>
#include <pcre2.h>
#include <string.h>

#define MATCH_LIMIT 100000 /* steps of PCRE2: a client chose the expression */

static enum lls_schema_answer match(const pcre2_code *code, const char *text,
                                    size_t length)
{
  enum lls_schema_answer answer = LLS_SCHEMA_UNKNOWN;
  pcre2_match_context *context = pcre2_match_context_create(NULL);
  pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
  if (context != NULL && data != NULL) {
    pcre2_set_match_limit(context, MATCH_LIMIT);
    pcre2_set_depth_limit(context, MATCH_LIMIT);
    pcre2_set_heap_limit(context, 20000); /* KiB */
    int n = pcre2_match(code, (PCRE2_SPTR)text, length, 0, 0, data, context);
    answer = n >= 0                     ? LLS_SCHEMA_YES
             : n == PCRE2_ERROR_NOMATCH ? LLS_SCHEMA_NO
                                        : LLS_SCHEMA_UNKNOWN;
  }
  pcre2_match_data_free(data);
  pcre2_match_context_free(context);
  return answer;
}

static pcre2_code *compile(const char *pattern)
{
  int error;
  PCRE2_SIZE at;
  return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                       PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY |
                           PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C,
                       &error, &at, NULL);
}

enum lls_schema_answer lls_schema_matches(const char *pattern, const char *text,
                                          size_t length)
{
  pcre2_code *code = compile(pattern);
  if (code == NULL)
    return LLS_SCHEMA_UNKNOWN;
  enum lls_schema_answer answer = match(code, text, length);
  pcre2_code_free(code);
  return answer;
}

/* An expression that this grammar does not support may still be valid for PCRE2. */
bool lls_schema_check_pattern(struct lls_schema *s, const json_t *schema,
                              const char *keyword, const char *pattern)
{
  struct lls_error err = {0};
  int code = 0;
  pcre2_code *compiled = compile(pattern);
  if (compiled != NULL) {
    pcre2_code_free(compiled);
    return true;
  }
  struct lls_regex_use use = {.search = true, .json = true};
  uint32_t node =
      lls_grammar_regex(s->json.tree, pattern, strlen(pattern), use, &code, &err);
  if (node != LLS_GRAMMAR_NONE || code != -EINVAL)
    return true;
  lls_schema_fail(s, schema, "'%s' is no regular expression: %s", keyword, err.text);
  return false;
}

/* Without `strict`, giving up a keyword early is better than refusing a schema for its
 * size. */
#define FEW_SETS 150
/* Ranges per step: the products of one request take at most 0.5 s. */
#define WORK_OF_A_STEP 1000

uint32_t lls_schema_texts(struct lls_schema *s, const json_t *schema,
                          const struct lls_product *p, int *code, struct lls_error *err)
{
  uint64_t work = 0;
  struct lls_product bounded = *p;
  bounded.most = s->strict ? LLS_PRODUCT_SETS : FEW_SETS;
  if (!lls_schema_step(s, schema)) {
    *code = -E2BIG;
    return LLS_GRAMMAR_NONE;
  }
  uint32_t node = lls_grammar_product(s->json.tree, &bounded, &work, code, err);
  *s->work += (unsigned)(work / WORK_OF_A_STEP);
  return node;
}
