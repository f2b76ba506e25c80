/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step as rank 0 sends it to the other ranks: the batch of lls_engine_submit without
 * the parts that only rank 0 needs (how to draw tokens). The message consists of 32-bit
 * words in this machine's byte order, since all ranks run the same build:
 *
 *   header, copies, then of each sequence: its numbers, its tokens, its lists of blocks
 *
 * A list nearly always has whole blocks in order and of one form. Its first token, this
 * form and the blocks' indices then suffice: 4 bytes for each block instead of 16. A step
 * of 512 sequences of 800 tokens is 100 KiB, against 20 ms and more that it takes.
 *
 * Buffers are first sized for lists that name every block of the pool once. A step
 * needs more only if sequences share blocks; then the buffers grow.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/engine_internal.h"

enum { GO_HOME, STEP, NOTE, ADAPTER, ACCEPTED };

struct header {
  uint32_t n_sequences, n_copies, n_entries, reserved;
};

enum { DRAWS = 1, ALL_LOGITS = 2 }; /* flags of a sequence */

struct numbers {
  uint32_t n_tokens, n_sent, context, flags, drafts, first_score, n_scores;
  uint32_t first_pooled, n_pooled, second_text;
  uint32_t n_entries[LLS_MAX_GROUPS], n_restored; /* restored: of group 0 */
  /* the adapter's address if all ranks are threads of one process; else its slot */
  uint32_t adapter[2];
  float adapter_scale;
};

#define WORDS(type) (sizeof(type) / sizeof(uint32_t))

_Static_assert(sizeof(void *) <= 2 * sizeof(uint32_t), "an address is two words");
_Static_assert(sizeof(struct lls_copy) % sizeof(uint32_t) == 0, "copies are words");
_Static_assert(sizeof(struct header) % _Alignof(struct lls_copy) == 0, "and aligned");
_Static_assert(sizeof(struct lls_block_entry) == 4 * sizeof(uint32_t), "entries too");

/* ---- buffers ---------------------------------------------------------------------- */

static int grow(void **array, size_t *room, size_t n, size_t size)
{
  if (n <= *room)
    return 0;
  size_t more = n > 2 * *room ? n : 2 * *room;
  void *grown = realloc(*array, more * size);
  if (grown == NULL)
    return -ENOMEM;
  *array = grown;
  *room = more;
  return 0;
}

int lls_engine_message_init(struct lls_engine *e)
{
  struct lls_engine_message *m = &e->message;
  size_t n = e->options.max_sequences;
  m->sequences = calloc(n, sizeof *m->sequences);
  m->tables = calloc(n, sizeof *m->tables);
  m->lists = calloc(n * LLS_MAX_GROUPS, sizeof *m->lists);
  return m->sequences != NULL && m->tables != NULL && m->lists != NULL ? 0 : -ENOMEM;
}

void lls_engine_message_free(struct lls_engine_message *m)
{
  free(m->words);
  free(m->entries);
  free(m->sequences);
  free(m->tables);
  free(m->lists);
}

/* ---- sending ----------------------------------------------------------------------- */

/* Makes the buffers large enough for the longest message that the batch can take. */
static int make_room(struct lls_engine *e, const struct lls_engine_batch *batch,
                     size_t *n_entries)
{
  struct lls_engine_message *m = &e->message;
  size_t words = WORDS(struct header) + batch->n_copies * WORDS(struct lls_copy);
  *n_entries = 0;
  for (uint32_t i = 0; i < batch->n_sequences; i++) {
    const struct lls_engine_sequence *s = &batch->sequences[i];
    for (uint32_t group = 0; group < e->caps.n_groups; group++) {
      const struct lls_group_list *l = lls_engine_list(e, s, group);
      *n_entries += (size_t)l->n_entries + l->n_restored;
    }
    words += WORDS(struct numbers) + s->n_tokens + 1 + 3 * (1 + LLS_MAX_GROUPS);
  }
  words += *n_entries * WORDS(struct lls_block_entry);
  m->n = 0;
  return grow((void **)&m->words, &m->room, words, sizeof *m->words);
}

static void put(struct lls_engine_message *m, const void *data, size_t words)
{
  LLS_CHECK(m->n + words <= m->room);
  if (words > 0)
    memcpy(m->words + m->n, data, words * sizeof *m->words);
  m->n += words;
}

static bool is_whole(const struct lls_block_entry *list, uint32_t n, uint32_t room)
{
  uint32_t bad = 0, first_token = lls_list_begin(list, n);
  uint32_t form = n > 0 ? list[0].form : 0;
  for (uint32_t i = 0; i < n; i++, first_token += room)
    bad |= (list[i].first_token ^ first_token) | (list[i].count ^ room) |
           list[i].direction | (list[i].form ^ form) | list[i].reserved;
  return bad == 0;
}

static void put_list(struct lls_engine_message *m, const struct lls_block_entry *list,
                     uint32_t n, uint32_t room)
{
  const uint32_t head[] = {is_whole(list, n, room), lls_list_begin(list, n),
                           n > 0 ? list[0].form : 0};
  bool whole = head[0];
  put(m, head, 3);
  LLS_CHECK(!whole || m->n + n <= m->room);
  for (uint32_t i = 0; whole && i < n; i++)
    m->words[m->n++] = list[i].block;
  if (!whole)
    put(m, list, n * WORDS(struct lls_block_entry));
}

static void put_sequence(struct lls_engine *e, const struct lls_engine_sequence *s)
{
  struct lls_engine_message *m = &e->message;
  uint32_t room = e->pool_shape.block_tokens;
  const struct lls_group_list *l = lls_engine_list(e, s, 0);
  struct numbers numbers = {
      .n_tokens = s->n_tokens,
      .n_sent = s->n_tokens,
      .context = s->context,
      .flags = (s->sampling != NULL ? DRAWS : 0) | (s->all_logits ? ALL_LOGITS : 0),
      .drafts = s->drafts,
      .first_score = s->first_score,
      .n_scores = s->n_scores,
      .first_pooled = s->first_pooled,
      .n_pooled = s->n_pooled,
      .second_text = s->second_text,
      .n_restored = l->n_restored,
      .adapter_scale = s->adapter_scale,
  };
  if (e->rank_adapters.n > 0)
    numbers.adapter[0] = lls_rank_adapters_find(&e->rank_adapters, s->adapter);
  else
    memcpy(numbers.adapter, &s->adapter, sizeof s->adapter);
  for (uint32_t i = 0; i < e->caps.n_groups; i++)
    numbers.n_entries[i] = lls_engine_list(e, s, i)->n_entries;
  if (s->n_scores > 0 && s->first_score + s->n_scores == s->n_tokens)
    numbers.n_sent++; /* the last score is of tokens[n_tokens] */
  put(m, &numbers, WORDS(struct numbers));
  put(m, s->tokens, numbers.n_sent);
  put_list(m, l->restored, l->n_restored, room);
  for (uint32_t i = 0; i < e->caps.n_groups; i++) {
    l = lls_engine_list(e, s, i);
    put_list(m, l->entries, l->n_entries, room);
  }
}

int lls_engine_send(struct lls_engine *e, const struct lls_engine_batch *batch,
                    struct lls_error *err)
{
  struct lls_engine_message *m = &e->message;
  struct lls_ranks *ranks = e->options.ranks;
  size_t n_entries = 0;
  int rc = lls_rank_adapters_send(e, batch, ADAPTER);
  if (rc == -ENOMEM || (rc == 0 && make_room(e, batch, &n_entries) < 0))
    return lls_fail(err, -ENOMEM, "no memory to send a step to the other ranks");
  if (rc < 0)
    return lls_ranks_failed(ranks, err);
  const struct header header = {.n_sequences = batch->n_sequences,
                                .n_copies = batch->n_copies,
                                .n_entries = (uint32_t)n_entries};
  put(m, &header, WORDS(struct header));
  put(m, batch->copies, batch->n_copies * WORDS(struct lls_copy));
  for (uint32_t i = 0; i < batch->n_sequences; i++)
    put_sequence(e, &batch->sequences[i]);
  LLS_CHECK(e->shard.rank == 0 && m->n <= m->room);
  struct lls_engine_announcement a = {.kind = STEP, .bytes = m->n * sizeof *m->words};
  rc = ranks->ops->broadcast(ranks, &a, sizeof a);
  if (rc == 0)
    rc = ranks->ops->broadcast(ranks, m->words, a.bytes);
  return rc < 0 ? lls_ranks_failed(ranks, err) : 0;
}

int lls_engine_send_accepted(struct lls_engine *e, struct lls_error *err)
{
  struct lls_engine_message *m = &e->message;
  struct lls_ranks *ranks = e->options.ranks;
  const struct lls_engine_tails *t = &e->tails;
  LLS_CHECK(e->shard.rank == 0);
  if (grow((void **)&m->words, &m->room, t->n_folds, sizeof *m->words) < 0)
    return lls_fail(err, -ENOMEM, "no memory to send accepted guesses to other ranks");
  for (uint32_t i = 0; i < t->n_folds; i++)
    m->words[i] = t->folds[i].accepted;
  struct lls_engine_announcement a = {.kind = ACCEPTED,
                                      .bytes = t->n_folds * sizeof *m->words};
  int rc = ranks->ops->broadcast(ranks, &a, sizeof a);
  if (rc == 0)
    rc = ranks->ops->broadcast(ranks, m->words, a.bytes);
  return rc < 0 ? lls_ranks_failed(ranks, err) : 0;
}

int lls_engine_tell(struct lls_engine *e, const void *note, size_t bytes)
{
  struct lls_ranks *ranks = e->options.ranks;
  struct lls_engine_announcement a = {.kind = NOTE, .bytes = bytes};
  LLS_CHECK(e->shard.rank == 0 && lls_engine_is_shared(e));
  int rc = ranks->ops->broadcast(ranks, &a, sizeof a);
  return rc < 0 ? rc : ranks->ops->broadcast(ranks, (void *)(uintptr_t)note, bytes);
}

void lls_engine_dismiss(struct lls_engine *e)
{
  struct lls_engine_announcement a = {.kind = GO_HOME};
  if (e != NULL && lls_engine_is_shared(e))
    e->options.ranks->ops->broadcast(e->options.ranks, &a, sizeof a);
}

/* ---- receiving --------------------------------------------------------------------- */

struct reader {
  const uint32_t *at;
  struct lls_block_entry *entries; /* the next free entry */
  struct lls_sampled *scores;      /* a placeholder that no rank but 0 fills */
  uint32_t room, n_groups;         /* tokens of a block */
  const struct lls_rank_adapters *adapters;
};

static const void *take(struct reader *r, size_t words)
{
  const uint32_t *taken = r->at;
  r->at += words;
  return taken;
}

static const struct lls_block_entry *take_list(struct reader *r, uint32_t n)
{
  struct lls_block_entry *list = r->entries;
  bool whole = *r->at++;
  uint32_t first_token = *r->at++, form = *r->at++;
  r->entries += n;
  if (!whole)
    memcpy(list, take(r, n * WORDS(*list)), n * sizeof *list);
  for (uint32_t i = 0; whole && i < n; i++)
    list[i] = (struct lls_block_entry){
        .block = *r->at++,
        .first_token = first_token + i * r->room,
        .count = (uint16_t)r->room,
        .form = (uint8_t)form,
    };
  return list;
}

static void take_sequence(struct reader *r, struct lls_engine_sequence *s,
                          struct lls_block_table *t, struct lls_group_list *l)
{
  static const struct lls_sampling draws = {.top_p = 1, .repetition_penalty = 1};
  const struct numbers *n = take(r, WORDS(*n));
  *s = (struct lls_engine_sequence){
      .tokens = take(r, n->n_sent),
      .n_tokens = n->n_tokens,
      .context = n->context,
      .table = t,
      .sampling = n->flags & DRAWS ? &draws : NULL,
      .drafts = n->drafts,
      .all_logits = (n->flags & ALL_LOGITS) != 0,
      .first_score = n->first_score,
      .n_scores = n->n_scores,
      .scores = r->scores,
      .first_pooled = n->first_pooled,
      .n_pooled = n->n_pooled,
      .second_text = n->second_text,
      .adapter_scale = n->adapter_scale,
  };
  if (r->adapters->n > 0)
    s->adapter = lls_rank_adapters_at(r->adapters, n->adapter[0]);
  else
    memcpy(&s->adapter, n->adapter, sizeof s->adapter);
  r->scores += n->n_scores;
  *t = (struct lls_block_table){.n_groups = r->n_groups, .lists = l};
  *l = (struct lls_group_list){.n_restored = n->n_restored};
  l->restored = take_list(r, n->n_restored);
  for (uint32_t i = 0; i < r->n_groups; i++) {
    l[i].n_entries = n->n_entries[i];
    l[i].entries = take_list(r, n->n_entries[i]);
  }
}

static int read_batch(struct lls_engine *e, struct lls_engine_batch *batch)
{
  struct lls_engine_message *m = &e->message;
  struct reader r = {.at = m->words,
                     .scores = e->scores,
                     .room = e->pool_shape.block_tokens,
                     .n_groups = e->caps.n_groups,
                     .adapters = &e->rank_adapters};
  const struct header *header = take(&r, WORDS(*header));
  if (grow((void **)&m->entries, &m->entries_room, header->n_entries + (size_t)1,
           sizeof *m->entries) < 0)
    return -ENOMEM;
  /* rank 0 has checked this limit */
  LLS_CHECK(header->n_sequences <= e->options.max_sequences);
  r.entries = m->entries;
  *batch = (struct lls_engine_batch){
      .n_sequences = header->n_sequences,
      .sequences = m->sequences,
      .n_copies = header->n_copies,
      .copies = take(&r, header->n_copies * WORDS(struct lls_copy)),
  };
  for (uint32_t i = 0; i < batch->n_sequences; i++)
    take_sequence(&r, &m->sequences[i], &m->tables[i],
                  &m->lists[(size_t)i * LLS_MAX_GROUPS]);
  /* same build on both sides: the whole message was parsed */
  LLS_CHECK(r.at == m->words + m->n);
  LLS_CHECK(r.entries == m->entries + header->n_entries);
  LLS_CHECK(r.scores <= e->scores + e->options.max_tokens);
  return 0;
}

/* Receives the announced words into a buffer that the next call overwrites. */
static int receive_words(struct lls_engine *e, uint64_t bytes, struct lls_error *err)
{
  struct lls_engine_message *m = &e->message;
  struct lls_ranks *ranks = e->options.ranks;
  m->n = (bytes + sizeof *m->words - 1) / sizeof *m->words;
  int rc = grow((void **)&m->words, &m->room, m->n, sizeof *m->words);
  if (rc < 0)
    return lls_fail(err, rc, "no memory for a step of %zu words", m->n);
  return ranks->ops->broadcast(ranks, m->words, bytes) < 0 ? lls_ranks_failed(ranks, err)
                                                           : 0;
}

/* Receives an announcement, and the words of it. */
static int receive_one(struct lls_engine *e, struct lls_engine_announcement *a,
                       struct lls_error *err)
{
  struct lls_ranks *ranks = e->options.ranks;
  if (ranks->ops->broadcast(ranks, a, sizeof *a) < 0)
    return lls_ranks_failed(ranks, err);
  return a->kind == GO_HOME ? 0 : receive_words(e, a->bytes, err);
}

static void take_accepted(struct lls_engine *e)
{
  LLS_CHECK(e->message.n == e->tails.n_folds);
  for (uint32_t i = 0; i < e->tails.n_folds; i++)
    e->tails.folds[i].accepted = e->message.words[i];
}

int lls_engine_receive(struct lls_engine *e, struct lls_engine_batch *batch,
                       struct lls_engine_note *note, struct lls_error *err)
{
  struct lls_engine_message *m = &e->message;
  struct lls_engine_announcement a;
  LLS_CHECK(e->shard.rank > 0 && !e->running);
  int rc = receive_one(e, &a, err);
  while (rc == 0 && a.kind == ADAPTER) {
    rc = lls_rank_adapters_receive(e, m->words, m->n);
    if (rc < 0)
      return rc == -ENOMEM ? lls_fail(err, rc, "no memory for an adapter")
                           : lls_ranks_failed(e->options.ranks, err);
    rc = receive_one(e, &a, err);
  }
  if (rc < 0)
    return rc;
  if (a.kind == GO_HOME)
    return LLS_RECEIVED_END;
  if (a.kind == NOTE) {
    *note = (struct lls_engine_note){.data = m->words, .bytes = a.bytes};
    return LLS_RECEIVED_NOTE;
  }
  if (a.kind == ACCEPTED) {
    take_accepted(e);
    return LLS_RECEIVED_ACCEPTED;
  }
  rc = read_batch(e, batch);
  return rc < 0 ? lls_fail(err, rc, "no memory for a step of %zu words", m->n)
                : LLS_RECEIVED_STEP;
}
