/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hybrid cache manager's state, shared by its files (Apt-Serve, section 4).
 *
 * It is that of the usual policy (policy/side.h) with two lists for each sequence, one of
 * blocks in KV form and one of blocks of X, half as large for the same tokens, which the
 * side knows as two groups. A sequence has one of them. While it changes from hidden to
 * KV form, from reserve to computed, it has both: the engine restores X into the KV
 * blocks in that step.
 */
#ifndef HYBRID_H
#define HYBRID_H

#include <llmserve/policy/side.h>

struct params {
  int64_t form;   /* enum default_form */
  double max_eta; /* hidden form is offered up to this ratio of bytes */
};

enum default_form { DEFAULT_KV, DEFAULT_HIDDEN };

enum list { LIST_KV, LIST_X, N_LISTS }; /* the side's groups */

struct hybrid {
  struct lls_pol_side side; /* first: the functions of policy/face.h look for it there */
  struct params params;
  bool offers_hidden;
  char why_not[160]; /* reason, if hidden form is not offered */

  /* the host as the side sees it, with a group for each list */
  struct lls_host host;
  struct lls_engine_caps engine;
  struct lls_group lists[N_LISTS];
  const struct lls_group *groups[N_LISTS];
};

static inline uint32_t held_of(const struct hybrid *m, const struct lls_pol_sequence *s,
                               enum list list)
{
  return list < m->side.n_groups ? lls_pol_rows_held(&m->side.rows, s, list) : 0;
}

/* ---- sequence.c: operations on one sequence */
/* Returns the form of a sequence: KV also while X is restored; NONE if it holds no
 * block. */
uint32_t hybrid_form_of(const struct hybrid *, const struct lls_pol_sequence *);
/* Returns the form in which reserve(asked) holds the sequence; asked = NONE: the
 * manager's choice. */
uint32_t hybrid_form(const struct hybrid *, const struct lls_pol_sequence *,
                     uint32_t asked);
/* Returns the units of new blocks that `tokens` more take in that form. */
uint32_t hybrid_units_needed(const struct hybrid *, const struct lls_pol_sequence *,
                             uint32_t tokens, uint32_t form);
int hybrid_reserve(struct hybrid *, struct lls_pol_sequence *, uint32_t tokens,
                   uint32_t form);
/* Frees the X list after the engine has restored it: the sequence is then in KV form. */
void hybrid_forget_x(struct hybrid *, struct lls_pol_sequence *);

#endif
