/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the trie of a vocabulary; see vocabulary.h. 128,000 tokens take about 50 ms
 * and 6 MB. */
#include "text/grammar/vocabulary.h"

#include "text/grammar/byte_kinds.h"
#include "text/grammar/fragment.h"
#include "text/tokenizer/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes; a longer token is never allowed, to bound the depth of masks. */
#define LONGEST_TOKEN 1024

struct entry {
  const unsigned char *bytes;
  uint32_t n, token;
};

static int compare_entries(const void *a, const void *b)
{
  const struct entry *x = a, *y = b;
  int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
  if (order != 0)
    return order;
  if (x->n != y->n)
    return x->n < y->n ? -1 : 1;
  return x->token < y->token ? -1 : 1;
}

static bool takes_part(const struct lls_token_bytes *token)
{
  return token->bytes != NULL && token->n > 0 && token->n <= LONGEST_TOKEN;
}

static size_t total_bytes(const struct lls_token_bytes *tokens, uint32_t size)
{
  size_t sum = 0;
  for (uint32_t i = 0; i < size; i++)
    sum += takes_part(&tokens[i]) ? tokens[i].n : 0;
  return sum;
}

/* Copies the bytes, and lists the tokens that may occur in texts; `entries` has room
 * for all tokens. */
static uint32_t copy_tokens(struct lls_vocabulary *v,
                            const struct lls_token_bytes *tokens, struct entry *entries)
{
  uint32_t n = 0, at = 0;
  for (uint32_t i = 0; i < v->size; i++) {
    v->offsets[i] = at;
    if (!takes_part(&tokens[i]) || lls_vocabulary_ends(v, (int32_t)i))
      continue;
    memcpy(v->text + at, tokens[i].bytes, tokens[i].n);
    entries[n++] = (struct entry){
        .bytes = (unsigned char *)v->text + at, .n = (uint32_t)tokens[i].n, .token = i};
    at += (uint32_t)tokens[i].n;
  }
  v->offsets[v->size] = at;
  return n;
}

static uint32_t common_prefix(const struct entry *a, const struct entry *b)
{
  uint32_t n = 0;
  while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
    n++;
  return n;
}

/* Adds the nodes of the sorted tokens; nodes shared with the previous token exist
 * already. path: (LONGEST_TOKEN + 1) the nodes from the root to the last one. */
static void add_nodes(struct lls_vocabulary *v, const struct entry *entries, uint32_t n,
                      uint32_t *path)
{
  uint32_t depth = 0;
  v->nodes[0] = (struct lls_trie_node){0};
  v->n_nodes = 1;
  path[0] = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t shared = i > 0 ? common_prefix(&entries[i - 1], &entries[i]) : 0;
    for (; depth > shared; depth--)
      v->nodes[path[depth]].end = v->n_nodes;
    for (; depth < entries[i].n; depth++) {
      path[depth + 1] = v->n_nodes;
      v->nodes[v->n_nodes++] = (struct lls_trie_node){.first_token = i,
                                                      .depth = (uint16_t)(depth + 1),
                                                      .byte = entries[i].bytes[depth]};
    }
    v->tokens[i] = entries[i].token;
    if (depth > v->max_depth)
      v->max_depth = depth;
  }
  for (; depth > 0; depth--)
    v->nodes[path[depth]].end = v->n_nodes;
  v->nodes[0].end = v->n_nodes;
  v->nodes[v->n_nodes] = (struct lls_trie_node){.end = v->n_nodes + 1, .first_token = n};
  v->n_tokens = n;
}

/* Returns the UTF-8 states from which the byte, and then everything below its node, is
 * valid. */
static uint8_t whole_above(uint8_t byte, uint8_t whole_below)
{
  uint8_t states = 0;
  for (uint8_t q = 0; q < LLS_UTF8_STATES; q++) {
    uint8_t next = lls_utf8_next(q, byte);
    if (next != LLS_UTF8_BROKEN && (whole_below >> next & 1) != 0)
      states |= (uint8_t)(1u << q);
  }
  return states;
}

/* Goes backwards, since a node's descendants come after it. */
static int describe_subtrees(struct lls_vocabulary *v)
{
  uint64_t below[LONGEST_TOKEN + 2] = {0};
  uint8_t whole[LONGEST_TOKEN + 2];
  memset(whole, 0xFF, sizeof whole);
  v->below = calloc(v->n_nodes, sizeof *v->below);
  v->whole = calloc(v->n_nodes, sizeof *v->whole);
  if (v->below == NULL || v->whole == NULL)
    return -ENOMEM;
  for (uint32_t i = v->n_nodes; i-- > 0;) {
    uint32_t depth = v->nodes[i].depth;
    uint8_t byte = v->nodes[i].byte;
    v->below[i] = below[depth + 1];
    v->whole[i] = whole[depth + 1];
    below[depth + 1] = 0;
    whole[depth + 1] = 0xFF;
    below[depth] |= v->below[i] | (byte < 0x80 ? lls_byte_kind(byte) : LLS_KIND_LONG);
    whole[depth] &= whole_above(byte, v->whole[i]);
  }
  return 0;
}

static int build(struct lls_vocabulary *v, const struct lls_token_bytes *tokens)
{
  struct entry *entries = calloc(v->size + 1, sizeof *entries);
  uint32_t *path = calloc(LONGEST_TOKEN + 1, sizeof *path);
  int rc = entries == NULL || path == NULL ? -ENOMEM : 0;
  if (rc == 0) {
    uint32_t n = copy_tokens(v, tokens, entries);
    qsort(entries, n, sizeof *entries, compare_entries);
    add_nodes(v, entries, n, path);
    struct lls_trie_node *less = realloc(v->nodes, (v->n_nodes + 1) * sizeof *v->nodes);
    v->nodes = less != NULL ? less : v->nodes;
    rc = describe_subtrees(v);
  }
  free(entries);
  free(path);
  return rc;
}

int lls_vocabulary_of(const struct lls_token_bytes *tokens, uint32_t size,
                      const int32_t *ends, uint32_t n_ends, struct lls_vocabulary **out,
                      struct lls_error *err)
{
  struct lls_vocabulary *v = calloc(1, sizeof *v);
  size_t bytes = total_bytes(tokens, size);
  if (v != NULL) {
    v->size = size;
    v->text = malloc(bytes + 1);
    v->offsets = calloc((size_t)size + 1, sizeof *v->offsets);
    v->nodes = calloc(bytes + 2, sizeof *v->nodes); /* at most one node per byte */
    v->tokens = calloc((size_t)size + 1, sizeof *v->tokens);
    v->ends = calloc((size_t)n_ends + 1, sizeof *v->ends);
    v->n_ends = n_ends;
  }
  int rc = v == NULL || v->text == NULL || v->offsets == NULL || v->nodes == NULL ||
                   v->tokens == NULL || v->ends == NULL
               ? -ENOMEM
               : 0;
  if (rc == 0)
    rc = lls_fragment_store_create(&v->fragments);
  if (rc == 0) {
    if (n_ends > 0)
      memcpy(v->ends, ends, n_ends * sizeof *ends);
    rc = build(v, tokens);
  }
  if (rc < 0) {
    lls_vocabulary_destroy(v);
    return lls_fail(err, rc, "no memory for a vocabulary of %u tokens", size);
  }
  *out = v;
  return 0;
}

/* ---- special tokens ---------------------------------------------------------------- */

static int add_specials(struct lls_vocabulary *v, const struct lls_tokenizer *tokenizer,
                        uint32_t n, size_t name_bytes)
{
  uint32_t at = 0;
  v->specials = calloc((size_t)n + 1, sizeof *v->specials);
  v->names = malloc(name_bytes + 1);
  if (v->specials == NULL || v->names == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < v->size && v->n_specials < n; i++) {
    size_t length;
    if (!lls_tokenizer_is_special(tokenizer, (int32_t)i))
      continue;
    const char *name = lls_tokenizer_string(tokenizer, (int32_t)i, &length);
    memcpy(v->names + at, name, length);
    if (length > 0 && !lls_vocabulary_ends(v, (int32_t)i))
      v->specials[v->n_specials++] = (struct lls_special_token){at, (uint32_t)length, i};
    at += (uint32_t)length;
  }
  return 0;
}

const struct lls_special_token *lls_vocabulary_special(const struct lls_vocabulary *v,
                                                       const char *bytes, size_t n)
{
  const struct lls_special_token *longest = NULL;
  for (uint32_t i = 0; i < v->n_specials; i++) {
    const struct lls_special_token *s = &v->specials[i];
    if (s->n <= n && memcmp(v->names + s->name, bytes, s->n) == 0 &&
        (longest == NULL || s->n > longest->n))
      longest = s;
  }
  return longest;
}

/* The tokens as automata see them. codes: room for one code per token. */
struct described {
  struct lls_token_bytes *tokens;   /* (size) */
  char (*codes)[LLS_SPECIAL_BYTES]; /* (size) */
  uint32_t n_specials;
  size_t name_bytes; /* bytes of the special tokens' names */
};

static void describe(struct described *d, const struct lls_tokenizer *tokenizer,
                     uint32_t id)
{
  struct lls_token_bytes *t = &d->tokens[id];
  size_t length = 0;
  if (lls_tokenizer_is_special(tokenizer, (int32_t)id)) {
    lls_tokenizer_string(tokenizer, (int32_t)id, &length);
    lls_special_code(id, d->codes[id]);
    *t = (struct lls_token_bytes){d->codes[id], LLS_SPECIAL_BYTES};
    d->n_specials++;
    d->name_bytes += length;
    return;
  }
  t->bytes = lls_tokenizer_token_bytes(tokenizer, (int32_t)id, &t->n);
  if (t->bytes != NULL && memchr(t->bytes, LLS_SPECIAL_BYTE, t->n) != NULL)
    t->bytes = NULL; /* no text contains this byte */
}

int lls_vocabulary_create(const struct lls_tokenizer *tokenizer, uint32_t size,
                          const int32_t *ends, uint32_t n_ends,
                          struct lls_vocabulary **out, struct lls_error *err)
{
  size_t known = lls_tokenizer_size(tokenizer);
  struct described d = {.tokens = calloc((size_t)size + 1, sizeof *d.tokens),
                        .codes = calloc((size_t)size + 1, sizeof *d.codes)};
  int rc = -ENOMEM;
  if (d.tokens == NULL || d.codes == NULL) {
    lls_fail(err, rc, "no memory for a vocabulary of %u tokens", size);
  } else {
    for (uint32_t i = 0; i < size && i < known; i++)
      describe(&d, tokenizer, i);
    rc = lls_vocabulary_of(d.tokens, size, ends, n_ends, out, err);
  }
  free(d.tokens);
  free(d.codes);
  if (rc == 0 && add_specials(*out, tokenizer, d.n_specials, d.name_bytes) < 0) {
    lls_vocabulary_destroy(*out);
    return lls_fail(err, -ENOMEM, "no memory for a vocabulary of %u tokens", size);
  }
  return rc;
}

void lls_vocabulary_destroy(struct lls_vocabulary *v)
{
  if (v == NULL)
    return;
  lls_fragment_store_destroy(v->fragments);
  free(v->text);
  free(v->offsets);
  free(v->nodes);
  free(v->below);
  free(v->whole);
  free(v->tokens);
  free(v->ends);
  free(v->specials);
  free(v->names);
  free(v);
}
