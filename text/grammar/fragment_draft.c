/* SPDX-License-Identifier: Apache-2.0 */
/* Collects a fragment, and copies it to its final memory; see fragment_draft.h. */
#include "text/grammar/fragment_draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int lls_fragment_memory_create(struct lls_fragment_memory *memory, size_t size)
{
  *memory = (struct lls_fragment_memory){.base = malloc(size), .size = size};
  return memory->base != NULL ? 0 : -ENOMEM;
}

void *lls_fragment_memory_take(struct lls_fragment_memory *memory, size_t bytes)
{
  bytes = (bytes + 15) & ~(size_t)15;
  if (bytes > memory->size - memory->used)
    return NULL;
  memory->used += bytes;
  return memory->base + memory->used - bytes;
}

int lls_draft_create(struct lls_fragment_draft **out,
                     const struct lls_vocabulary *vocabulary)
{
  struct lls_fragment_draft *d = calloc(1, sizeof *d);
  if (d == NULL)
    return -ENOMEM;
  d->vocabulary = vocabulary;
  d->tokens = malloc((vocabulary->n_tokens + 1) * sizeof *d->tokens);
  d->suffixes = malloc(LLS_DRAFT_SUFFIXES * sizeof *d->suffixes);
  d->endings = malloc(LLS_DRAFT_ENDINGS * sizeof *d->endings);
  d->lent = malloc((lls_vocabulary_words(vocabulary) + 1) * sizeof *d->lent);
  d->bits = malloc((lls_vocabulary_words(vocabulary) + 1) * sizeof *d->bits);
  if (d->tokens != NULL && d->suffixes != NULL && d->endings != NULL && d->lent != NULL &&
      d->bits != NULL) {
    *out = d;
    return 0;
  }
  lls_draft_free(d);
  return -ENOMEM;
}

void lls_draft_free(struct lls_fragment_draft *d)
{
  if (d == NULL)
    return;
  free(d->tokens);
  free(d->suffixes);
  free(d->endings);
  free(d->lent);
  free(d->bits);
  free(d);
}

void lls_draft_begin(struct lls_fragment_draft *d, bool counts)
{
  d->n_tokens = 0;
  d->n_suffixes = 1;
  d->n_endings = 1;
  d->suffixes[0] = (struct lls_draft_suffix){0};
  d->endings[0] = (struct lls_suffix_token){0};
  d->counts = counts;
  d->full = false;
  d->lender = NULL;
}

void lls_draft_add(struct lls_fragment_draft *d, uint32_t first, uint32_t end,
                   uint32_t times)
{
  const struct lls_vocabulary *v = d->vocabulary;
  for (uint32_t i = v->nodes[first].first_token; i < v->nodes[end].first_token; i++) {
    d->tokens[d->n_tokens].token = v->tokens[i];
    d->tokens[d->n_tokens++].times = times;
  }
  d->work += (v->nodes[end].first_token - v->nodes[first].first_token) / 8;
}

static uint32_t child_of(struct lls_fragment_draft *d, uint32_t parent, uint8_t byte)
{
  uint32_t child = d->suffixes[parent].child;
  for (; child != 0 && d->suffixes[child].byte != byte; d->work++)
    child = d->suffixes[child].sibling;
  if (child != 0)
    return child;
  if (d->n_suffixes == LLS_DRAFT_SUFFIXES) {
    d->full = true;
    return 0;
  }
  d->suffixes[d->n_suffixes] =
      (struct lls_draft_suffix){.sibling = d->suffixes[parent].child, .byte = byte};
  return d->suffixes[parent].child = d->n_suffixes++;
}

static void add_ending(struct lls_fragment_draft *d, uint32_t token, uint32_t suffix,
                       uint32_t times)
{
  if (d->n_endings == LLS_DRAFT_ENDINGS) {
    d->full = true;
    return;
  }
  d->endings[d->n_endings] =
      (struct lls_suffix_token){token, times, d->suffixes[suffix].tokens};
  d->suffixes[suffix].tokens = d->n_endings++;
}

static void add_endings(struct lls_fragment_draft *d, uint32_t node, uint32_t suffix,
                        uint32_t times)
{
  const struct lls_vocabulary *v = d->vocabulary;
  for (uint32_t i = v->nodes[node].first_token; i < v->nodes[node + 1].first_token; i++)
    add_ending(d, v->tokens[i], suffix, times);
}

void lls_draft_end(struct lls_fragment_draft *d, const uint8_t *bytes, uint32_t n,
                   uint32_t node, uint32_t times)
{
  const struct lls_trie_node *nodes = d->vocabulary->nodes;
  uint32_t above = nodes[node].depth - 1u;
  d->path[0] = 0;
  for (uint32_t i = 0; i < n && !d->full; i++)
    d->path[0] = child_of(d, d->path[0], bytes[i]);
  for (uint32_t i = node; i < nodes[node].end && !d->full; i++, d->work++) {
    uint32_t depth = nodes[i].depth - above;
    d->path[depth] = child_of(d, d->path[depth - 1], nodes[i].byte);
    if (!d->full)
      add_endings(d, i, d->path[depth], times);
  }
}

/* ---- a loan ------------------------------------------------------------------------ */

/* The loan begins with all tokens; this removes the tokens before `token` that are not
 * borrowed. */
static void skip_to(struct lls_fragment_draft *d, uint32_t token)
{
  for (uint32_t i = d->lent_to; i < token; i++)
    d->lent[d->vocabulary->tokens[i] / 32] &= ~(1u << (d->vocabulary->tokens[i] % 32));
}

void lls_draft_borrow(struct lls_fragment_draft *d, const struct lls_fragment *lender,
                      uint32_t node)
{
  const struct lls_trie_node *nodes = d->vocabulary->nodes;
  if (d->lender == NULL) {
    d->lender = lender;
    d->lent_to = 0;
    memset(d->lent, 0xFF, lls_vocabulary_words(d->vocabulary) * sizeof *d->lent);
  }
  skip_to(d, nodes[node].first_token);
  d->lent_to = nodes[nodes[node].end].first_token;
}

void lls_draft_close_loan(struct lls_fragment_draft *d)
{
  size_t words = lls_vocabulary_words(d->vocabulary);
  skip_to(d, d->vocabulary->n_tokens);
  for (size_t i = 0; i < words; i++)
    d->bits[i] = d->lent[i] & d->lender->bits[LLS_FRAGMENT_CUTS - 1][i];
}

static bool is_lent(const struct lls_fragment_draft *d, uint32_t token)
{
  return (d->lent[token / 32] >> (token % 32) & 1) != 0;
}

void lls_draft_add_lent(struct lls_fragment_draft *d, uint32_t suffix)
{
  const struct lls_suffix_token *endings = d->lender->suffix_tokens;
  for (uint32_t t = d->lender->suffixes[suffix].tokens; t != 0; t = endings[t].next)
    if (is_lent(d, endings[t].token))
      d->bits[endings[t].token / 32] |= 1u << (endings[t].token % 32);
}

void lls_draft_end_lent(struct lls_fragment_draft *d, uint32_t suffix, uint32_t to)
{
  const struct lls_fragment *lender = d->lender;
  uint32_t child = child_of(d, to, lender->suffixes[suffix].byte);
  for (uint32_t t = lender->suffixes[suffix].tokens; t != 0 && !d->full;
       t = lender->suffix_tokens[t].next)
    if (is_lent(d, lender->suffix_tokens[t].token))
      add_ending(d, lender->suffix_tokens[t].token, child, 0);
  const struct lls_suffix *all = lender->suffixes;
  for (uint32_t i = suffix + 1; i < all[suffix].end && !d->full; i = all[i].end)
    lls_draft_end_lent(d, i, child);
}

/* ---- the copy ---------------------------------------------------------------------- */

/* Sorts tokens by the repetitions they need: counts them, then fills the places. */
static bool sort_tokens(const struct lls_fragment_draft *d, struct lls_fragment *f,
                        struct lls_fragment_memory *memory)
{
  for (uint32_t i = 0; i < d->n_tokens; i++)
    if (d->tokens[i].times > f->most_times)
      f->most_times = d->tokens[i].times;
  uint32_t *up_to = lls_fragment_memory_take(memory, (f->most_times + 2) * sizeof *up_to);
  uint32_t *tokens = lls_fragment_memory_take(memory, (d->n_tokens + 1) * sizeof *tokens);
  if (up_to == NULL || tokens == NULL)
    return false;
  memset(up_to, 0, (f->most_times + 2) * sizeof *up_to);
  for (uint32_t i = 0; i < d->n_tokens; i++)
    up_to[d->tokens[i].times + 1]++;
  for (uint32_t t = 1; t <= f->most_times + 1; t++)
    up_to[t] += up_to[t - 1];
  for (uint32_t i = 0; i < d->n_tokens; i++) /* up_to[t]: the next free place for t
                                              * repetitions */
    tokens[up_to[d->tokens[i].times]++] = d->tokens[i].token;
  f->n_tokens = d->n_tokens;
  f->tokens = tokens;
  f->up_to = up_to;
  return true;
}

static bool set_bits(const struct lls_fragment_draft *d, struct lls_fragment *f, int cut,
                     uint32_t n, struct lls_fragment_memory *memory)
{
  size_t words = lls_vocabulary_words(d->vocabulary);
  if (n < words / 4)
    return true;
  uint32_t *bits = lls_fragment_memory_take(memory, words * sizeof *bits);
  if (bits == NULL)
    return false;
  memset(bits, 0, words * sizeof *bits);
  for (uint32_t i = 0; i < n; i++)
    bits[f->tokens[i] / 32] |= 1u << (f->tokens[i] % 32);
  f->bits[cut] = bits;
  return true;
}

/* Copies the suffixes below the draft's `suffix`, of which the copy is the last of the
 * n nodes. */
static uint32_t copy_below(const struct lls_fragment_draft *d, uint32_t suffix,
                           struct lls_suffix *to, uint32_t n)
{
  uint32_t above = n - 1;
  for (uint32_t i = d->suffixes[suffix].child; i != 0; i = d->suffixes[i].sibling) {
    to[n] = (struct lls_suffix){.tokens = d->suffixes[i].tokens,
                                .depth = (uint16_t)(to[above].depth + 1),
                                .byte = d->suffixes[i].byte};
    n = copy_below(d, i, to, n + 1);
  }
  to[above].end = n;
  return n;
}

static bool copy_suffixes(const struct lls_fragment_draft *d, struct lls_fragment *f,
                          struct lls_fragment_memory *memory)
{
  if (d->n_suffixes == 1)
    return true;
  size_t ending_bytes = d->n_endings * sizeof *d->endings;
  struct lls_suffix *suffixes =
      lls_fragment_memory_take(memory, d->n_suffixes * sizeof *suffixes);
  struct lls_suffix_token *endings = lls_fragment_memory_take(memory, ending_bytes);
  if (suffixes == NULL || endings == NULL)
    return false;
  suffixes[0] = (struct lls_suffix){0};
  f->n_suffixes = copy_below(d, 0, suffixes, 1);
  memcpy(endings, d->endings, ending_bytes);
  f->suffixes = suffixes;
  f->suffix_tokens = endings;
  return true;
}

/* Stores the tokens as bits: they need no repetitions, and are too many for a list. */
static bool set_all_bits(const struct lls_fragment_draft *d, struct lls_fragment *f,
                         struct lls_fragment_memory *memory)
{
  size_t words = lls_vocabulary_words(d->vocabulary);
  uint32_t *bits = lls_fragment_memory_take(memory, words * sizeof *bits);
  if (bits == NULL)
    return false;
  if (d->lender != NULL)
    memcpy(bits, d->bits, words * sizeof *bits);
  else
    memset(bits, 0, words * sizeof *bits);
  for (uint32_t i = 0; i < d->n_tokens; i++)
    bits[d->tokens[i].token / 32] |= 1u << (d->tokens[i].token % 32);
  f->bits[LLS_FRAGMENT_CUTS - 1] = bits;
  return true;
}

static bool copy_tokens(const struct lls_fragment_draft *d, struct lls_fragment *f,
                        struct lls_fragment_memory *memory)
{
  bool many = d->n_tokens >= lls_vocabulary_words(d->vocabulary) / 4;
  if (!d->counts && (many || d->lender != NULL))
    return set_all_bits(d, f, memory);
  bool fits = sort_tokens(d, f, memory) &&
              set_bits(d, f, LLS_FRAGMENT_CUTS - 1, f->n_tokens, memory);
  for (int cut = 0; fits && d->counts && cut < LLS_FRAGMENT_CUTS - 1; cut++)
    if (1u << cut < f->most_times)
      fits = set_bits(d, f, cut, f->up_to[1u << cut], memory);
  return fits;
}

const struct lls_fragment *lls_draft_copy(const struct lls_fragment_draft *d,
                                          struct lls_fragment_memory *memory)
{
  size_t before = memory->used;
  struct lls_fragment *f = lls_fragment_memory_take(memory, sizeof *f);
  if (f != NULL) {
    *f = (struct lls_fragment){.counts = d->counts};
    if (copy_tokens(d, f, memory) && copy_suffixes(d, f, memory))
      return f;
  }
  memory->used = before;
  return NULL;
}
