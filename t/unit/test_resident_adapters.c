/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters in a device's memory (core/engine/resident_adapters.c), on the CPU's device
 * with an operation that writes adapters: an adapter is written in one call, takes the
 * room of one that the step does not use, lies in pinned memory if there is no room, and
 * costs its sequence alone if there is no such memory either.
 */
#include "t/drive.h"

#include <errno.h>

#include "core/engine/engine_internal.h"

static struct {
  const struct lls_device_ops *cpu;
  struct lls_device_ops own;
  uint32_t writes, pinned,
      pinned_most; /* calls; areas of pinned memory now, and allowed */
} fake;

static int write_adapter(struct lls_device *device, enum lls_memory memory,
                         const struct lls_adapter_numbers *parts, size_t n)
{
  (void)device;
  (void)memory;
  fake.writes++;
  for (size_t i = 0; i < n; i++)
    memcpy(parts[i].to, parts[i].from, parts[i].n * sizeof *parts[i].from);
  return 0;
}

static int allocate(struct lls_device *device, enum lls_memory memory, size_t bytes,
                    void **out)
{
  if (memory == LLS_MEMORY_PINNED && fake.pinned == fake.pinned_most)
    return -ENOMEM;
  fake.pinned += memory == LLS_MEMORY_PINNED;
  return fake.cpu->alloc(device, memory, bytes, out);
}

static void release(struct lls_device *device, enum lls_memory memory, void *area)
{
  fake.pinned -= memory == LLS_MEMORY_PINNED && area != NULL;
  fake.cpu->release(device, memory, area);
}

static int create_device(const struct lls_device_options *o, struct lls_device **out,
                         struct lls_error *err)
{
  int rc = lls_cpu_device_create(o, out, err);
  if (rc < 0)
    return rc;
  fake.cpu = (*out)->ops;
  fake.own = *fake.cpu;
  fake.own.adapter_write = write_adapter;
  fake.own.alloc = allocate;
  fake.own.release = release;
  (*out)->ops = &fake.own;
  return 0;
}

/* ---- steps ------------------------------------------------------------------------ */

#define SEQUENCES 3

struct step {
  int32_t tokens[4];
  struct units units;
  struct sequence tables[SEQUENCES];
  struct lls_engine_sequence parts[SEQUENCES];
  struct lls_engine_batch batch;
  uint32_t culprit;
};

/* A step of prompts whose adapters are the model's of these numbers; -1: none. */
static int submit(struct drive_model *m, struct step *s, uint32_t n, const int *adapters,
                  struct lls_error *err)
{
  *s = (struct step){.tokens = {1, 5, 9, 7}};
  units_init(&s->units, 64, 2);
  for (uint32_t i = 0; i < n; i++) {
    sequence_init(&s->tables[i]);
    sequence_grow(&s->tables[i], &s->units, 16, 16);
    s->parts[i] = (struct lls_engine_sequence){
        .tokens = s->tokens,
        .n_tokens = 4,
        .table = &s->tables[i].table,
        .adapter = adapters[i] >= 0 ? m->adapters[adapters[i]] : NULL,
        .adapter_scale = 1,
        .all_logits = true};
  }
  s->batch = (struct lls_engine_batch){
      .n_sequences = n, .sequences = s->parts, .culprit = &s->culprit};
  return lls_engine_submit(m->engine, &s->batch, err);
}

/* Runs such a step, and returns the sum of the last row's logits of each sequence. */
static void run(struct drive_model *m, uint32_t n, const int *adapters, double *sums)
{
  struct step s;
  struct lls_error err = {0};
  struct lls_engine_result result;
  uint32_t vocab = lls_engine_config(m->engine)->vocab;
  int rc = submit(m, &s, n, adapters, &err);
  if (rc < 0)
    fail_msg("%s", lls_error_text(&err, rc));
  assert_int_equal(lls_engine_wait(m->engine, &result, NULL), 0);
  for (uint32_t i = 0; i < n; i++) {
    const float *row = lls_engine_logits(m->engine, i) + (size_t)3 * vocab;
    sums[i] = 0;
    for (uint32_t k = 0; k < vocab; k++)
      sums[i] += (double)row[k] * (1 + k);
  }
}

static void open_model(struct drive_model *m, size_t adapter_bytes)
{
  static char base[4096], first[4096], second[4096]; /* source_path has one buffer */
  static const char *paths[REFERENCE_MAX_PROMPTS];
  snprintf(base, sizeof base, "%s", source_path("t/data/models/llama"));
  snprintf(first, sizeof first, "%s", source_path("t/data/models/llama-lora/first"));
  snprintf(second, sizeof second, "%s", source_path("t/data/models/llama-lora/second"));
  paths[0] = first;
  paths[1] = second;
  fake.writes = 0;
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32,
                                        .path = base,
                                        .adapters = paths,
                                        .adapter_bytes = adapter_bytes,
                                        .create_device = create_device};
  drive_open(m, "llama-lora", &options);
}

/* ---- tests ------------------------------------------------------------------------- */

static void test_room_of_one(void **state)
{
  struct drive_model *m = calloc(1, sizeof *m);
  double one[SEQUENCES], again[SEQUENCES];
  (void)state;
  fake.pinned_most = 0;
  open_model(m, 1 << 16);
  const struct lls_resident_adapters *r = &m->engine->adapters.residents;
  assert_true(r->bytes >= m->adapters[0]->bytes);
  assert_true(r->bytes < m->adapters[0]->bytes + m->adapters[1]->bytes);
  run(m, 3, (const int[]){-1, 0, 0}, one);
  assert_true(one[1] == one[2] && one[0] != one[1]);
  assert_int_equal(fake.writes, 1); /* all of its parts */
  run(m, 2, (const int[]){0, -1}, again);
  assert_true(again[0] == one[1] && again[1] == one[0]);
  assert_int_equal(fake.writes, 1); /* it is still there */
  run(m, 1, (const int[]){1}, again);
  assert_int_equal(fake.writes, 2); /* in place of the first */
  assert_true(again[0] != one[0] && again[0] != one[1]);
  drive_close(m);
  free(m);
}

static void test_no_pinned_memory(void **state)
{
  struct drive_model *m = calloc(1, sizeof *m);
  double alone[1], three[SEQUENCES];
  struct lls_error err = {0};
  struct step s;
  (void)state;
  fake.pinned_most = 0;
  open_model(m, 1 << 16);
  run(m, 1, (const int[]){1}, alone);
  assert_int_equal(submit(m, &s, 3, (const int[]){-1, 0, 1}, &err), -ENOMEM);
  assert_int_equal(s.culprit, 1); /* the second one has the room */
  assert_non_null(strstr(err.text, "no memory for an adapter"));
  run(m, 2, (const int[]){-1, 1}, three); /* the step without it */
  assert_true(three[1] == alone[0]);
  fake.pinned_most = 1;
  run(m, 3, (const int[]){-1, 0, 1}, three);
  assert_int_equal(fake.pinned, 1);
  assert_true(three[2] == alone[0]);
  run(m, 1, (const int[]){-1}, three);
  assert_int_equal(fake.pinned, 0); /* until a step does not use it */
  drive_close(m);
  free(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_room_of_one),
                                     cmocka_unit_test(test_no_pinned_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
