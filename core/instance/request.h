/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live request: the view that policies see, and members for the core only.
 *
 * It is made on [main] at submission with all memory that it will ever need, passed to
 * [step] through the inbox, and freed on [main] when its FINISHED event has been handed
 * out. In between only one thread uses it: [step] of the instance that has the request.
 *
 * Ids contain their slot: id = sequence * slots + slot, with slots a power of two. So
 * ids increase with arrival, and an id finds its request in one load: no hash on the
 * step path.
 */
#ifndef LLS_INSTANCE_REQUEST_H
#define LLS_INSTANCE_REQUEST_H

#include "text/grammar/compiled_grammar.h"
#include "core/instance/block_keys.h"
#include "core/instance/life.h"
#include "core/instance/migration.h"
#include "core/instance/event.h"
#include "core/instance/submission.h"

/* The open transaction's effect on a request; cleared at its end. */
enum lls_placed {
  LLS_PLACED_NOT,
  LLS_PLACED_RESERVED,
  LLS_PLACED_PREEMPTED,
  LLS_PLACED_MOVING, /* the transfer of its cache between the tiers starts */
  LLS_PLACED_TAKEN,  /* came from another instance, and has memory for its cache */
};

/* Why a request is in an inbox. */
enum lls_mail {
  LLS_MAIL_ARRIVAL,
  LLS_MAIL_OFFER,  /* another instance, which has the blocks, offers the request */
  LLS_MAIL_RETURN, /* the target sends an offered request back to the source */
  LLS_MAIL_AGAIN,  /* the request's process is lost: all its tokens are prefilled again */
};

/* A request on its way between instances; migrate.c. */
struct lls_move {
  uint32_t mail;     /* enum lls_mail */
  int64_t mailed_ns; /* time of sending by the sender's clock; LLS_NEVER: due at once */
  bool incoming;     /* the request is in an instance's list of incoming requests
                        (migration.h) */
  bool fetching;   /* the request is in the list of an instance that fetches its blocks */
  uint64_t ticket; /* ticket of the fetch */
  int64_t began_ns; /* when the fetch began */
  uint32_t source;  /* instance that has the blocks */
  uint32_t to;      /* instance that it is offered to */
  bool late;        /* some blocks are INT8: it is offered after the step */
  uint32_t cached_tokens;
  uint32_t units;                  /* device units that it held when it was offered */
  uint32_t refusal;                /* of a return: enum lls_refusal */
  struct lls_block_lists blocks;   /* at the source; in entries */
  struct lls_block_entry *entries; /* (max_entries) in the request's allocation */
  uint32_t max_entries;            /* 0: there is only one instance */
};

/* The grammar of an answer; constraint.c. The state follows the answer's tokens, so it
 * migrates with the request and outlives its cache. */
struct lls_constraint {
  struct lls_grammar *grammar; /* NULL: none; the request's reference */
  struct lls_grammar_state *state;
  /* one bit for each token of the vocabulary; NULL: no grammar, and no lists except
   * stop tokens */
  uint32_t *mask;
  struct lls_mask_progress progress;
  uint64_t spent; /* units of work so far for the next token */
  uint64_t cost;  /* units of work for the last token */
  bool whole;     /* the mask of the next token is complete */
  bool postponed; /* the mask was incomplete in this step: nothing was drawn */
  int failed;     /* -errno: the next token's mask could not be made, or the grammar
                     refused the token */
};

struct lls_draft_ask;      /* core/draft/draft_model.h */
struct lls_session_record; /* core/loop/sessions.c */

/* The reads of a request that waits for the disk; core/step/disk_tier.c. */
struct lls_disk_wait {
  int64_t until_ns;        /* it waits no longer than that */
  int64_t passed_until_ns; /* reads for others may begin first, while it has no room */
  uint64_t ticket;         /* number that the disk gave the reads */
  bool begun;
  /* blocks [first_block, end) are read, up to `next_block` they are on their way, up to
   * `landed` they have come */
  uint32_t round, first_block, next_block, landed, end, n_blocks;
  uint32_t coming; /* tokens that may still come */
};

struct lls_live {
  struct lls_request view; /* first, since policies' handles point to it */
  struct lls_live *next;   /* link in the inbox */
  void *owner;             /* an object of main's, copied to every event */
  int32_t *tokens;         /* (max_length) prompt then output; in this allocation */
  struct lls_keys keys;    /* keys of the request's full blocks; in this allocation */
  uint32_t max_length;
  /* of [step]: the cache manager has admitted it; leading blocks that are on disk or need
   * not be written; tokens that were read from disk for it */
  bool admitted;
  uint32_t disk_blocks, disk_tokens;
  uint32_t disk_ahead; /* of these: counted in lls_instance.disk_ahead */
  struct lls_disk_wait disk;
  struct lls_sampling sampling;
  struct lls_logit_bias *biases; /* the client's, and room for those of DRY */
  uint32_t n_bias;               /* the client's */
  struct lls_dry_state dry;      /* its arrays are in this allocation */
  struct lls_thought_state thought;
  struct lls_constraint constraint;
  struct lls_lora *lora; /* the request's reference, or NULL */
  float lora_scale;      /* factor of what the adapter adds */
  uint32_t min_new_tokens;
  /* (n_stop_tokens) stop tokens of the client and, unless it ignores them, EOS tokens
   * of the model; in this allocation */
  int32_t *stop_tokens;
  uint32_t n_stop_tokens;
  /* lists.c; in this allocation */
  uint32_t *allowed;  /* the tokens that may ever be drawn, or NULL: all */
  int32_t *bad_words; /* (n_bad_words) as lls_submission has them */
  uint32_t n_bad_words;
  int32_t *held;  /* (with a grammar) scratch for stop tokens and the grammar's ends */
  bool exhausted; /* no token is allowed in this step: the answer ends */
  bool no_number; /* the model's logits were not numbers: the answer fails */
  /* (prompt_tokens) or NULL; each entry is written once, before the first token is
   * sent, and then is main's to read; in this allocation */
  struct lls_sampled *scores;
  uint32_t n_scored; /* scores present, including the first, which is empty */
  uint32_t score_logprobs;
  uint32_t pooling; /* enum lls_pooling */
  uint32_t second_text;
  int32_t *drafts; /* (max_drafts) guesses, of which view.drafted_tokens are valid */
  float *draft_odds;
  const struct lls_draft_ask *ask; /* what the draft model made of it, or NULL */
  uint32_t row;                    /* in the batch of the last step that had it */
  uint32_t max_drafts;
  uint32_t n_usable; /* in a step that verifies guesses: how many of its draws count */
  uint64_t drafted, accepted; /* guesses that were verified so far, and became text */
  uint32_t n_pooled;          /* tokens whose vector is in `pooled`, or is not needed */
  float *pooled;              /* (vector_columns) or NULL; in this allocation */
  char *label;                /* the client's label, in this allocation */
  char *text;                 /* (text_bytes) or NULL; in this allocation */
  size_t text_bytes;
  uint64_t user[LLS_USER_WORDS];
  int64_t first_token_ns;
  struct lls_life life;
  uint32_t prefix_tokens;   /* prompt tokens found in the cache when it first ran */
  bool finds_prefixes;      /* the manager shares prefixes, and was asked for its own */
  struct lls_prefix prefix; /* that it took last, in the transaction */
  bool reports_progress;    /* as lls_submission has it */
  bool announced;           /* the scheduler knows it, and must get on_finish */
  bool drafter_knows;       /* the drafter does, likewise */
  uint32_t drafted_length;  /* length of the sequence when the drafter was last called */

  uint32_t placed;       /* enum lls_placed */
  uint32_t preempt_mode; /* enum lls_preempt_mode, for LLS_PLACED_PREEMPTED */
  /* LLS_PLACED_RESERVED: number of tokens that were cached before; to compute now;
   * reserved by the scheduler (more than run_tokens if a shared prefix has some of
   * them) */
  uint32_t context, run_tokens, asked_tokens;
  uint32_t run_drafts; /* likewise: guesses of the next tokens that have memory */
  uint64_t transfer;   /* LLS_MOVING: the cache manager's number of the transfer */
  bool was_decoding; /* the request was decoding before this step: only its length changes
                      */
  uint64_t named_in_step; /* 1 + the last step whose plan named it: finds duplicates */
  bool doomed;            /* can never be placed: ends after this step's commit */
  struct lls_move move;
  /* its session, or NULL: main's record of it, the parts of it on all instances (in a
   * process other than 0 the part here alone), and the part on the instance that has the
   * request (session.h) */
  struct lls_session_record *record;
  struct lls_live_session *sessions, *session;
};

static inline struct lls_live *lls_live_of(const struct lls_request *view)
{
  return (struct lls_live *)(uintptr_t)view;
}

/* Extends the keys, after tokens were appended. */
static inline void lls_live_name_blocks(struct lls_live *live)
{
  lls_keys_extend(&live->keys, live->tokens, lls_request_length(&live->view));
  live->view.n_keys = live->keys.n;
}

/* Returns how many keys name blocks that were computed whole. */
static inline uint32_t lls_live_cached_keys(const struct lls_live *live)
{
  uint32_t block_tokens = live->keys.block_tokens;
  uint32_t n = block_tokens > 0 ? live->view.cached_tokens / block_tokens : 0;
  return n < live->keys.n ? n : live->keys.n;
}

/* Returns how many prompt tokens are still to be scored. */
static inline uint32_t lls_live_unscored(const struct lls_live *live)
{
  return live->scores != NULL ? live->view.prompt_tokens - live->n_scored : 0;
}

/* Returns true for one of the request's stop tokens. */
static inline bool lls_live_stops_at(const struct lls_live *live, int32_t token)
{
  for (uint32_t i = 0; i < live->n_stop_tokens; i++)
    if (live->stop_tokens[i] == token)
      return true;
  return false;
}

/* Returns true if no prefix may be shared: a score needs the row before it to be
 * computed, a mean needs all rows. */
static inline bool lls_live_needs_every_row(const struct lls_live *live)
{
  return lls_live_unscored(live) > 0 ||
         (live->pooling == LLS_POOLING_MEAN && live->n_pooled < live->view.prompt_tokens);
}

/* Parameters shared by all requests of a loop. */
struct lls_live_context {
  const int32_t *eos_tokens; /* (n_eos_tokens) */
  uint32_t n_eos_tokens;
  uint32_t block_tokens;   /* tokens of a cache block; 0: requests cannot migrate */
  uint32_t n_groups;       /* of layers, with a list of blocks each; 0: one */
  uint32_t vector_columns; /* elements of a vector that the engine pools */
  uint32_t vocabulary;
  uint32_t max_drafts; /* guesses of a request; 0: none */
  uint32_t key_tokens; /* tokens of a block that a key names; 0: no keys */
  struct lls_key_secret secret;
};

/* [main] */
struct lls_live *lls_live_create(const struct lls_submission *,
                                 const struct lls_live_context *, uint64_t id,
                                 uint32_t slot, uint32_t max_new_tokens, int64_t now_ns);
void lls_live_free(struct lls_live *);

/* Free slots and the next id, shared by all instances [main]. */
struct lls_slots {
  uint32_t n;           /* power of two */
  uint32_t *free_slots; /* stack */
  uint32_t n_free;
  uint64_t sequence; /* counter in the next id */
};

int lls_slots_init(struct lls_slots *, uint32_t max_requests);
void lls_slots_free(struct lls_slots *);
/* Returns -ENOSPC if all slots are taken. */
int lls_slots_take(struct lls_slots *, uint32_t *slot, uint64_t *id);
void lls_slots_give_back(struct lls_slots *, uint32_t slot);

/* The requests that an instance has, by slot [step]. */
struct lls_request_table {
  uint32_t slots;
  struct lls_live **by_slot; /* (slots) NULL: the instance has no request in the slot */
};

int lls_request_table_init(struct lls_request_table *, const struct lls_slots *);
void lls_request_table_free(struct lls_request_table *);

/* Returns NULL if the request is not alive or another instance has it. */
static inline struct lls_live *lls_request_table_find(const struct lls_request_table *t,
                                                      uint64_t id)
{
  struct lls_live *live = t->by_slot[id & (t->slots - 1)];
  return live != NULL && live->view.id == id ? live : NULL;
}

#endif
