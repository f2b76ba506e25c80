/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The draft model's candidates: learns how often one of a probability is right, and how
 * far a request's answer follows them, and so how many are worth their time. The drafters
 * model and auto have one.
 *
 * Candidates of a request that make d passes of time P, and of which each is right with
 * probability a if those before are, let a step of time S + d V emit
 *
 *   E(d) = 1 + a + a^2 + ... + a^d   tokens in   S + d (P + V)
 *
 * and the d that makes the most of them in a time is wanted; 0 if that is no better than
 * a step without guesses. a is the request's own; where it has few candidates yet, that
 * of all. After a 0 one candidate is tried now and then, since a text may change.
 */
#ifndef MODEL_CANDIDATES_H
#define MODEL_CANDIDATES_H

#include <llmserve/drafter.h>

#define CANDIDATES_BINS 10 /* of the probability */
#define CANDIDATES_MAX  31

struct own_candidates {   /* of a request */
  float right, tried;     /* until the first wrong one of each time */
  uint32_t pause, pauses; /* calls of `wants` until the next trial; of the last pause */
  uint32_t length, n;     /* the last candidates, behind a text of that length */
  int32_t tokens[CANDIDATES_MAX];
  float odds[CANDIDATES_MAX];
};

struct candidates_learnt { /* of all requests */
  float hits[CANDIDATES_BINS], tries[CANDIDATES_BINS];
};

struct candidates {
  struct candidates_learnt learnt;
  struct own_candidates *by_slot; /* (slots) */
};

/* Returns 0 or -ENOMEM. */
int candidates_init(struct candidates *, uint32_t slots);
void candidates_free(struct candidates *);

void candidates_begin(struct candidates *, const struct lls_request *);
/* Compares the last candidates with what the text has become, whether or not a step
 * verified them. To be called before `wanted` and `take`. */
void candidates_learn(struct candidates *, const struct lls_request *);
/* Returns how many candidates are worth their time. *rate, if not NULL: tokens in a ns
 * with them. */
uint32_t candidates_wanted(struct candidates *, const struct lls_request *,
                           const struct lls_draft_work *, double *rate);
/* Writes the candidates with their odds. Returns how many. */
uint32_t candidates_take(struct candidates *, const struct lls_request *,
                         const struct lls_draft *, int32_t *tokens, float *odds);

/* Returns false if these cannot be what was learnt. */
bool candidates_are_sound(const struct candidates_learnt *);
/* Passes what was learnt on in a reload. */
int candidates_export(const struct candidates *, struct lls_blob *out);
int candidates_import(struct candidates *, const struct lls_host *,
                      const struct lls_blob *);

#endif
