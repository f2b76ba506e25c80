/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/grammar_walks FILE...: random texts that the automata of schemas accept, for a
 * reference validator to judge.
 *
 *   bench/grammar_walks maskbench/data/FILE... | python3 bench/grammar_judge.py
 *
 * FILE is a file of MaskBench. For each schema which compiles as `strict`, 8 texts are
 * drawn byte by byte from the bytes which may follow; where a text may end it does so
 * with probability 1/2. JSON's punctuation is likelier than letters, much more so in long
 * texts. Texts which end within 2,400 bytes are printed, one {"file", "text"} a line.
 * Every run draws the same texts.
 */
#include "bench/grammar_bytes.h"

#include "core/base/json_parse.h"
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/json_schema.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WALKS   8 /* texts of one schema */
#define LONGEST 2400
#define LONG    300 /* bytes after which the text is steered to its end */

static uint64_t random_state = UINT64_C(88172645463325252);

/* xorshift (Marsaglia 2003) */
static uint32_t draw(uint32_t below)
{
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 20) % below;
}

static uint32_t weight_of(int byte, size_t length)
{
  if (byte == 0 || byte >= 0x80 || strchr(" \n\t", byte) != NULL)
    return 1;
  if (strchr("\"}],:", byte) != NULL)
    return length > LONG ? 400 : 60;
  return 6;
}

/* Draws one of the bytes which may follow; -1 if there is none. */
static int draw_byte(const uint32_t *bits, size_t length)
{
  uint32_t sums[GRAMMAR_BYTES_END], sum = 0;
  int byte = 0;
  for (int i = 0; i < GRAMMAR_BYTES_END; i++)
    sums[i] = sum += (bits[i / 32] >> (i % 32) & 1) != 0 ? weight_of(i, length) : 0;
  if (sum == 0)
    return -1;
  for (uint32_t at = draw(sum); sums[byte] <= at;)
    byte++;
  return byte;
}

/* Returns true if the text ended. */
static bool walk(struct lls_grammar_state *state, char *text)
{
  uint32_t bits[GRAMMAR_BYTES_END / 32 + 1];
  for (size_t n = 0; n < LONGEST; n++) {
    text[n] = '\0';
    if (lls_grammar_fill_mask(state, bits) <= 0)
      return false;
    if ((bits[GRAMMAR_BYTES_END / 32] & 1) != 0 && draw(2) == 0)
      return true;
    int byte = draw_byte(bits, n);
    if (byte < 0)
      return false;
    text[n] = (char)byte;
    if (lls_grammar_accept_bytes(state, text + n, 1) < 0)
      return false;
  }
  return false;
}

static void print(const char *file, const char *text)
{
  json_t *line = json_pack("{s:s, s:s}", "file", file, "text", text);
  char *json = json_dumps(line, JSON_COMPACT);
  puts(json != NULL ? json : "{}");
  free(json);
  json_decref(line);
}

static struct lls_grammar *compile(const json_t *schema, struct lls_vocabulary *bytes)
{
  struct lls_grammar_tree *tree = lls_grammar_tree_create(
      &(struct lls_grammar_bounds){1u << 18, 16u << 20, 1u << 15});
  struct lls_grammar *grammar = NULL;
  struct lls_error ignored;
  if (tree == NULL)
    return NULL;
  lls_grammar_set_root(tree, lls_grammar_json_schema(tree, schema, true));
  if (lls_grammar_compile(tree, bytes, &LLS_GRAMMAR_LIMITS, &grammar, &ignored) != 0)
    grammar = NULL;
  lls_grammar_tree_destroy(tree);
  return grammar;
}

int main(int argc, char **argv)
{
  struct lls_vocabulary *bytes = grammar_bytes();
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  char text[LONGEST + 1];
  for (int i = 1; bytes != NULL && state != NULL && i < argc; i++) {
    json_t *file = lls_json_parse_file(argv[i], JSON_ALLOW_NUL, NULL);
    struct lls_grammar *grammar =
        file != NULL ? compile(json_object_get(file, "schema"), bytes) : NULL;
    for (int k = 0; grammar != NULL && k < WALKS; k++) {
      lls_grammar_state_init(state, grammar);
      if (walk(state, text))
        print(argv[i], text);
    }
    lls_grammar_unref(grammar);
    json_decref(file);
  }
  free(state);
  lls_vocabulary_destroy(bytes);
  return 0;
}
