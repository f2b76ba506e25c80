/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors instead of tokens. The head is linear: times its matrix, a prompt's last output
 * vector is the last row of the reference model's logits, and the sum of all vectors the
 * sum of all rows. The head has more rows than columns, so no other vector has the same
 * product. This holds whatever the chunks of a prompt, and with a shared prefix,
 * whenever it is preempted, and on any number of ranks.
 */
#include "t/tap.h"

#include <math.h>
#include <string.h>

#include "core/model/safetensors.h"
#include "t/clients.h"

#define HIDDEN 64

struct embedded {
  const struct reference_prompt *prompt;
  uint32_t pooling, finished, preemptions, shared;
  float vector[HIDDEN];
};

struct model {
  struct reference *ref;
  struct lls_safetensors *tensors;
  const float *head; /* (vocab, HIDDEN) */
};

static void open_model(struct model *m)
{
  struct lls_tensor_view view;
  struct lls_error err = {0};
  m->ref = reference_read(MODEL);
  assert_int_equal(lls_safetensors_open(m->ref->folder, &m->tensors, &err), 0);
  assert_int_equal(lls_safetensors_view(m->tensors, "lm_head.weight", m->ref->vocab,
                                        HIDDEN, &view, &err),
                   0);
  assert_int_equal(view.dtype, LLS_F32);
  m->head = view.data;
}

static void close_model(struct model *m)
{
  lls_safetensors_close(m->tensors);
  reference_free(m->ref);
}

static void on_embedded(void *context, const struct lls_event *event)
{
  (void)context;
  struct embedded *c = event->owner;
  if (c == NULL) /* the event of a request that only takes memory */
    return;
  assert_int_equal(event->kind, LLS_EVENT_FINISHED); /* no token before */
  assert_int_equal(event->reason, LLS_FINISH_LENGTH);
  assert_int_equal(event->generated_tokens, 0);
  assert_non_null(event->pooled);
  memcpy(c->vector, event->pooled, sizeof c->vector);
  c->finished++;
  c->preemptions = event->preemptions;
  c->shared = event->shared_tokens;
}

static void ask(struct harness *h, struct embedded *c, const struct reference_prompt *p,
                uint32_t pooling)
{
  struct lls_error err = {0};
  uint64_t id;
  *c = (struct embedded){.prompt = p, .pooling = pooling};
  struct lls_submission s = harness_submission(p->tokens, p->n_prompt, 0, c);
  s.pooling = pooling;
  if (lls_loop_submit(h->loop, &s, &id, &err) < 0)
    fail_msg("submit: %s", err.text);
}

/* Runs growing answers, which take memory from the others. */
static void generate(struct harness *h, const struct reference_prompt *p)
{
  struct lls_error err = {0};
  uint64_t id;
  const struct lls_submission s = harness_submission(p->tokens, p->n_prompt, 64, NULL);
  assert_int_equal(lls_loop_submit(h->loop, &s, &id, &err), 0);
}

static void finish(struct harness *h)
{
  for (int i = 0; i < 200000 && !lls_loop_idle(h->loop); i++) {
    assert_true(lls_loop_step(h->loop) >= 0);
    lls_loop_events(h->loop, on_embedded, NULL);
  }
  assert_true(lls_loop_idle(h->loop));
}

static double projected(const struct model *m, uint32_t token, const float *vector)
{
  double sum = 0;
  for (uint32_t c = 0; c < HIDDEN; c++)
    sum += (double)m->head[(size_t)token * HIDDEN + c] * (double)vector[c];
  return sum;
}

static void check_vector(const struct model *m, const struct embedded *c)
{
  const struct reference_prompt *p = c->prompt;
  uint32_t first = c->pooling == LLS_POOLING_LAST ? p->n_prompt - 1 : 0;
  assert_int_equal(c->finished, 1);
  for (uint32_t token = 0; token < m->ref->vocab; token++) {
    double expected = 0, found = projected(m, token, c->vector);
    for (uint32_t row = first; row < p->n_prompt; row++)
      expected += (double)p->logits[(size_t)row * m->ref->vocab + token];
    if (fabs(found - expected) > 1e-4 * (p->n_prompt - first + 9))
      fail_msg("prompt of %u tokens, pooling %u: %f, not %f", p->n_prompt, c->pooling,
               found, expected);
  }
}

struct outcome {
  /* preemptions of the last requests, with pooling LAST and MEAN */
  uint32_t preemptions, shared;
  uint32_t shared_by_mean;
};

/* Pools each reference prompt in both ways, `copies` times, with `others` answers
 * running. */
static struct outcome embed_all(const struct harness_options *o, int copies, int answers)
{
  struct harness h;
  struct model m;
  struct embedded clients[48];
  struct outcome out = {0};
  int n = 6 * copies;
  open_model(&m);
  open_or_fail(&h, o);
  for (int i = 0; i < answers; i++)
    generate(&h, &m.ref->prompts[i % 3]);
  for (int i = 0; i < n; i++)
    ask(&h, &clients[i], &m.ref->prompts[i / 2 % 3],
        i % 2 == 0 ? LLS_POOLING_LAST : LLS_POOLING_MEAN);
  finish(&h);
  for (int i = 0; i < n; i++) {
    check_vector(&m, &clients[i]);
    out.preemptions += clients[i].preemptions;
    *(i % 2 == 0 ? &out.shared : &out.shared_by_mean) += clients[i].shared;
  }
  assert_memory_is_back(&h);
  harness_close(&h);
  close_model(&m);
  return out;
}

static void test_vectors_are_what_the_head_reads(void **state)
{
  (void)state;
  const struct harness_options o = client_options("fcfs");
  embed_all(&o, 1, 0);
}

/* One sequence at a time, as many rows as are read back at once. */
static void test_in_chunks(void **state)
{
  (void)state;
  static const char *const parameters[] = {"chunk", "32", NULL};
  struct harness_options o = client_options("sarathi");
  o.scheduler.parameters = parameters;
  o.max_sequences = 3;
  embed_all(&o, 1, 0);
}

static void test_only_the_last_token_may_do_with_a_cached_prefix(void **state)
{
  (void)state;
  struct harness_options o = client_options("fcfs");
  o.cache.parameters = NULL;
  o.max_sequences = 2;
  struct outcome out = embed_all(&o, 4, 0);
  assert_true(out.shared > 0);
  assert_int_equal(out.shared_by_mean, 0);
}

static void test_preemption_changes_nothing(void **state)
{
  (void)state;
  static const char *const parameters[] = {"chunk", "32", "watermark", "0", NULL};
  struct harness_options o = client_options("sarathi");
  o.scheduler.parameters = parameters;
  o.device_units = 48;
  assert_true(embed_all(&o, 4, 8).preemptions > 0);
}

static void test_asynchronous(void **state)
{
  (void)state;
  struct harness_options o = client_options("fcfs");
  o.create_device = create_asynchronous;
  embed_all(&o, 2, 0);
}

static void test_what_is_refused(void **state)
{
  (void)state;
  const struct harness_options o = client_options("fcfs");
  struct harness h;
  struct model m;
  struct lls_error err = {0};
  uint64_t id;
  int32_t tokens[512] = {0};
  open_model(&m);
  open_or_fail(&h, &o);
  struct lls_submission s = harness_submission(tokens, 4, 0, NULL);
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -EINVAL);
  s.pooling = LLS_POOLING_LAST;
  s.max_new_tokens = 1;
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -EINVAL);
  s.max_new_tokens = 0;
  s.n_tokens = 257; /* one more than the context */
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -E2BIG);
  assert_non_null(strstr(err.text, "257 tokens and the context holds 256"));
  harness_close(&h);
  close_model(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors_are_what_the_head_reads),
      cmocka_unit_test(test_in_chunks),
      cmocka_unit_test(test_only_the_last_token_may_do_with_a_cached_prefix),
      cmocka_unit_test(test_preemption_changes_nothing),
      cmocka_unit_test(test_asynchronous),
      cmocka_unit_test(test_what_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
