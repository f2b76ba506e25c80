/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the text that must follow: first its bytes, then its tokens. Each token is the
 * longest one in the vocabulary for the next bytes, which is nearly always the
 * tokeniser's own choice. A last token that the bytes after the forced ones could make
 * longer is left to the model.
 */
#include "text/grammar/grammar_internal.h"

#define MOST_BYTES 512    /* forced bytes per call */
#define MOST_WORK  200000 /* a millisecond or two */

struct forced {
  char bytes[MOST_BYTES]; /* (n) */
  size_t n;
  bool whole; /* the text ends after these bytes */
};

/* Returns the only byte that can follow in all threads, or a negative number. */
static int only_byte(const struct lls_stacks *s, const struct lls_configuration *c)
{
  int only = LLS_DFA_NO_BYTE;
  for (uint32_t i = c->first; i < c->first + c->n && only != LLS_DFA_BYTES; i++) {
    int byte = s->dfa->states[s->threads[i].state].only;
    if (byte != LLS_DFA_NO_BYTE)
      only = only < 0 || only == byte ? byte : LLS_DFA_BYTES;
  }
  return only;
}

/* Bounds the work of stepping by a byte, independent of what was computed before: so
 * the result does not depend on earlier calls. */
static uint64_t size_of(const struct lls_stacks *s, const struct lls_configuration *c)
{
  uint64_t size = 0;
  for (uint32_t i = c->first; i < c->first + c->n; i++)
    size += s->dfa->states[s->threads[i].state].n_set;
  return size;
}

static int find_bytes(struct lls_grammar_state *state, struct forced *f)
{
  f->n = 0;
  f->whole = false;
  if (state->finished)
    return 0;
  struct lls_configuration c = lls_state_open(state);
  struct lls_stacks *s = &state->grammar->stacks;
  const uint64_t before = s->work;
  uint64_t size = 0;
  int byte;
  while (f->n < MOST_BYTES && !c.ended && !s->full &&
         size + s->work - before < MOST_WORK && (byte = only_byte(s, &c)) >= 0) {
    size += size_of(s, &c);
    c = lls_stacks_step(s, &c, (uint8_t)byte);
    if (c.n > 0 || c.ended)
      f->bytes[f->n++] = (char)byte;
  }
  f->whole = c.ended && c.n == 0;
  return lls_state_close(state);
}

/* Returns the child of a node of the vocabulary's trie for the byte, or 0. */
static uint32_t child(const struct lls_vocabulary *v, uint32_t node, uint8_t byte)
{
  for (uint32_t i = node + 1; i < v->nodes[node].end; i = v->nodes[i].end)
    if (v->nodes[i].byte == byte)
      return i;
  return 0;
}

/* Returns the length of the longest token at `at`, and the token; 0 if there is none,
 * or if the bytes end before it is certain which token is the longest. */
static size_t longest_token(const struct lls_vocabulary *v, const struct forced *f,
                            size_t at, int32_t *token)
{
  size_t length = 0, i = at;
  uint32_t node = 0, next;
  while (i < f->n && (next = child(v, node, (uint8_t)f->bytes[i])) != 0) {
    node = next;
    i++;
    uint32_t end = v->nodes[node + 1].first_token;
    if (v->nodes[node].first_token < end) {
      *token = (int32_t)v->tokens[end - 1]; /* the last of several tokens with the same
                                             * bytes: byte-fallback tokens come first */
      length = i - at;
    }
  }
  bool open = i == f->n && !f->whole && v->nodes[node].end > node + 1;
  return open ? 0 : length;
}

int lls_grammar_forced(struct lls_grammar_state *state, int32_t *tokens, uint32_t room)
{
  struct forced f;
  int rc = find_bytes(state, &f);
  int n = 0;
  for (size_t at = 0, length; rc == 0 && at < f.n && (uint32_t)n < room; at += length) {
    length = longest_token(state->grammar->vocabulary, &f, at, &tokens[n]);
    if (length == 0)
      break;
    n++;
  }
  return rc < 0 ? rc : n;
}
