/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of requests that have left, between the tiers where they are; see left.c.
 * Everything here is [step] unless a comment says otherwise.
 */
#ifndef LLS_CLUSTER_LEFT_H
#define LLS_CLUSTER_LEFT_H

#include "core/base/pack.h"
#include "core/instance/instance.h"

int lls_left_init(struct lls_instance *, uint32_t max_requests);
/* The same of one that is far, and like one that is here. */
int lls_left_init_remote(struct lls_instance *, const struct lls_instance *like,
                         uint32_t slots);
void lls_left_fini(struct lls_instance *);
/* [any] From the process of `in`: where those of the request are now. */
void lls_left_receive_place(struct lls_instance *in, struct lls_unpack *, uint32_t slot);
/* It has just left. */
void lls_left_put(struct lls_instance *, uint32_t slot, uint32_t target);
/* It has ended, or come back; true: its transfer has begun. */
bool lls_left_drop(struct lls_instance *, uint32_t slot);
void lls_left_receive(struct lls_instance *);     /* what others ask for */
void lls_left_place(struct lls_instance *);       /* that, in the transaction */
void lls_left_ended(struct lls_instance *);       /* with the engine's step */
bool lls_left_moves(const struct lls_instance *); /* some are on their way */
void lls_left_look(struct lls_instance *); /* where the offers' blocks are, for a view */
void lls_left_ask(struct lls_instance *);  /* of the plan, committed */
/* The lists of an offer that is to be taken; false: it can't be copied. */
bool lls_left_find(struct lls_instance *, struct lls_live *);

#endif
