/* SPDX-License-Identifier: Apache-2.0 */
/* Makes rows without a file: vLLM's random and prefix_repetition datasets, and
 * best-effort batches. */
#include <errno.h>
#include <math.h>

#include "tools/workload/build.h"
#include "tools/workload/lengths.h"

static int no_memory(struct lls_error *err)
{
  return lls_fail(err, -ENOMEM, "no memory for the workload");
}

/* vLLM's --random-range-ratio: uniform from length * (1 - r) to length * (1 + r). */
static uint32_t around(int64_t length, double ratio, uint64_t seed,
                       enum lls_stream stream, uint32_t index)
{
  struct lls_random random = lls_random_at(seed, stream, index);
  int64_t low = (int64_t)floor((double)length * (1 - ratio));
  int64_t high = (int64_t)ceil((double)length * (1 + ratio));
  low = low < 1 ? 1 : low;
  return (uint32_t)(low + (int64_t)lls_random_below(&random, (uint64_t)(high - low) + 1));
}

/* Makes the row begin with the `tokens` tokens that all rows of this prefix number
 * share. */
static int share_prefix(struct lls_rows *rows, struct lls_item *row, uint64_t number,
                        uint32_t tokens)
{
  uint64_t *hash = lls_arena_copy(rows->arena, &number, sizeof number);
  if (hash == NULL)
    return -ENOMEM;
  row->hashes = hash;
  row->n_hashes = 1;
  row->hash_tokens = tokens;
  row->prompt_tokens += tokens;
  return 0;
}

int lls_make_random(const struct lls_workload_options *o, uint32_t n,
                    struct lls_rows *rows, struct lls_error *err)
{
  uint64_t seed = (uint64_t)o->seed;
  double ratio = o->random_range_ratio;
  for (uint32_t i = 0; i < n; i++) {
    struct lls_item *row = lls_rows_add(rows);
    if (row == NULL)
      return no_memory(err);
    row->prompt_tokens = around(o->random_input_len, ratio, seed, LLS_STREAM_INPUT, i);
    row->output_tokens = around(o->random_output_len, ratio, seed, LLS_STREAM_OUTPUT, i);
    if (o->random_prefix_len > 0 &&
        share_prefix(rows, row, 0, (uint32_t)o->random_prefix_len) < 0)
      return no_memory(err);
  }
  return 0;
}

int lls_make_prefix_repetition(const struct lls_workload_options *o, uint32_t n,
                               struct lls_rows *rows, struct lls_error *err)
{
  for (uint32_t i = 0; i < n; i++) {
    struct lls_random random = lls_random_at((uint64_t)o->seed, LLS_STREAM_INPUT, i);
    struct lls_item *row = lls_rows_add(rows);
    if (row == NULL)
      return no_memory(err);
    uint64_t number =
        lls_random_below(&random, (uint64_t)o->prefix_repetition_num_prefixes);
    row->prompt_tokens = (uint32_t)o->prefix_repetition_suffix_len;
    row->output_tokens = (uint32_t)o->prefix_repetition_output_len;
    if (share_prefix(rows, row, number, (uint32_t)o->prefix_repetition_prefix_len) < 0)
      return no_memory(err);
  }
  return 0;
}

static int add_batch_rows(const struct lls_workload_options *o, int64_t n_batches,
                          const struct lls_lengths *inputs,
                          const struct lls_lengths *outputs, struct lls_rows *rows)
{
  uint64_t seed = (uint64_t)o->seed, index = 0;
  for (int64_t batch = 0; batch < n_batches; batch++)
    for (int64_t i = 0; i < o->batch_size; i++, index++) {
      struct lls_random input = lls_random_at(seed, LLS_STREAM_BATCH_INPUT, index);
      struct lls_random output = lls_random_at(seed, LLS_STREAM_BATCH_OUTPUT, index);
      struct lls_item *row = lls_rows_add(rows);
      if (row == NULL)
        return -ENOMEM;
      row->prompt_tokens = lls_lengths_draw(inputs, &input);
      row->output_tokens = lls_lengths_draw(outputs, &output);
      row->request_class = LLS_CLASS_BEST_EFFORT;
      row->priority = (int32_t)o->best_effort_priority;
      row->batch = (uint32_t)batch + 1;
      if (o->batch_period != LLS_NEVER) {
        row->batch = 0;
        row->arrival_ns = batch * o->batch_period;
      }
    }
  return 0;
}

/* Returns the number of timed batches: one at the beginning, the last one at until_ns
 * or before. */
static int64_t count_batches(const struct lls_workload_options *o, int64_t until_ns)
{
  if (o->batch_period == LLS_NEVER || o->batch_period == 0)
    return o->batch_count;
  int64_t count = until_ns / o->batch_period + 1;
  return count < o->batch_count ? count : o->batch_count;
}

int lls_add_batches(const struct lls_workload_options *o, int64_t until_ns,
                    struct lls_rows *rows, struct lls_error *err)
{
  struct lls_lengths *inputs = NULL, *outputs = NULL;
  if (o->batch_size == 0)
    return 0;
  int rc = lls_lengths_parse(o->batch_input_lengths, &inputs, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "--batch-input-lengths");
  rc = lls_lengths_parse(o->batch_output_lengths, &outputs, err);
  if (rc < 0)
    lls_fail_at(err, rc, "--batch-output-lengths");
  else if (add_batch_rows(o, count_batches(o, until_ns), inputs, outputs, rows) < 0)
    rc = no_memory(err);
  lls_lengths_free(inputs);
  lls_lengths_free(outputs);
  return rc;
}
