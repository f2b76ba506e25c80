/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bidirectional cache manager's state, shared by its files (BROS, section 5).
 *
 * A block is a pair of unit blocks, 2b for K and 2b + 1 for V, of S slots. Its two ends
 * are *parts*: part 2b begins at slot 0, part 2b + 1 at slot S - 1 and grows to the left.
 * A real-time sequence has left parts, a best-effort one right parts; where the two meet
 * the left one takes slots from the right one, whose tokens are copied to the host first.
 *
 * Only what is on the device has a place in a part. A sequence's parts are linked in
 * token order, and the gaps between them, and behind the last one, are its missing
 * tokens: all of them have a copy on the host. So a displaced token is always the last
 * one of its part, and a sequence that was swapped out as a whole has no part at all.
 *
 * Invariants, checked by audit:
 *   1. The parts of a block have at most S slots together.
 *   2. A part with an owner has a slot, and is on its owner's list once; one without has
 *      none.
 *   3. Each missing token has a copy on the host. The copy of token t lies in slot t mod
 * S of the sequence's host block number t / S, counted from the end that its parts are
 *      filled from, so that neighbours are copied together. It stays valid while the
 *      request lives, for K and V of a token never change.
 *   4. A sequence has more slots than cached tokens only between a reserve and computed;
 *      then it is in a step, and is not displaced. Nor is one that is being moved, which
 *      ends with the step in which it began.
 *   5. sets[end][n] has the blocks whose part at `end` has no owner and whose other part
 *      has n slots: the blocks a sequence may begin a part in, by how much is free.
 *   6. Every word that a transaction changes goes through set(), which writes down the
 * old value: rolling back is exact by construction.
 */
#ifndef BIDIRECTIONAL_H
#define BIDIRECTIONAL_H

#include <llmserve/cache.h>

#include <llmserve/policy/journal.h>

enum mode { BOTH_ENDS, LEFT_END };
enum moving { NOT_MOVING, TO_HOST, TO_DEVICE };

struct params {
  int64_t mode; /* enum mode */
  bool keep_host_copy;
  int64_t be_min_free_slots, ahead;
};

struct part {
  uint32_t owner;          /* slot of a sequence; LLS_POL_NIL */
  uint32_t first;          /* token in its first slot */
  uint32_t count;          /* slots it has, from its end of the block on */
  uint32_t previous, next; /* of its owner, in token order; LLS_POL_NIL */
};

struct sequence { /* of one slot */
  uint64_t request;
  uint8_t admitted; /* 0 or 1; no bool, for a state may say anything */
  uint32_t end;     /* enum lls_direction: the end of a block its parts begin at */
  uint32_t cached;  /* tokens computed, wherever they are */
  uint32_t slots;   /* of all its parts */
  uint32_t parts;
  uint32_t sharing;     /* parts whose block's other part has an owner too */
  uint32_t host_blocks; /* with copies of its tokens */
  uint32_t first, last; /* parts; LLS_POL_NIL */
  uint32_t row;         /* of its block table; LLS_POL_NIL */
  uint32_t moving;      /* enum moving */
  uint32_t listed; /* leading entries of the row that are as its parts are; not of the
                    * journal: that fewer are known to be is no mistake */
};

struct host_block {
  uint32_t owner;   /* slot of a sequence; LLS_POL_NIL = free */
  uint32_t group;   /* has tokens [group S, (group + 1) S) of it */
  uint32_t missing; /* of those, how many are not on the device */
  uint32_t next;    /* on the stack of free ones */
};

struct row {
  uint32_t owner; /* slot of a sequence; LLS_POL_NIL */
  uint32_t step;  /* whose tables it was last in */
};

/* Block numbers, the lowest of which is found at once: a bit for each, and a bit for each
 * word that is not zero. */
struct block_set {
  uint32_t n;
  uint32_t *words, *summary;
};

struct bidirectional {
  const struct lls_host *host;
  struct params params;
  uint32_t block_tokens, n_blocks, n_host_blocks, n_slots;
  uint32_t most_tokens; /* of a sequence */
  uint32_t groups;      /* that most_tokens make */
  uint32_t bit_words;   /* of a host block's bits */
  uint64_t unit_bytes;

  struct part *parts;             /* (2 n_blocks) */
  struct block_set *sets;         /* (2, block_tokens + 1) */
  uint32_t *set_words;            /* of all sets */
  struct sequence *sequences;     /* (n_slots) */
  struct host_block *host_blocks; /* (n_host_blocks) */
  uint32_t *host_bits;            /* (n_host_blocks, bit_words) tokens that have a copy */
  uint32_t *host_table;           /* (n_slots, groups) host block + 1; 0 = none */
  uint32_t *marks;                /* (2 n_blocks + n_host_blocks) for audit */
  struct lls_block_entry *entries; /* (n_rows, 2, row_entries) a row's K list, then V */
  struct row *rows;                /* (n_rows) */
  uint32_t n_rows, row_entries, row_hand;
  uint32_t step; /* counted by begin */

  uint32_t host_head, n_host_free;
  uint32_t n_host_idle; /* held, but all their tokens are on the device too, and stay */
  uint32_t host_hand;   /* where the search for an idle one goes on */
  uint32_t used[2];     /* slots, by end */

  struct lls_copy *copies; /* (max_copies) of this step */
  uint32_t n_copies, max_copies;
  uint32_t free_at_begin;
  uint32_t displaced, checkpointed, restored; /* tokens, in this transaction ... */
  uint32_t ahead;        /* ... and of those checkpointed, those beside the step */
  uint32_t kept_by_host; /* reservations that displaced nobody for want of host blocks */
  bool said_full;
  uint32_t *grown; /* (n_slots) real-time sequences that were reserved in it */
  uint32_t n_grown;
  struct lls_pol_journal journal; /* of the open transaction */
};

/* Every change of the state goes through here. */
static inline void set(struct bidirectional *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->journal, where, value);
}

static inline void add(struct bidirectional *m, uint32_t *where, uint32_t n)
{
  lls_pol_journal_set(&m->journal, where, *where + n);
}

/* Taking or giving up part of one block: changes of the journal, two lists of copies of
 * tokens in at most two host blocks. Asked for before each such change is begun. */
static inline bool has_room(const struct bidirectional *m)
{
  return lls_pol_journal_has_room(&m->journal, 128 + UINT64_C(8) * m->bit_words) &&
         m->n_copies + 8 <= m->max_copies;
}

static inline struct block_set *set_of(const struct bidirectional *m, uint32_t end,
                                       uint32_t used)
{
  return &m->sets[end * (m->block_tokens + 1) + used];
}

/* Blocks with no owner at either end. */
static inline uint32_t free_blocks(const struct bidirectional *m)
{
  return set_of(m, LLS_LEFT_TO_RIGHT, 0)->n;
}

static inline bool in_step(const struct sequence *s)
{
  return s->slots > s->cached;
}

/* No slot of it may be taken. */
static inline bool is_held(const struct sequence *s)
{
  return in_step(s) || s->moving != NOT_MOVING;
}

/* A host block with an owner, whose copies may make room for others. */
static inline bool is_idle(const struct bidirectional *m, const struct host_block *h)
{
  return h->missing == 0 && m->sequences[h->owner].moving != TO_HOST;
}

static inline uint32_t missing_of(const struct sequence *s)
{
  return s->cached > s->slots ? s->cached - s->slots : 0;
}

static inline uint32_t blocks_of(const struct bidirectional *m, uint64_t tokens)
{
  return (uint32_t)((tokens + m->block_tokens - 1) / m->block_tokens);
}

/* The token after a part's last; 0 without one. */
static inline uint32_t end_of(const struct bidirectional *m, uint32_t part)
{
  return part != LLS_POL_NIL ? m->parts[part].first + m->parts[part].count : 0;
}

/* Its entry in the K list; in the V list it is one unit further on. */
static inline struct lls_block_entry bidi_entry(const struct bidirectional *m,
                                                uint32_t part)
{
  return (struct lls_block_entry){.block = part / 2 * 2,
                                  .first_token = m->parts[part].first,
                                  .count = (uint16_t)m->parts[part].count,
                                  .direction = (uint8_t)(part % 2)};
}

static inline uint32_t *table_of(const struct bidirectional *m, const struct sequence *s)
{
  return m->host_table + (size_t)(s - m->sequences) * m->groups;
}

/* ---- blocks.c: ownership of the ends of blocks */
void bidi_empty_sets(struct bidirectional *);
/* All without an owner, after parts were filled in by hand. */
void bidi_fill_sets(struct bidirectional *);
bool bidi_set_has(const struct block_set *, uint32_t block);
/* The lowest block of a set from `from` on; LLS_POL_NIL. */
uint32_t bidi_set_next(const struct block_set *, uint32_t n_blocks, uint32_t from);
/* A part of `count` slots for token `first` on, after part `after` (LLS_POL_NIL: as the
 * first).
 */
uint32_t bidi_open(struct bidirectional *, struct sequence *, uint32_t block,
                   uint32_t after, uint32_t first, uint32_t count);
/* A part gets that many slots; 0: it has no owner any more. */
void bidi_resize(struct bidirectional *, uint32_t part, uint32_t count);

/* ---- host.c: copies of tokens on the host */
/* Tokens [from, until) of a part leave the device, and are copied if they have not been.
 * -ENOSPC if the host is full, with nothing changed that rollback would not put back. */
int bidi_checkpoint(struct bidirectional *, uint32_t part, uint32_t from, uint32_t until);
/* Tokens [from, until), which a part has slots for, come back. */
void bidi_copy_back(struct bidirectional *, uint32_t part, uint32_t from, uint32_t until);
/* Copies of a part's computed tokens, beside the step, as far as the host has free
 * blocks; how many were made. */
uint32_t bidi_copy_ahead(struct bidirectional *, uint32_t part);
/* All its computed tokens have one. */
bool bidi_has_copies(const struct bidirectional *, uint32_t part);
/* Its copies make no room for others any more, or do again. */
void bidi_hold_copies(struct bidirectional *, const struct sequence *, bool hold);
void bidi_free_host(struct bidirectional *, struct sequence *);

/* ---- sequence.c: what is done to one sequence */
int bidi_reserve(struct bidirectional *, struct sequence *, uint32_t tokens,
                 bool displace);
/* Its missing tokens come back into free slots: all, or -ENOSPC. */
int bidi_bring_back(struct bidirectional *, struct sequence *);
int bidi_swap_out(struct bidirectional *, struct sequence *);
void bidi_drop(struct bidirectional *, struct sequence *);
void bidi_computed(struct bidirectional *, struct sequence *, uint32_t cached);
/* Slots that its last part can take without taking any from another sequence. */
uint32_t bidi_tail(const struct bidirectional *, const struct sequence *);
/* Units that bringing back its missing tokens takes: an estimate. */
uint32_t bidi_restore_units(const struct bidirectional *, const struct sequence *);

/* ---- transfer.c: copies beside the step */
/* At the end of a transaction. */
void bidi_checkpoint_ahead(struct bidirectional *);
int bidi_start_moving(struct bidirectional *, struct sequence *, enum moving);
void bidi_stop_moving(struct bidirectional *, struct sequence *);
void bidi_moved(struct bidirectional *, struct sequence *);

/* ---- tables.c: lists for the engine */
void bidi_empty_rows(struct bidirectional *);
/* -ENOBUFS if the step has more sequences than the engine takes. */
int bidi_table(struct bidirectional *, struct sequence *, struct lls_block_table *);
void bidi_free_row(struct bidirectional *, struct sequence *);

/* ---- state.c: handed over to another generation */
int bidi_export(struct bidirectional *, struct lls_blob *);
/* Leaves the manager in disorder when it fails: make it empty again. */
int bidi_import(struct bidirectional *, const struct lls_blob *);

/* ---- audit.c */
int bidi_audit(struct bidirectional *, const struct lls_sink *);

#endif
