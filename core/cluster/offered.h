/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of offered requests, and their moves between device and host memory of the
 * instance that offered them; see offered.c. Everything here is [step] unless a comment
 * says otherwise.
 */
#ifndef LLS_CLUSTER_OFFERED_H
#define LLS_CLUSTER_OFFERED_H

#include <stdbool.h>
#include <stdint.h>

struct lls_instance;
struct lls_live;
struct lls_unpack;

int lls_offered_init(struct lls_instance *, uint32_t max_requests);
/* Initialises the stand-in of a remote instance; `like` is an instance of this
 * process. */
int lls_offered_init_remote(struct lls_instance *, const struct lls_instance *like,
                            uint32_t slots);
void lls_offered_fini(struct lls_instance *);

/* ---- at the source */

/* Notes that the request was just offered to the instance `target`. */
void lls_offered_put(struct lls_instance *, uint32_t slot, uint32_t target);
/* Forgets an offer whose request has ended or was returned. Returns true if its
 * transfer has begun. */
bool lls_offered_drop(struct lls_instance *, uint32_t slot);
/* Handles the inbox's messages which ask for blocks to be moved. */
void lls_offered_receive_shifts(struct lls_instance *);
/* Starts the moves for which there is memory, in the transaction. */
void lls_offered_start_moves(struct lls_instance *);
/* Ends the moves that completed with the engine's step. */
void lls_offered_finish_moves(struct lls_instance *);
/* Returns true if a move has started and not ended. */
bool lls_offered_are_moving(const struct lls_instance *);

/* ---- at the target */

/* Writes the residency of each incoming request's blocks into its view. */
void lls_offered_refresh_views(struct lls_instance *);
/* Asks the sources for the moves that the committed plan has. */
void lls_offered_request_moves(struct lls_instance *);
/* Copies the present block lists of an incoming request to its move. Returns false if the
 * blocks can't be copied. */
bool lls_offered_find_lists(struct lls_instance *, struct lls_live *);
/* [any] Unpacks a message of the remote source `in`: where the request's blocks are. */
void lls_offered_receive_place(struct lls_instance *in, struct lls_unpack *,
                               uint32_t slot);

#endif
