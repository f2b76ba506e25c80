/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block lists of sequences: for each group of layers, a list of entries as tables
 * show them, of which the sequence holds blocks [gone, past).
 *
 * A sequence that holds a block has a *row*, with room in each group for a full context,
 * so that a list lies in one piece and never moves. Rows are reused last in, first out;
 * untouched room costs address space only. An entry is at the index of its block, so a
 * transaction changes no more of it than its unit and its form.
 *
 * The list of a group of kind STATE has up to LLS_POL_MAX_STATES entries: the state that
 * is read, then, while a step is reserved, those that it writes. Each says how many
 * tokens it has seen.
 *
 * All functions run on the [step] thread, init and destroy on [main]. Units are those of
 * the tier that the sequence is in.
 */
#ifndef LLS_POL_ROWS_H
#define LLS_POL_ROWS_H

#include <llmserve/policy/journal.h>
#include <llmserve/policy/report.h>
#include <llmserve/policy/state.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_MAX_STATES 4

/* The place of a sequence: of all of its blocks. */
enum lls_pol_where { LLS_POL_NOWHERE, LLS_POL_ON_DEVICE, LLS_POL_ON_HOST };

struct lls_pol_sequence { /* one for each slot */
  uint64_t request;
  uint32_t admitted; /* 0 or 1 */
  uint32_t where;    /* enum lls_pol_where */
  uint32_t row;      /* LLS_POL_NIL while it holds no block */
  uint32_t cached;   /* tokens computed */
  uint32_t partial;  /* 0 or 1: lists may be shorter than its tokens, since its blocks go
                      * elsewhere one by one, or it has another list instead */
  uint32_t branch;   /* tokens of its prompt that others had in groups that read all, when
                      * it began; 0 if none, or if it took all of them */
};

struct lls_pol_list { /* a sequence's blocks of one group */
  uint32_t gone;      /* leading blocks that were given back */
  uint32_t past;      /* end of the list */
  uint32_t known;     /* leading blocks that were put into the tree */
  uint32_t small; /* blocks in the form that full blocks have, if they have their own */
  /* while the sequence comes back from the host: blocks before this one are on the
   * device already; else 0 */
  uint32_t back;
};

struct lls_pol_rows {
  struct lls_pol_journal *journal;
  uint32_t block_tokens, n_groups, n_slots;
  uint32_t n_rows, row_blocks;
  uint32_t states; /* 1u << group: its lists are of states (lls_block_table) */
  struct lls_pol_sequence *sequences; /* (n_slots) */
  struct lls_pol_list *lists;         /* (n_slots, n_groups) */
  struct lls_block_entry *entries;    /* (n_rows, n_groups, row_blocks) */
  struct lls_group_list *tables;      /* (n_slots, n_groups) as table shows them */
  uint32_t *row_next;                 /* (n_rows) stack of free rows */
  uint32_t *marks;                    /* (n_rows) for audits */
  uint32_t first_free, n_free;
};

/* Rows that fit into 1 GiB of address space, but never fewer than `least`, and never
 * more than `most`; `row_blocks` and the members before it are set. */
uint32_t lls_pol_rows_affordable(const struct lls_pol_rows *, uint32_t least,
                                 uint32_t most);
/* The members up to row_blocks are set before; -ENOMEM. Then make_empty. */
int lls_pol_rows_init(struct lls_pol_rows *);
void lls_pol_rows_destroy(struct lls_pol_rows *);
void lls_pol_rows_make_empty(struct lls_pol_rows *);

/* The sequence of an admitted request, or NULL. */
struct lls_pol_sequence *lls_pol_rows_find(const struct lls_pol_rows *,
                                           const struct lls_request *);
/* -EINVAL: its slot is taken, or there is no such slot. */
int lls_pol_rows_admit(struct lls_pol_rows *, const struct lls_request *);

/* Gives the sequence an empty row, on the device; one must be free. */
void lls_pol_rows_begin(struct lls_pol_rows *, struct lls_pol_sequence *);
/* The sequence holds nothing any more: its row is free, and its lists are empty. */
void lls_pol_rows_end(struct lls_pol_rows *, struct lls_pol_sequence *);

static inline struct lls_pol_list *lls_pol_rows_list(const struct lls_pol_rows *r,
                                                     const struct lls_pol_sequence *s,
                                                     uint32_t group)
{
  return &r->lists[(size_t)(s - r->sequences) * r->n_groups + group];
}

static inline struct lls_block_entry *
lls_pol_rows_entries(const struct lls_pol_rows *r, const struct lls_pol_sequence *s,
                     uint32_t group)
{
  return r->entries + ((size_t)s->row * r->n_groups + group) * r->row_blocks;
}

static inline uint32_t lls_pol_rows_held(const struct lls_pol_rows *r,
                                         const struct lls_pol_sequence *s, uint32_t group)
{
  const struct lls_pol_list *list = lls_pol_rows_list(r, s, group);
  return list->past - list->gone;
}

static inline bool lls_pol_rows_is_state(const struct lls_pol_rows *r, uint32_t group)
{
  return (r->states >> group & 1) != 0;
}

/* Makes the i-th block of the group's list the one that begins at `unit`, in that form
 * (LLS_FORM_NONE: the group's first). */
void lls_pol_rows_put(struct lls_pol_rows *, const struct lls_pol_sequence *,
                      uint32_t group, uint32_t i, uint32_t unit, uint32_t form);
/* The same in a group of states: the i-th has seen that many tokens. */
void lls_pol_rows_put_state(struct lls_pol_rows *, const struct lls_pol_sequence *,
                            uint32_t group, uint32_t i, uint32_t unit, uint32_t tokens);
/* The first of the blocks that begin block_units units apart from unit `first` on is now
 * at to[0], and so on (slabs.h), all on the device. */
void lls_pol_rows_moved(struct lls_pol_rows *, uint32_t first, uint32_t block_units,
                        const uint32_t *to, uint32_t n);
/* The table of a sequence on the device, valid until the lists change. */
void lls_pol_rows_table(struct lls_pol_rows *, const struct lls_pol_sequence *,
                        struct lls_block_table *out);

/* -EINVAL where a list in the blob leads outside. */
int lls_pol_rows_pass(struct lls_pol_rows *, struct lls_pol_state_walk *);
/* False, and no list may be read, where numbers lead elsewhere. */
bool lls_pol_rows_audit(struct lls_pol_rows *, struct lls_pol_report *);

#ifdef __cplusplus
}
#endif

#endif
