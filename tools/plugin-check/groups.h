/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache manager over any set of groups of layers, without an engine: a host of ours
 * says which groups there are, and a memory of ours knows what each slot of each block
 * holds. Steps write what a token's contents depend on (its tokens, all before it, and
 * who may share it), copies copy it, and whatever a step reads must be there.
 *
 * So managers are tried with kinds of groups that no model here has, and with any sizes
 * of blocks.
 */
#ifndef CHECK_GROUPS_H
#define CHECK_GROUPS_H

#include <llmserve/cache.h> /* before cmocka, which has a macro `fail` */

#include "core/plugin/loader.h"
#include "t/dice.h"
#include "tools/plugin-check/findings.h"

#define GROUPS_MAX      3
#define GROUPS_REQUESTS 6
#define GROUPS_TOKENS   8 /* of a block */
#define GROUPS_CONTEXT  96
#define GROUPS_KEYS     (GROUPS_CONTEXT / GROUPS_TOKENS)
#define GROUPS_STEP     24 /* most tokens of a step */
#define GROUPS_GUESSES  12 /* most of them that are guesses */

struct groups_set {
  char name[64]; /* such as "groups FW, blocks 1:10, with a host" */
  uint32_t n;
  struct lls_group groups[GROUPS_MAX];
  struct lls_group_form forms[GROUPS_MAX][2];
  uint32_t device_units, host_units;
  uint32_t full_form; /* what full blocks of group 0 become in all tiers; NONE: stay */
};

struct groups_request {
  struct lls_request view;
  int32_t tokens[GROUPS_CONTEXT];
  struct lls_key keys[GROUPS_KEYS];
  uint64_t contents[GROUPS_CONTEXT]; /* of each token: of it and all before */
  uint64_t user[LLS_USER_WORDS];
  uint32_t reserved, run; /* tokens of this step; run: at most as many as reserved */
  /* Guesses of the next tokens, which the step writes too; accepted ones become text. */
  uint32_t guesses, accepted;
  uint32_t context;  /* cached before this step */
  uint64_t transfer; /* while it moves beside the steps */
  bool alive, in_step, named, moves;
};

struct groups_memory { /* of a tier */
  uint32_t units;
  uint64_t (*slots)[GROUPS_TOKENS]; /* (units) at a block's first unit */
  uint32_t *owner; /* (units) 1 + first unit of the block that wrote here last; 0: none */
};

struct groups_rig {
  struct findings *findings;
  const struct groups_set *set;
  const struct lls_plugin_module *module;
  const void *params;
  struct lls_host host;
  struct lls_engine_caps engine;
  struct lls_topology topology;
  struct lls_instance_info instance;
  struct lls_cost cost;
  const struct lls_group *groups[GROUPS_MAX];
  struct lls_cache_geometry geometry;
  void *self; /* the manager's */
  struct groups_request requests[GROUPS_REQUESTS];
  struct groups_memory tiers[2];
  struct dice dice, random;
  uint64_t ids;
  int64_t now_ns;
  uint32_t hits, swaps, others; /* prefixes taken; swaps; entries in another form */
  uint32_t moved;               /* transfers that ended */
  char failure[512];            /* the last sentence of host->fail */
};

/* groups.c: makes the rig and the manager. Returns what create did. */
int groups_open(struct groups_rig *, const struct lls_plugin_module *, const void *params,
                const struct groups_set *, uint64_t seed, struct findings *);
void groups_close(struct groups_rig *);
/* Makes a manager in place of the last one, whose `self` is the caller's. */
int groups_create(struct groups_rig *);
/* A request like others up to some token, in one of the families. */
void groups_submit(struct groups_rig *, struct groups_request *);
/* A token was drawn, or came in otherwise: the view has one more. */
void groups_append(struct groups_request *);

/* groups_sets.c: the sets are numbered, and these are all. With `int8`, where a
 * block of group 0 has several units, full ones of a FULL group are to become INT8. */
uint32_t groups_sets(void);
void groups_make_set(struct groups_set *, uint32_t number, bool int8);

/* groups_play.c */
struct groups_seen { /* added up over sets */
  uint32_t sets, refused, hits, swaps, moved, others;
};
/* Makes a manager for the set, and plays it if its caps have the set's kinds. */
void groups_try(const struct lls_plugin_module *, const void *params,
                const struct groups_set *, uint64_t seed, struct findings *,
                struct groups_seen *);

/* groups_memory.c */
void groups_memory_init(struct groups_memory *, uint32_t units);
void groups_memory_free(struct groups_memory *);
/* Does the copies of the step in order ASYNC, or the others. */
void groups_copy(struct groups_rig *, bool beside);
/* Asks for the table of a request that runs, and checks that what its step reads is what
 * was computed. */
void groups_read(struct groups_rig *, struct groups_request *, struct lls_block_table *);
/* Writes the tokens that the step computes. */
void groups_write(struct groups_rig *, const struct groups_request *,
                  const struct lls_block_table *);
/* Checks that no other block was written over what the step has written. */
void groups_verify(struct groups_rig *, const struct groups_request *,
                   const struct lls_block_table *);

#endif
