/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of prompts that were sent to an instance; see sent_keys.h. */
#include "core/instance/sent_keys.h"

#include <errno.h>
#include <stdlib.h>

/* Keys whose places are one line of memory: the one longest not sent makes room. */
#define LLS_SENT_WAYS 4

struct lls_sent_key {
  uint64_t word; /* of the key: two keys with an equal word are taken for equal */
  uint64_t when; /* 0: free */
};

int lls_sent_init(struct lls_sent_keys *s, uint64_t blocks)
{
  s->n = LLS_SENT_WAYS;
  while (s->n < blocks)
    s->n *= 2;
  s->now = 0;
  s->all = calloc(s->n, sizeof *s->all);
  return s->all != NULL ? 0 : -ENOMEM;
}

void lls_sent_free(struct lls_sent_keys *s)
{
  free(s->all);
  s->all = NULL;
}

/* Returns the key's place, or the place that it would take. */
static struct lls_sent_key *place_of(const struct lls_sent_keys *s, uint64_t word)
{
  struct lls_sent_key *line = &s->all[word & (s->n - 1) & ~(uint64_t)(LLS_SENT_WAYS - 1)];
  struct lls_sent_key *oldest = line;
  for (uint32_t i = 0; i < LLS_SENT_WAYS; i++) {
    if (line[i].when > 0 && line[i].word == word)
      return &line[i];
    if (line[i].when < oldest->when)
      oldest = &line[i];
  }
  return oldest;
}

uint32_t lls_sent_find(const struct lls_sent_keys *s, const struct lls_key *keys,
                       uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    const struct lls_sent_key *k = place_of(s, keys[i].word[0]);
    if (k->when == 0 || k->word != keys[i].word[0])
      return i;
  }
  return n;
}

/* From the last key to the first, so that a line which several of them share keeps the
 * first: without it the others are not found. */
void lls_sent_note(struct lls_sent_keys *s, const struct lls_key *keys, uint32_t n)
{
  s->now++;
  for (uint32_t i = n; i > 0; i--)
    *place_of(s, keys[i - 1].word[0]) =
        (struct lls_sent_key){.word = keys[i - 1].word[0], .when = s->now};
}
