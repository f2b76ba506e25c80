/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step: checks the batch, lays it out flat for the device, runs it, hands the
 * tokens back in the batch's order.
 *
 * A batch comes from policies that can't be trusted, so this file checks everything
 * that a kernel uses as an index, block tables included. That is one pass over the
 * entries, and cheap: for each entry attention reads block_tokens rows of cache in
 * every layer.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/engine/forward.h"

int64_t lls_engine_now(const struct lls_engine *e)
{
  if (e->options.clock != NULL)
    return e->options.clock(e->options.clock_context);
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

/* ---- checks --------------------------------------------------------------------- */

/* Checks a list of the current sequence, and keeps a copy of it if there is a table
 * cache. */
static int check_list(struct lls_engine *e, uint32_t which,
                      const struct lls_block_entry *list, uint32_t n,
                      const struct lls_list_check *c, struct lls_error *err)
{
  const struct lls_group *group = &e->groups[c->group].seen;
  int rc = lls_engine_check_begin(group, list, n, c->hidden ? 0 : c->context, err);
  if (rc < 0)
    return rc;
  return e->table_cache.arena != NULL ? lls_table_cache_put(e, which, list, n, c, err)
                                      : lls_engine_check_entries(e, list, n, c, err);
}

/* Checks the lists of all groups but the first, which have neither hidden states nor
 * blocks to be restored. */
static int check_other_lists(struct lls_engine *e, const struct lls_engine_sequence *s,
                             struct lls_error *err)
{
  int rc = 0;
  for (uint32_t i = 1; i < e->caps.n_groups && rc == 0; i++) {
    const struct lls_group_list *l = &s->table->lists[i];
    if (lls_engine_group_is_state(e, i)) {
      rc = lls_engine_check_states(e, l, i, s->context, err);
      continue;
    }
    const struct lls_list_check c = {
        .group = i, .context = s->context, .needed = s->context + s->n_tokens};
    if (l->n_restored > 0)
      return lls_fail(err, -EINVAL, "blocks to be restored in group %u", i);
    rc = check_list(e, LLS_TABLE_OTHERS + i - 1, l->entries, l->n_entries, &c, err);
    if (rc < 0)
      return lls_fail_at(err, rc, "group %u", i);
  }
  return rc;
}

static int check_table(struct lls_engine *e, const struct lls_engine_sequence *s,
                       struct lls_error *err)
{
  if (s->table->n_groups != e->caps.n_groups)
    return lls_fail(err, -EINVAL, "a block table of %u groups where the engine has %u",
                    s->table->n_groups, e->caps.n_groups);
  const struct lls_group_list *l = s->table->lists;
  struct lls_list_check c = {.hidden = lls_list_is_hidden(l),
                             .context = s->context,
                             .needed = s->context + s->n_tokens};
  int rc = 0;
  if (lls_engine_group_is_state(e, 0)) /* then there is no other group */
    return lls_engine_check_states(e, l, 0, s->context, err);
  if ((c.hidden || l->n_restored > 0) && (e->caps.forms & LLS_BIT_HIDDEN) == 0)
    return lls_fail(err, -ENOTSUP, "hidden states: unsupported by this engine");
  if (c.hidden && l->n_restored > 0)
    return lls_fail(err, -EINVAL, "hidden states to be restored from hidden states");
  if (l->n_restored > 0) {
    const struct lls_list_check restored = {.hidden = true, .needed = s->context};
    rc = check_list(e, LLS_TABLE_RESTORED, l->restored, l->n_restored, &restored, err);
    c.context = 0; /* restoring writes all tokens */
  }
  if (rc == 0)
    rc = check_list(e, LLS_TABLE_ENTRIES, l->entries, l->n_entries, &c, err);
  return rc < 0 ? rc : check_other_lists(e, s, err);
}

/* Prefetches a sequence's lists. The previous forward pass has evicted the lists from the
 * near caches, and they are too short for the hardware prefetcher: checking a step of 512
 * took 160 us, with this 120. */
static void fetch_lists(const struct lls_engine *e, const struct lls_engine_sequence *s)
{
  for (uint32_t group = 0; group < e->caps.n_groups; group++) {
    const struct lls_group_list *l = lls_engine_list(e, s, group);
    for (uint32_t i = 0; i < l->n_entries; i += 64 / sizeof *l->entries)
      __builtin_prefetch(&l->entries[i]);
  }
}

/* Checks an encoder's sequence: refuses everything that needs a cache or a head. */
static int check_text(const struct lls_engine *e, const struct lls_engine_sequence *s,
                      struct lls_error *err)
{
  /* encoders that rotate positions have one row for all of them, of the first type */
  if (s->second_text > 0 && (e->config.token_types < 2 || e->config.rope.dims > 0))
    return lls_fail(err, -EINVAL, "a second type of tokens where the model has one");
  if (s->context > 0)
    return lls_fail(err, -ENOTSUP, "%u tokens after %u: an encoder's text is whole",
                    s->n_tokens, s->context);
  if (s->sampling != NULL || s->n_scores > 0 || s->all_logits)
    return lls_fail(err, -ENOTSUP, "an encoder makes no tokens and scores none");
  return 0;
}

static int check_sequence(struct lls_engine *e, const struct lls_engine_sequence *s,
                          struct lls_error *err)
{
  uint32_t limit = e->caps.max_context;
  if (s->n_tokens == 0 || s->context >= limit || s->n_tokens > limit - s->context)
    return lls_fail(err, -EINVAL, "%u tokens after %u where %u are the most", s->n_tokens,
                    s->context, limit);
  for (uint32_t i = 0; i < s->n_tokens; i++)
    if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= e->config.vocab)
      return lls_fail(err, -EINVAL, "token %d is outside the vocabulary of %u",
                      s->tokens[i], e->config.vocab);
  if (s->drafts > 0 && (s->sampling == NULL || s->all_logits ||
                        s->drafts > e->caps.max_drafts || s->drafts >= s->n_tokens))
    return lls_fail(err, -EINVAL, "%u of %u tokens are guesses, where %u are the most",
                    s->drafts, s->n_tokens, e->caps.max_drafts);
  if (s->n_scores > 0 && s->first_score + s->n_scores > s->n_tokens)
    return lls_fail(err, -EINVAL, "%u scores from row %u on where there are %u rows",
                    s->n_scores, s->first_score, s->n_tokens);
  for (uint32_t i = 0; i < s->n_scores; i++)
    if (s->tokens[s->first_score + 1 + i] < 0 ||
        (uint32_t)s->tokens[s->first_score + 1 + i] >= e->config.vocab)
      return lls_fail(err, -EINVAL, "a scored token is outside the vocabulary of %u",
                      e->config.vocab);
  if (s->n_pooled > 0 &&
      (s->first_pooled > s->n_tokens || s->n_pooled > s->n_tokens - s->first_pooled))
    return lls_fail(err, -EINVAL, "%u vectors from row %u on where there are %u rows",
                    s->n_pooled, s->first_pooled, s->n_tokens);
  int rc = lls_engine_check_adapter(e, s, err);
  if (rc < 0)
    return rc;
  if (e->config.encoder)
    return check_text(e, s, err);
  if (e->table_cache.arena != NULL)
    lls_table_cache_next(e, lls_engine_list(e, s, 0));
  return check_table(e, s, err);
}

static int blame(const struct lls_engine_batch *batch, uint32_t culprit, int rc)
{
  if (batch->culprit != NULL)
    *batch->culprit = culprit;
  return rc;
}

static int check_copies(const struct lls_engine *e, const struct lls_engine_batch *batch,
                        struct lls_error *err)
{
  for (uint32_t i = 0; i < batch->n_copies; i++)
    if (!lls_copy_fits(&e->pool_shape, &batch->copies[i]))
      return blame(batch, LLS_BATCH_COPIES,
                   lls_fail(err, -EINVAL,
                            "a copy of the step is outside the pool, or to or from "
                            "numbers that the pool has not (number %u of %u)",
                            i, batch->n_copies));
  return 0;
}

static int check_sequences(struct lls_engine *e, const struct lls_engine_batch *batch,
                           struct lls_error *err)
{
  if (batch->n_sequences > e->options.max_sequences)
    return lls_fail(err, -EINVAL, "%u sequences in a step where %u are the most",
                    batch->n_sequences, e->options.max_sequences);
  size_t rows = 0, kept = 0, drafts = 0;
  for (uint32_t i = 0; i < batch->n_sequences; i++) {
    const struct lls_engine_sequence *s = &batch->sequences[i];
    if (i + 1 < batch->n_sequences)
      fetch_lists(e, s + 1);
    int rc = check_sequence(e, s, err);
    if (rc < 0)
      return blame(batch, i, lls_fail_at(err, rc, "sequence %u of the step", i));
    rows += s->n_tokens;
    drafts += s->drafts;
    kept += s->all_logits ? s->n_tokens : 0;
  }
  if (rows > e->options.max_tokens)
    return lls_fail(err, -EINVAL, "%zu tokens in a step where %u are the most", rows,
                    e->options.max_tokens);
  if (drafts > e->draft_rows)
    return lls_fail(err, -EINVAL, "%zu guesses in a step where %u are the most", drafts,
                    e->draft_rows);
  if (kept > e->options.max_logits)
    return lls_fail(err, -EINVAL, "logits of %zu rows where %u are kept", kept,
                    e->options.max_logits);
  int rc = lls_engine_check_pulls(e, batch, err);
  return rc < 0 ? rc : lls_engine_check_hidden(e, batch, err);
}

static int check_batch(struct lls_engine *e, const struct lls_engine_batch *batch,
                       struct lls_error *err)
{
  int rc = check_copies(e, batch, err);
  if (rc < 0)
    return rc;
  if (e->table_cache.arena == NULL || batch->n_sequences == 0)
    return check_sequences(e, batch, err);
  lls_table_cache_begin(e);
  rc = check_sequences(e, batch, err);
  if (rc == 0)
    rc = lls_table_cache_end(e, batch, err);
  if (rc < 0)
    lls_table_cache_forget(e);
  return rc;
}

/* ---- layout --------------------------------------------------------------------- */

/* Says which lists of the manager's are K and V, and which X. */
static void lay_out_lists(const struct lls_group_list *l, struct lls_step_sequence *s)
{
  bool hidden = lls_list_is_hidden(l);
  if (!hidden)
    s->kv = (struct lls_step_list){.entries = l->entries, .n = l->n_entries};
  s->hidden = (struct lls_step_list){
      .entries = hidden ? l->entries : l->restored,
      .n = hidden ? l->n_entries : l->n_restored,
  };
}

/* Lays out the sequence's part of the step in each group. */
static void lay_out_groups(struct lls_engine *e, const struct lls_engine_sequence *s,
                           uint32_t index)
{
  struct lls_step_sequence *out = &e->sequences[index];
  for (uint32_t group = 0; group < e->caps.n_groups; group++) {
    *out = (struct lls_step_sequence){
        .first_row = e->step.n_rows, .n_rows = s->n_tokens, .context = s->context};
    lay_out_lists(lls_engine_list(e, s, group), out);
    if (e->table_cache.arena != NULL && !lls_engine_group_is_state(e, group))
      lls_table_cache_lay_out(&e->table_cache, index, group, out);
    out += e->step.n_sequences;
  }
  lls_engine_lay_out_hidden(e, &e->sequences[index]);
}

static void add_sequence(struct lls_engine *e, const struct lls_engine_sequence *s,
                         uint32_t index)
{
  uint32_t first = e->step.n_rows;
  lay_out_groups(e, s, index);
  lls_engine_lay_out_spans(e, s, index, first);
  memcpy(e->tokens + first, s->tokens, s->n_tokens * sizeof *s->tokens);
  for (uint32_t i = 0; i < s->n_tokens; i++) {
    e->positions[first + i] = (int32_t)(s->context + i);
    e->row_sequence[first + i] = index;
  }
  for (uint32_t i = s->second_text; i > 0 && i < s->n_tokens; i++)
    e->positions[first + i] += (int32_t)e->config.max_context; /* add_types */
  e->step.n_rows += s->n_tokens;

  e->result[index] = NULL;
  if (s->sampling == NULL)
    return;
  e->result[index] = &e->sampled[e->n_sampled];
  for (uint32_t i = 0; i <= s->drafts; i++) { /* other ranks draw none */
    e->sampling[e->n_sampled++] = e->shard.rank == 0 ? &s->sampling[i] : s->sampling;
    e->logit_rows[e->n_logit_rows++] = e->step.n_rows - 1 - s->drafts + i;
  }
}

/* Adds the rows of a sequence with all_logits, except for the last one if it is listed
 * already because it draws a token. */
static void keep_logits(struct lls_engine *e, uint32_t index, bool wanted)
{
  e->first_logit[index] = wanted ? e->n_kept_logits : NO_LOGITS;
  if (!wanted)
    return;
  const struct lls_step_sequence *s = &e->sequences[index];
  uint32_t others = s->n_rows - (e->result[index] != NULL);
  for (uint32_t i = 0; i < others; i++)
    e->logit_rows[e->n_logit_rows++] = s->first_row + i;
  e->n_kept_logits += s->n_rows;
}

/* Adds the scored rows of a sequence. Each is drawn like a token, with the outcome
 * given. */
static void add_scores(struct lls_engine *e, uint32_t index,
                       const struct lls_engine_sequence *s)
{
  uint32_t first_row = e->sequences[index].first_row + s->first_score;
  for (uint32_t i = 0; i < s->n_scores; i++) {
    uint32_t n = e->n_score_rows++;
    e->score_rows[n] = first_row + i;
    e->score_params[n] = (struct lls_sampling){
        .want_logprob = true,
        .n_logprobs = s->score_logprobs,
        .scored = true,
        .target = s->tokens[s->first_score + 1 + i],
    };
    e->score_sampling[n] = &e->score_params[n];
    e->score_targets[n] = &s->scores[i];
  }
}

static void add_pooled(struct lls_engine *e, uint32_t index,
                       const struct lls_engine_sequence *s)
{
  uint32_t first_row = e->sequences[index].first_row + s->first_pooled;
  for (uint32_t i = 0; i < s->n_pooled; i++) {
    e->pooled_rows[e->n_pooled_rows] = first_row + i;
    e->pooled_sums[e->n_pooled_rows++] = s->pooled;
  }
}

static void lay_out(struct lls_engine *e, const struct lls_engine_batch *batch)
{
  e->step = (struct lls_device_step){
      .tokens = e->tokens,
      .positions = e->positions,
      .sequence = e->row_sequence,
      .sequences = e->sequences,
      .spans = e->spans,
      .n_sequences = batch->n_sequences,
      .prepare = e->prepares,
  };
  e->n_logit_rows = e->n_sampled = e->n_kept_logits = 0;
  e->n_score_rows = e->n_pooled_rows = 0;
  e->keeps_hidden = batch->keeps_hidden;
  e->own_hidden = batch->own_hidden;
  e->restores = e->attends_hidden = false;
  e->scratch_used = 0;
  lls_engine_begin_tails(e);
  for (uint32_t i = 0; i < batch->n_sequences; i++) {
    add_sequence(e, &batch->sequences[i], i);
    add_scores(e, i, &batch->sequences[i]);
    add_pooled(e, i, &batch->sequences[i]);
  }
  for (uint32_t i = 0; i < batch->n_sequences; i++)
    keep_logits(e, i, batch->sequences[i].all_logits);
  lls_engine_lay_out_adapters(e, batch);
  LLS_CHECK(e->step.n_rows <= e->options.max_tokens);
  LLS_CHECK(e->n_sampled <= e->n_logit_rows && e->n_logit_rows <= e->max_logit_rows);
  LLS_CHECK(e->n_kept_logits <= e->options.max_logits);
  LLS_CHECK(e->n_score_rows <= e->options.max_tokens);
  LLS_CHECK(e->n_pooled_rows <= e->options.max_tokens);
  LLS_CHECK(e->scratch_used <= e->pool_shape.scratch_blocks);
  if (e->table_cache.arena != NULL) {
    e->step.entries = e->table_cache.arena;
    e->step.n_entries = e->table_cache.used + e->scratch_used;
  }
}

/* ---- run ------------------------------------------------------------------------ */

/* Gathers the rows of each sequence with all_logits on the host. */
static void download_logits(struct lls_engine *e)
{
  size_t vocab = e->config.vocab, row_bytes = vocab * sizeof(float);
  const float *others = e->act.logits + e->n_sampled * vocab;
  for (uint32_t i = 0; i < e->step.n_sequences; i++) {
    if (e->first_logit[i] == NO_LOGITS)
      continue;
    float *to = e->logits + e->first_logit[i] * vocab;
    size_t n = e->sequences[i].n_rows - (e->result[i] != NULL);
    e->device->ops->download(e->device, others, to, n * row_bytes);
    others += n * vocab;
    if (e->result[i] != NULL) {
      size_t row = (size_t)(e->result[i] - e->sampled);
      e->device->ops->download(e->device, e->act.logits + row * vocab, to + n * vocab,
                               row_bytes);
    }
  }
  LLS_CHECK(others == e->act.logits + e->n_logit_rows * vocab);
}

/* Fails with `what`, followed by the device's own reason if it has one. */
static int refused(const struct lls_engine *e, struct lls_error *err, int rc,
                   const char *what)
{
  const struct lls_device_ops *ops = e->device->ops;
  const char *why = ops->refusal != NULL ? ops->refusal(e->device) : "";
  return lls_fail(err, rc, "%s%s%s", what, why[0] != '\0' ? ": " : "", why);
}

static int start_copies(struct lls_engine *e, const struct lls_engine_batch *batch,
                        struct lls_error *err)
{
  const struct lls_device_ops *ops = e->device->ops;
  int rc = batch->n_copies > 0
               ? ops->pool_copy(e->device, e->pool, batch->copies, batch->n_copies)
               : 0;
  if (rc < 0)
    return refused(e, err, rc, "blocks of the cache could not be copied");
  for (uint32_t i = 0; i < batch->n_pulls && rc == 0; i++) {
    const struct lls_engine_pull *p = &batch->pulls[i];
    rc =
        ops->pool_pull(e->device, e->pool, p->from->device, p->from->pool, p->list, p->n);
  }
  return rc < 0 ? refused(e, err, rc, "blocks of another instance could not be copied")
                : 0;
}

/* Starts a batch that was checked and that rank 0 has sent to the other ranks, if any. */
static int start(struct lls_engine *e, const struct lls_engine_batch *batch,
                 struct lls_error *err)
{
  const struct lls_device_ops *ops = e->device->ops;
  lay_out(e, batch);
  lls_engine_bring_hidden(e, batch);
  e->copies = batch->n_copies > 0;
  e->started_ns = lls_engine_now(e);
  int rc = start_copies(e, batch, err);
  if (rc < 0)
    return rc;
  rc = ops->step_begin(e->device, e->pool, &e->step);
  if (rc < 0)
    return refused(e, err, rc, "the device refuses a step");
  e->running = true;
  if (LLS_CHECKING)
    e->thread = lls_this_thread();
  if (e->step.n_rows == 0)
    return 0;
  lls_engine_forward(e);
  if (e->shard.rank > 0)
    return 0;
  if (e->n_kept_logits > 0)
    download_logits(e);
  if (batch->before_draws != NULL)
    batch->before_draws(batch->before_draws_context);
  if (e->n_sampled > 0)
    ops->sample(e->device, e->act.logits, e->n_sampled, e->config.vocab, e->sampling,
                e->sampled);
  return 0;
}

int lls_engine_tell_ranks(struct lls_engine *e, int rc, const struct lls_error *why,
                          struct lls_error *err)
{
  if (rc < 0 && lls_engine_is_shared(e))
    lls_ranks_fail(e->options.ranks, lls_error_text(why, rc));
  return rc < 0 ? lls_fail(err, rc, "%s", lls_error_text(why, rc)) : 0;
}

/* Copies the batch's adapters to the device. Sets *lacks if a sequence's adapter found no
 * memory: then the batch is bad, and nothing was started. */
static int bring_adapters(struct lls_engine *e, const struct lls_engine_batch *batch,
                          bool *lacks, struct lls_error *err)
{
  uint32_t lacking;
  int rc = lls_residents_bring(e, batch, &lacking);
  *lacks = rc == -ENOMEM && lacking < batch->n_sequences && batch->culprit != NULL;
  if (*lacks)
    return blame(batch, lacking,
                 lls_fail(err, rc,
                          "no memory for an adapter, neither the device's nor "
                          "pinned memory of the host"));
  return rc < 0 ? refused(e, err, rc, "adapters could not be copied to the device") : 0;
}

int lls_engine_submit(struct lls_engine *e, const struct lls_engine_batch *batch,
                      struct lls_error *err)
{
  struct lls_error why = {0};
  bool lacks;
  blame(batch, LLS_BATCH_SOUND, 0);
  if (e->running)
    return lls_fail(err, -EBUSY, "the step before was not waited for");
  int rc = check_batch(e, batch, err);
  if (rc < 0)
    return rc;
  rc = bring_adapters(e, batch, &lacks, &why);
  if (lacks)
    return lls_fail(err, rc, "%s", why.text);
  if (rc == 0 && lls_engine_is_shared(e) && e->shard.rank == 0)
    rc = lls_engine_send(e, batch, &why);
  if (rc == 0)
    rc = start(e, batch, &why);
  return lls_engine_tell_ranks(e, rc, &why, err);
}

/* Returns true if the last thing that other ranks do in the step is not a sum: then they
 * may still use its adapters, or copy blocks. */
static bool ends_apart(const struct lls_engine *e)
{
  if (e->step.n_rows == 0)
    return e->copies;
  return e->adapters.n > 0 && e->n_logit_rows + e->n_score_rows + e->n_pooled_rows == 0;
}

/* Makes ranks wait for each other after a step that does not end with a sum. Afterwards
 * the caller may read blocks, of which every rank has a share, and free adapters. */
static int meet(struct lls_engine *e, struct lls_error *why)
{
  struct lls_ranks *ranks = e->options.ranks;
  float nothing = 0;
  if (!lls_engine_is_shared(e) || !ends_apart(e))
    return 0;
  return ranks->ops->sum(ranks, &nothing, 1) < 0 ? lls_ranks_failed(ranks, why) : 0;
}

int lls_engine_wait(struct lls_engine *e, struct lls_engine_result *result,
                    struct lls_error *err)
{
  struct lls_error why = {0};
  if (!e->running)
    return lls_fail(err, -EINVAL, "no step was submitted");
  LLS_ON(e->thread);
  int rc = e->device->ops->step_end(e->device, &why);
  e->running = false;
  if (rc == 0)
    rc = meet(e, &why);
  for (uint32_t i = 0; i < e->n_score_rows; i++)
    lls_sampled_copy(e->score_targets[i], &e->scores[i]);
  *result = (struct lls_engine_result){
      .n_sequences = e->step.n_sequences,
      .sampled = e->result,
      .n_rows = e->step.n_rows,
      .duration_ns = lls_engine_now(e) - e->started_ns,
  };
  return lls_engine_tell_ranks(e, rc, &why, err);
}

const float *lls_engine_logits(const struct lls_engine *e, uint32_t sequence)
{
  if (sequence >= e->step.n_sequences || e->first_logit[sequence] == NO_LOGITS)
    return NULL;
  LLS_ON(e->thread);
  return e->logits + (size_t)e->first_logit[sequence] * e->config.vocab;
}
