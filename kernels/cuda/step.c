/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step's inputs, laid out for one copy, and the step's end.
 *
 *   [a step for each group][plans][rows of two gathers] at fixed places: graphs contain
 * their addresses [tokens][positions][...][entries][items] anywhere: the fixed part has
 * their addresses [rows of more gathers] if tokens of a prompt are scored
 *
 * If the step's block lists are contiguous, as the engine's are
 * (core/engine/table_cache.c), they are copied from there directly, while the
 * operations are being recorded.
 */
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <string.h>

#define MAX_GRAPH_ROWS   256
#define MAX_GUESSED_ROWS 16 /* of a sequence */
#define MORE_GATHERS     2  /* space for further gathers, each of the largest size */

static size_t aligned(size_t bytes)
{
  return (bytes + 15) & ~(size_t)15;
}

static size_t gather_bytes(const struct lls_cuda_device *d)
{
  return (d->options.max_rows + LLS_CUDA_MOST_PADDING) * sizeof(uint32_t);
}

static size_t entries_of(const struct lls_step_sequence *s)
{
  return (size_t)s->kv.n + s->hidden.n;
}

/* Groups of layers that the step's sequences have lists for. */
static uint32_t groups_of(const struct lls_cuda_device *d)
{
  return d->pool != NULL ? lls_pool_groups(&d->pool->shape) : 1;
}

static size_t bytes_wanted(const struct lls_cuda_device *d,
                           const struct lls_device_step *s)
{
  size_t rows = lls_cuda_padded(s->n_rows), entries = 0, groups = groups_of(d);
  for (uint32_t i = 0; i < groups * s->n_sequences && s->entries == NULL; i++)
    entries += entries_of(&s->sequences[i]);
  return aligned(groups * sizeof(struct lls_cuda_step)) +
         aligned(LLS_CUDA_PLANS * sizeof(struct lls_cuda_plan)) +
         2 * aligned(gather_bytes(d)) + (3 + groups) * aligned(rows * sizeof(uint64_t)) +
         groups * aligned(s->n_sequences * sizeof(struct lls_cuda_sequence)) +
         aligned(entries * sizeof(struct lls_block_entry)) +
         aligned(s->n_spans * sizeof(struct lls_state_span)) +
         aligned((s->n_spans + (size_t)1) * sizeof(uint32_t)) +
         LLS_CUDA_PLANS * lls_cuda_plan_bytes(d, s->n_rows) +
         MORE_GATHERS * aligned(gather_bytes(d));
}

/* ---- tables ------------------------------------------------------------------------ */

/* Are the entries whole blocks in order, so that a division finds a token's entry? */
static bool is_whole(const struct lls_step_list *list, uint32_t block_tokens)
{
  const struct lls_block_entry *e = list->entries;
  uint32_t first_token = lls_list_begin(e, list->n);
  bool whole = true;
  for (uint32_t i = 0; i < list->n; i++)
    whole &= e[i].first_token == first_token + i * block_tokens &&
             e[i].direction == LLS_LEFT_TO_RIGHT;
  return whole;
}

/* Returns the entry of a list that holds a token; the list covers it. */
static const struct lls_block_entry *entry_of(const struct lls_block_entry *list,
                                              uint32_t n, uint32_t token)
{
  uint32_t low = 0, high = n;
  if (n > 0 && list[n - 1].first_token <= token) /* the usual case in decode */
    return &list[n - 1];
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (list[middle].first_token <= token)
      low = middle;
    else
      high = middle;
  }
  return list + low;
}

/* Computes the destinations of a sequence's rows in a group, in elements from the pool's
 * beginning. */
static void place_rows(const struct lls_pool *pool, uint32_t group,
                       const struct lls_step_sequence *s, uint64_t *at)
{
  const struct lls_pool_shape *p = &pool->groups[group];
  uint64_t layer = (uint64_t)p->kv_heads * p->block_tokens * p->head_dim;
  uint64_t unit = s->scratch ? 2 * layer : pool->view.unit;
  uint64_t begin = s->scratch ? pool->view.scratch_at : 0;
  uint32_t token = s->context;
  const struct lls_block_entry *e = entry_of(s->kv.entries, s->kv.n, token);
  for (uint32_t row = s->first_row; row < s->first_row + s->n_rows; row++, token++) {
    while (token >= e->first_token + e->count)
      e++;
    uint32_t index = token - e->first_token;
    uint32_t slot =
        e->direction == LLS_LEFT_TO_RIGHT ? index : p->block_tokens - 1 - index;
    at[row] = begin + e->block * unit + (uint64_t)slot * p->head_dim;
  }
}

/* Appends a list to the step's entries, and returns its first index. */
static uint32_t append(struct lls_block_entry *entries, size_t *used,
                       const struct lls_step_list *list)
{
  uint32_t first = (uint32_t)*used;
  if (list->n > 0)
    memcpy(entries + first, list->entries, list->n * sizeof *entries);
  *used += list->n;
  return first;
}

/* Copies a sequence's lists to the inputs, and records where they begin and whether
 * they are whole. */
static void append_lists(struct lls_cuda_device *d, const struct lls_step_sequence *s,
                         struct lls_cuda_sequence *out, struct lls_block_entry *entries,
                         size_t *used)
{
  uint32_t block_tokens = d->pool->shape.block_tokens;
  out->kv_first = append(entries, used, &s->kv);
  out->x_first = append(entries, used, &s->hidden);
  out->kv_whole = is_whole(&s->kv, block_tokens);
  out->x_whole = is_whole(&s->hidden, block_tokens);
}

/* Records the same for lists that are already in the step's entries. */
static void find_lists(const struct lls_device_step *step,
                       const struct lls_step_sequence *s, struct lls_cuda_sequence *out)
{
  out->kv_first = s->kv.n > 0 ? (uint32_t)(s->kv.entries - step->entries) : 0;
  out->x_first = s->hidden.n > 0 ? (uint32_t)(s->hidden.entries - step->entries) : 0;
  out->kv_whole = s->kv.tidy;
  out->x_whole = s->hidden.tidy;
}

static void lay_out_sequence(struct lls_cuda_device *d,
                             const struct lls_step_sequence *from,
                             struct lls_cuda_sequence *out,
                             struct lls_block_entry *entries, size_t *used)
{
  *out = (struct lls_cuda_sequence){
      .first_row = from->first_row,
      .n_rows = from->n_rows,
      .context = from->context,
      .kv_count = from->kv.n,
      .x_count = from->hidden.n,
      .scratch = from->scratch,
      .first_restored = d->n_restored,
  };
  if (entries != NULL)
    append_lists(d, from, out, entries, used);
  else
    find_lists(d->step, from, out);
  d->n_restored += from->n_restored;
}

/* Begins the copy of the step's lists to the device, where none is in use. */
static int send_entries(struct lls_cuda_device *d)
{
  size_t n = d->step->n_entries;
  void *larger = NULL;
  if (n > d->entries_room) {
    cudaFree(d->entries_at);
    int rc = lls_cuda_malloc(2 * n * sizeof *d->entries_at, &larger);
    d->entries_at = larger;
    d->entries_room = rc == 0 ? 2 * n : 0;
    if (rc < 0)
      return rc;
  }
  int rc = cudaMemcpyAsync(d->entries_at, d->step->entries, n * sizeof *d->entries_at,
                           cudaMemcpyHostToDevice, d->stream);
  return rc == cudaSuccess ? 0 : -EIO;
}

/* Reserves space for the copied lists, on the host and on the device. */
static struct lls_block_entry *take_entries(struct lls_cuda_device *d,
                                            struct lls_cuda_step *out)
{
  const struct lls_device_step *s = d->step;
  size_t n = 0;
  for (uint32_t i = 0; i < groups_of(d) * s->n_sequences; i++)
    n += entries_of(&s->sequences[i]);
  return lls_cuda_inputs_take(&d->inputs, n * sizeof(struct lls_block_entry),
                              &out->entries);
}

/* Lays out the sequences with their lists in a group. */
static void lay_out_group(struct lls_cuda_device *d, uint32_t group,
                          struct lls_cuda_step *out, struct lls_block_entry *entries,
                          size_t *used)
{
  const struct lls_device_step *s = d->step;
  const struct lls_step_sequence *from = lls_step_group(s, group);
  size_t rows = s->n_rows * sizeof(uint64_t);
  uint64_t *kv_at = lls_cuda_inputs_take(&d->inputs, rows, &out->kv_at);
  struct lls_cuda_sequence *sequences = lls_cuda_inputs_take(
      &d->inputs, s->n_sequences * sizeof *sequences, &out->sequences);
  for (uint32_t i = 0; i < s->n_sequences; i++) {
    lay_out_sequence(d, &from[i], &sequences[i], entries, used);
    if (!lls_group_is_state(&d->pool->shape, group))
      place_rows(d->pool, group, &from[i], kv_at);
  }
}

/* Lays out what the rows do to states; the spans of a sequence follow each other. */
static void lay_out_spans(struct lls_cuda_device *d, struct lls_cuda_step *out)
{
  const struct lls_device_step *s = d->step;
  struct lls_state_span *spans =
      lls_cuda_inputs_take(&d->inputs, s->n_spans * sizeof *spans, &out->spans);
  uint32_t *chains = lls_cuda_inputs_take(
      &d->inputs, (s->n_spans + (size_t)1) * sizeof *chains, &out->chains);
  d->n_chains = 0;
  for (uint32_t i = 0; i < s->n_spans; i++) {
    spans[i] = s->spans[i];
    if (spans[i].turn == 0)
      chains[d->n_chains++] = i;
  }
  chains[d->n_chains] = s->n_spans;
  out->n_chains = d->n_chains;
}

/* Lays out the tables of all groups; out: (groups), of which the first has all else. */
static int lay_out_tables(struct lls_cuda_device *d, struct lls_cuda_step *out)
{
  int rc = d->step->entries != NULL ? send_entries(d) : 0;
  struct lls_block_entry *entries = NULL;
  size_t used = 0;
  out->entries = d->entries_at;
  lay_out_spans(d, out);
  if (d->step->entries == NULL)
    entries = take_entries(d, out);
  for (uint32_t i = 1; i < groups_of(d); i++)
    out[i] = out[0];
  for (uint32_t i = 0; i < groups_of(d); i++)
    lay_out_group(d, i, &out[i], entries, &used);
  out->n_restored = d->n_restored;
  return rc;
}

/* ---- rows -------------------------------------------------------------------------- */

/* Copies the step's n_rows values, or zeros if the step has none, and pads with
 * zeros. */
static void take_rows(struct lls_cuda_device *d, const void *from, void *device_at)
{
  uint32_t n = d->step->n_rows, padded = lls_cuda_padded(n);
  int32_t *to = lls_cuda_inputs_take(&d->inputs, padded * sizeof *to, device_at);
  memset(to, 0, padded * sizeof *to);
  if (from != NULL)
    memcpy(to, from, n * sizeof *to);
}

static void take_fixed(struct lls_cuda_device *d)
{
  d->n_gathers = 0;
  for (int i = 0; i < 2; i++)
    d->gather_rows[i] =
        lls_cuda_inputs_take(&d->inputs, gather_bytes(d), &d->gather_at[i]);
}

/* Adds one more gather: a prompt's tokens are scored a few at a time, and each of these
 * gathers occurs once. */
static const uint32_t *one_more(struct lls_cuda_device *d, const uint32_t *rows,
                                uint32_t n)
{
  size_t bytes = lls_cuda_padded(n) * sizeof *rows;
  const uint32_t *at;
  if (d->inputs.capacity - d->inputs.used < aligned(bytes)) {
    lls_cuda_step_fail(d, -ENOTSUP, "gathers of more than %u rows in a step",
                       MORE_GATHERS * d->options.max_rows);
    return NULL;
  }
  uint32_t *to = lls_cuda_inputs_take(&d->inputs, bytes, &at);
  memset(to, 0, bytes);
  memcpy(to, rows, n * sizeof *rows);
  return at;
}

const uint32_t *lls_cuda_step_rows(struct lls_cuda_device *d, const uint32_t *rows,
                                   uint32_t n)
{
  for (uint32_t i = 0; i < d->n_gathers; i++)
    if (memcmp(d->gather_rows[i], rows, n * sizeof *rows) == 0)
      return d->gather_at[i];
  if (n > d->options.max_rows) {
    lls_cuda_step_fail(d, -EINVAL, "a gather of %u rows: at most %u", n,
                       d->options.max_rows);
    return NULL;
  }
  if (d->n_gathers == 2)
    return one_more(d, rows, n);
  uint32_t *to = d->gather_rows[d->n_gathers];
  memset(to, 0, gather_bytes(d));
  memcpy(to, rows, n * sizeof *rows);
  d->inputs.sent = 0; /* the inputs are sent again if they were sent without these rows */
  return d->gather_at[d->n_gathers++];
}

/* ---- begin and end ----------------------------------------------------------------- */

/* Are all sequences decodes, maybe with guesses, so that steps of as many rows recur? The
 * last piece of a prompt may be taken for one. */
static bool is_decode(const struct lls_device_step *s)
{
  bool decode = s->n_rows <= MAX_GRAPH_ROWS;
  for (uint32_t i = 0; i < s->n_sequences && decode; i++)
    decode = s->sequences[i].n_rows <= MAX_GUESSED_ROWS &&
             (s->sequences[i].n_rows == 1 || s->sequences[i].context > 0);
  return decode;
}

static int lay_out(struct lls_cuda_device *d)
{
  const char *before = d->inputs.device;
  int rc = lls_cuda_inputs_begin(&d->inputs, bytes_wanted(d, d->step));
  if (rc < 0)
    return rc;
  if (d->inputs.device != before)
    lls_cuda_ops_forget(d);
  struct lls_cuda_step *step =
      lls_cuda_inputs_take(&d->inputs, groups_of(d) * sizeof *step, &d->step_at);
  struct lls_cuda_plan *plans =
      lls_cuda_inputs_take(&d->inputs, LLS_CUDA_PLANS * sizeof *plans, &d->plan_at);
  memset(plans, 0, LLS_CUDA_PLANS * sizeof *plans);
  take_fixed(d);
  d->n_restored = 0;
  step->n_rows = d->step->n_rows;
  step->n_sequences = d->step->n_sequences;
  step->n_restored = 0;
  take_rows(d, d->step->tokens, &step->tokens);
  take_rows(d, d->step->positions, &step->positions);
  take_rows(d, d->step->sequence, &step->row_sequence);
  return d->pool != NULL ? lay_out_tables(d, step) : 0;
}

int lls_cuda_step_begin(struct lls_device *device, struct lls_pool *pool,
                        const struct lls_device_step *step)
{
  struct lls_cuda_device *d = lls_cuda(device);
  lls_cuda_refuse(d, cudaSuccess, "");
  if (step->n_rows > d->options.max_rows)
    return -EINVAL;
  int rc = cudaSetDevice(d->gpu); /* another instance's GPU may be the current one */
  if (rc != cudaSuccess)
    return lls_cuda_refuse(d, rc, "choosing the GPU");
  d->pool = pool;
  d->step = step;
  d->status = 0;
  d->n_results = 0;
  d->latent_rank = 0;
  d->adapted.begun = false;
  memset(d->ropes, 0, sizeof d->ropes);
  memset(d->plans, 0, sizeof d->plans);
  rc = lay_out(d);
  lls_cuda_ops_begin(d, is_decode(step) && d->n_restored == 0 && !d->debug);
  if (rc == -EIO) /* the failing call is unknown here, so CUDA's message is used */
    lls_cuda_refuse(d, cudaGetLastError(), "the inputs of a step");
  if (rc == -ENOMEM)
    lls_cuda_refuse(d, cudaErrorMemoryAllocation, "the inputs of a step");
  return rc;
}

/* Waits for this step and the copies during it, and for nothing else. */
int lls_cuda_step_end(struct lls_device *device, struct lls_error *err)
{
  struct lls_cuda_device *d = lls_cuda(device);
  lls_cuda_ops_flush(d);
  int rc = cudaEventRecord(d->step_done, d->stream);
  if (rc == cudaSuccess)
    rc = lls_cuda_ranks_wait(d, d->step_done);
  if (rc == cudaSuccess && d->copies_given)
    rc = cudaEventSynchronize(d->copies_done);
  d->copies_given = false;
  if (rc == cudaSuccess)
    rc = cudaGetLastError();
  if (lls_cuda_step_check(d, rc, "the step"))
    lls_cuda_sample_finish(d);
  d->pool = NULL;
  d->step = NULL;
  if (d->status != 0)
    lls_fail(err, d->status, "%s", d->error.text);
  return d->status;
}

/* Copies through the staging memory. A copy to unpinned memory would wait for the
 * transfer anyway, and the driver would decide at what point. */
void lls_cuda_download(struct lls_device *device, const void *from, void *to,
                       size_t bytes)
{
  struct lls_cuda_device *d = lls_cuda(device);
  lls_cuda_ops_flush(d);
  for (size_t done = 0, n; done < bytes && d->status == 0; done += n) {
    n = bytes - done < LLS_CUDA_STAGING ? bytes - done : LLS_CUDA_STAGING;
    int rc = cudaMemcpyAsync(d->staging[0], (const char *)from + done, n,
                             cudaMemcpyDeviceToHost, d->stream);
    if (rc == cudaSuccess)
      rc = lls_cuda_ranks_reach(d);
    if (lls_cuda_step_check(d, rc, "reading results back"))
      memcpy((char *)to + done, d->staging[0], n);
  }
}
