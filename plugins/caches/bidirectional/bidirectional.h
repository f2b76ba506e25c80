/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bidirectional cache manager's state, shared by its files (BROS, section 5).
 *
 * It is that of the usual policy (policy/side.h), which keeps the blocks of all groups of
 * layers but the first, whose blocks are shared by two sequences. A block has S slots and
 * a number in the side's slabs, and a holder there for each of its owners. Its two ends
 * are *parts*: part 2b of block b begins at slot 0, part 2b + 1 at slot S - 1 and grows
 * to the left. A real-time sequence has left parts, a best-effort one right parts; where
 * the two meet the left one takes slots from the right one, whose tokens are copied to
 * the host first.
 *
 * Only tokens on the device are in a part. A sequence's parts are linked in token order;
 * the gaps between them and after the last one are its *missing* tokens, each of which
 * has a copy on the host. A part loses its last tokens first (they are *displaced*), and
 * a sequence that was swapped out as a whole has no part.
 *
 * Invariants, checked by audit:
 *   1. The parts of a block have at most S slots together.
 *   2. A part with an owner has at least one slot and is on its owner's list once; a part
 *      without an owner has no slot.
 *   3. Each missing token has a copy on the host. The copy of token t lies in slot t mod
 * S of the sequence's host block number t / S, counted from the end that its parts are
 *      filled from, so that neighbours are copied together. It stays valid while the
 *      request lives, for K and V of a token never change.
 *   4. A sequence has more slots than cached tokens only between a reserve and computed;
 *      then it is in a step, and its tokens are not displaced. Nor are those of a
 * sequence being moved, which takes no longer than the step in which it began.
 *   5. sets[end][n] has the blocks whose part at `end` has no owner and whose other part
 *      has n slots: a sequence may begin a part there, with S - n free slots. The
 *      slabs know which blocks with n = 0 have another group's contents.
 *   6. Every word that a transaction changes goes through set(), which writes down the
 * old value: rolling back is exact by construction.
 */
#ifndef BIDIRECTIONAL_H
#define BIDIRECTIONAL_H

#include <llmserve/policy/face.h>

enum mode { BOTH_ENDS, LEFT_END };
enum moving { NOT_MOVING, TO_HOST, TO_DEVICE };

/* Tokens of each; AHEAD: of those CHECKPOINTED, copied during the step; KEPT:
 * reservations that displaced none, since no host block was free. */
enum count { DISPLACED, CHECKPOINTED, AHEAD, RESTORED, KEPT, N_COUNTS };

struct params {
  int64_t mode; /* enum mode */
  bool keep_host_copy;
  int64_t be_min_free_slots, ahead;
};

struct part {
  uint32_t owner;          /* slot of a sequence, or LLS_POL_NIL */
  uint32_t first;          /* token in its first slot */
  uint32_t count;          /* slots of the part, counted from its end of the block */
  uint32_t previous, next; /* parts of its owner in token order, or LLS_POL_NIL */
};

struct sequence { /* one for each slot; its request is that of the side's sequence */
  uint32_t end;   /* enum lls_direction: the end of a block its parts begin at */

  uint32_t gone;  /* leading tokens that no step reads any more: they have no slot */
  uint32_t slots; /* sum over its parts */
  uint32_t parts;
  uint32_t sharing;     /* parts whose block's other part has an owner too */
  uint32_t host_blocks; /* host blocks with copies of the sequence's tokens */
  uint32_t first, last; /* parts; LLS_POL_NIL */
  uint32_t moving;      /* enum moving */
  uint32_t listed;      /* leading entries of its row known to match its parts; not in the
                         * journal, since a number too low does no harm */
};

struct host_block {
  uint32_t owner;   /* slot of a sequence; LLS_POL_NIL = free */
  uint32_t group;   /* has the owner's tokens [group S, (group + 1) S) */
  uint32_t missing; /* how many of these tokens are not on the device */
};

/* A set of block numbers whose lowest member is found in two look-ups: a bit for each
 * block, and in `summary` a bit for each word that is not zero. */
struct block_set {
  uint32_t *words, *summary;
};

struct bidirectional {
  struct lls_pol_side side; /* first: the functions of policy/face.h look for it there */
  struct params params;
  uint32_t units; /* of a block of group 0, with its part of a slab's end */
  uint32_t n_blocks, n_host_blocks, n_slots;
  uint32_t most_tokens; /* longest sequence */
  bool has_window;      /* group 0 forgets tokens */
  uint32_t groups;      /* most_tokens / S, rounded up */
  uint32_t bit_words;   /* words of a host block's bits */

  struct part *parts;             /* (2 n_blocks) */
  uint32_t *set_words;            /* (2, block_tokens + 1, words of a set) sets */
  struct sequence *sequences;     /* (n_slots) */
  struct host_block *host_blocks; /* (n_host_blocks) */
  uint32_t *host_bits;            /* (n_host_blocks, bit_words) tokens that have a copy */
  uint32_t *host_table;           /* (n_slots, groups) host block + 1; 0 = none */
  uint32_t host_hand;             /* where the search for an idle host block continues */
  uint32_t used[2];               /* slots, by end */

  uint32_t counts[N_COUNTS]; /* of this transaction */
  bool said_full;
  uint32_t *grown; /* (n_slots) real-time sequences that were reserved in it */
  uint32_t n_grown;
};

/* Every change of the state goes through here. */
static inline void set(struct bidirectional *m, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(&m->side.journal, where, value);
}

static inline void add(struct bidirectional *m, uint32_t *where, uint32_t n)
{
  lls_pol_journal_set(&m->side.journal, where, *where + n);
}

/* True if the journal and the list of copies have room for one more change of a part,
 * which copies tokens in at most two host blocks. Checked before each such change. */
static inline bool has_room(const struct bidirectional *m)
{
  return lls_pol_journal_has_room(&m->side.journal, 256 + UINT64_C(8) * m->bit_words) &&
         lls_pol_side_can_copy(&m->side, 4);
}

static inline uint32_t words_of(uint32_t bits)
{
  return (bits + 31) / 32;
}

static inline struct block_set set_of(const struct bidirectional *m, uint32_t end,
                                      uint32_t used)
{
  uint32_t n = words_of(m->n_blocks);
  uint32_t *words = m->set_words +
                    (size_t)(end * (m->side.block_tokens + 1) + used) * (n + words_of(n));
  return (struct block_set){words, words + n};
}

static inline size_t bidi_set_bytes(const struct bidirectional *m)
{
  uint32_t n = words_of(m->n_blocks);
  return (size_t)2 * (m->side.block_tokens + 1) * (n + words_of(n)) * sizeof(uint32_t);
}

/* The side's sequence of the same slot: its request, cached tokens (on the device or
 * missing), and blocks of groups but the first. */
static inline struct lls_pol_sequence *side_of(const struct bidirectional *m,
                                               const struct sequence *s)
{
  return &m->side.rows.sequences[s - m->sequences];
}

static inline uint32_t cached_of(const struct bidirectional *m, const struct sequence *s)
{
  return side_of(m, s)->cached;
}

/* The sequence's length if no token is missing. */
static inline uint32_t room_of(const struct sequence *s)
{
  return s->gone + s->slots;
}

/* Slots behind the cached tokens. */
static inline uint32_t spare_of(const struct bidirectional *m, const struct sequence *s)
{
  uint32_t cached = cached_of(m, s);
  return room_of(s) > cached ? room_of(s) - cached : 0;
}

static inline bool in_step(const struct bidirectional *m, const struct sequence *s)
{
  return spare_of(m, s) > 0;
}

/* True if no slot may be taken from the sequence. */
static inline bool is_held(const struct bidirectional *m, const struct sequence *s)
{
  return in_step(m, s) || s->moving != NOT_MOVING;
}

/* True if a host block with an owner may be given to another sequence. Copies beside the
 * step read or write those of a sequence that moves. */
static inline bool is_idle(const struct bidirectional *m, const struct host_block *h)
{
  return h->missing == 0 && m->sequences[h->owner].moving == NOT_MOVING;
}

static inline uint32_t missing_of(const struct bidirectional *m, const struct sequence *s)
{
  uint32_t cached = cached_of(m, s);
  return cached > room_of(s) ? cached - room_of(s) : 0;
}

/* True if the sequence has nothing on the device. One that has lost all slots keeps its
 * blocks of other groups, one whose tokens are all gone its place. */
static inline bool is_off(const struct bidirectional *m, const struct sequence *s)
{
  return s->slots == 0 && (side_of(m, s)->where != LLS_POL_ON_DEVICE ||
                           (m->side.n_groups == 1 && missing_of(m, s) > 0));
}

/* The first unit of a block of group 0 in a tier, by its number there. */
static inline uint32_t unit_of(const struct bidirectional *m, uint32_t tier,
                               uint32_t block)
{
  const struct lls_pol_slabs *slabs = &m->side.slabs[tier];
  uint32_t kind = m->side.kinds[tier][0];
  return block / slabs->blocks_per_slab * slabs->slab_units +
         block % slabs->blocks_per_slab * slabs->classes[kind].block_units;
}

static inline uint32_t unit_of_part(const struct bidirectional *m, uint32_t part)
{
  return unit_of(m, LLS_TIER_DEVICE, part / 2);
}

/* Returns the token after a part's last one. */
static inline uint32_t end_of(const struct bidirectional *m, uint32_t part)
{
  return m->parts[part].first + m->parts[part].count;
}

/* The same; for LLS_POL_NIL the sequence's first token that is not gone. */
static inline uint32_t next_token(const struct bidirectional *m, const struct sequence *s,
                                  uint32_t part)
{
  return part != LLS_POL_NIL ? end_of(m, part) : s->gone;
}

/* A part's entry in its owner's list. */
static inline struct lls_block_entry bidi_entry(const struct bidirectional *m,
                                                uint32_t part)
{
  return (struct lls_block_entry){.block = unit_of_part(m, part),
                                  .first_token = m->parts[part].first,
                                  .count = (uint16_t)m->parts[part].count,
                                  .direction = (uint8_t)(part % 2),
                                  .form = LLS_FORM_KV};
}

static inline uint32_t *table_of(const struct bidirectional *m, const struct sequence *s)
{
  return m->host_table + (size_t)(s - m->sequences) * m->groups;
}

/* ---- blocks.c: ownership of the ends of blocks */
/* Makes the sets, after `parts` was written directly. */
void bidi_make_sets(struct bidirectional *);
bool bidi_set_has(struct block_set, uint32_t block);
/* Returns the lowest block of a set that is not below `from`; LLS_POL_NIL if there is
 * none. */
uint32_t bidi_set_next(const struct bidirectional *, struct block_set, uint32_t from);
/* As the side's `moved`. */
bool bidi_blocks_moved(void *, uint32_t first, uint32_t block_units, const uint32_t *to,
                       uint32_t n);
/* Gives the sequence a part of `count` slots in a block that was taken or held for it,
 * for the tokens from `first` on, after its part `after` (LLS_POL_NIL: as its first
 * part). Returns the part.
 */
uint32_t bidi_open(struct bidirectional *, struct sequence *, uint32_t block,
                   uint32_t after, uint32_t first, uint32_t count);
/* Sets the slots of a part; with 0 it loses its owner. */
void bidi_resize(struct bidirectional *, uint32_t part, uint32_t count);
/* Writes the parts into the sequence's row, as entries. The core keeps lists too, by
 * where they lie, and compares: only what has changed is written, a decode's last entry.
 */
void bidi_list(const struct bidirectional *, struct sequence *);

/* ---- host.c: copies of tokens on the host */
/* Removes tokens [from, until) of a part from the device; copies those that have no copy
 * on the host. -ENOSPC if the host is full: rollback then undoes all changes. */
int bidi_checkpoint(struct bidirectional *, uint32_t part, uint32_t from, uint32_t until);
/* Copies tokens [from, until), for which a part has slots, back to the device. */
void bidi_copy_back(struct bidirectional *, uint32_t part, uint32_t from, uint32_t until);
/* Copies a part's computed tokens to the host during the step. Returns false if some have
 * no copy, since the host has no free block for them. */
bool bidi_copy_ahead(struct bidirectional *, uint32_t part);
/* Forbids (hold) or allows again that the sequence's copies are given up for others. */
void bidi_hold_copies(struct bidirectional *, const struct sequence *, bool hold);
/* Gives up the copies of tokens [0, groups S). */
void bidi_free_host(struct bidirectional *, struct sequence *, uint32_t groups);
/* How the host's slabs give up an idle block when another one is wanted. */
struct lls_pol_slabs_owner bidi_host_owner(struct bidirectional *);

/* ---- sequence.c: operations on one sequence */
int bidi_reserve(struct bidirectional *, struct sequence *, const struct lls_request *,
                 uint32_t tokens, bool displace);
int bidi_swap_out(struct bidirectional *, struct sequence *);
/* -ENOBUFS: the journal is full. */
int bidi_drop(struct bidirectional *, struct sequence *);
void bidi_computed(struct bidirectional *, struct sequence *, const struct lls_request *,
                   uint32_t cached);
/* Slots by which the last part can grow without taking any from another sequence. */
uint32_t bidi_tail(const struct bidirectional *, const struct sequence *);
/* Returns an estimate of the units needed to bring all missing tokens back. */
uint32_t bidi_restore_units(const struct bidirectional *, const struct sequence *);

/* ---- transfer.c: copies made during the step */
/* Called at the end of a transaction: plans the copies of best-effort tokens to the
 * host. */
void bidi_checkpoint_ahead(struct bidirectional *);
int bidi_start_moving(struct bidirectional *, struct sequence *,
                      const struct lls_request *, enum moving);
void bidi_stop_moving(struct bidirectional *, struct sequence *);
void bidi_moved(struct bidirectional *, struct sequence *);

/* ---- state.c: handing the state over to another generation */
/* The manager's own part of the side's state. */
int bidi_pass(void *, struct lls_pol_state_walk *);
void bidi_make_empty(void *); /* as the side's */
int bidi_export(void *, struct lls_blob *);
/* Replaces the state by an exported one. If that can't be taken over, or contradicts
 * itself, the manager is empty afterwards. */
int bidi_import(void *, const struct lls_blob *);

/* ---- audit.c */
/* Adds the holders of blocks, for the side's audit. */
void bidi_mark(void *, uint32_t tier, uint32_t *marks);
/* As the side's `audit`. */
void bidi_audit(void *, struct lls_pol_report *);

#endif
