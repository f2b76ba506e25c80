/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and events as bytes (core/cluster/remote_wire.h): what one process packs is
 * what another unpacks, with times moved between their clocks; a message that was cut off
 * at any byte is refused or unpacked without reading beyond it.
 */
#include "t/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/remote_session.h"
#include "core/cluster/remote_wire.h"
#include "core/instance/inbox.h"
#include "core/instance/session.h"
#include "core/lora/lora.h"

#define AHEAD   1000000 /* of process 0's clock before the sender's */
#define COLUMNS 3

static const int32_t eos[] = {2}, prompt[] = {5, 6, 7, 8, 9}, stops[] = {40, 41};
static const int32_t bad_words[] = {2, 50, 51, 1, 60};
static const struct lls_logit_bias bias[] = {{.token = 11, .bias = -2}};

static struct lls_wire wire_of(int64_t ahead_ns)
{
  return (struct lls_wire){.ahead_ns = ahead_ns,
                           .live = {.eos_tokens = eos,
                                    .n_eos_tokens = 1,
                                    .block_tokens = 16,
                                    .vector_columns = COLUMNS,
                                    .vocabulary = 100,
                                    .key_tokens = 16}};
}

static uint32_t breakers[4] = {1u << 10}; /* one bit for each token */
static int32_t sequences[] = {2, 7, 8};

static struct lls_live *make_request(uint32_t pooling)
{
  const struct lls_wire w = wire_of(0);
  const struct lls_submission s = {
      .tokens = prompt,
      .n_tokens = 5,
      .text = "five",
      .text_bytes = 4,
      .label = "label",
      .tenant_name = "tenant",
      .sampling = {.bias = bias,
                   .n_bias = 1,
                   .more = {.mirostat = 2,
                            .mirostat_tau = 3,
                            .mirostat_eta = 0.5f,
                            .mirostat_mu = 6}},
      .dry = {.multiplier = 2, .allowed_length = 3},
      .dry_breakers = {.tokens = breakers, .sequences = sequences, .n_sequences = 3},
      .thought = {.limited = true, .budget = 9},
      .stop_tokens = stops,
      .n_stop_tokens = 2,
      .bad_words = bad_words,
      .n_bad_words = 5,
      .score_prompt = pooling == LLS_POOLING_NONE,
      .pooling = pooling};
  struct lls_live *live = lls_live_create(&s, &w.live, 77, 3, 8, 500);
  assert_non_null(live);
  return live;
}

/* Packs the request for an offer, with an entry in each of two lists. */
static struct lls_pack pack_offer(struct lls_live *live)
{
  const struct lls_wire w = wire_of(AHEAD);
  struct lls_pack p = {0};
  struct lls_move *m = &live->move;
  m->mail = LLS_MAIL_OFFER;
  for (uint32_t i = 0; i < 2; i++)
    m->entries[i] = (struct lls_block_entry){.block = 20 + i, .count = 5};
  m->blocks =
      (struct lls_block_lists){.n_groups = 2,
                               .lists = {{.entries = m->entries, .n_entries = 1},
                                         {.entries = m->entries + 1, .n_entries = 1}}};
  lls_wire_pack_request(&w, live, &p);
  assert_false(p.failed);
  return p;
}

/* Checks the state of the samplers in a received request. */
static void check_samplers(const struct lls_live *got)
{
  const struct lls_dry_state *d = &got->dry;
  assert_true(got->sampling.more.mirostat_mu == 6);
  assert_true(d->dry.multiplier == 2 && d->dry.allowed_length == 3);
  assert_memory_equal(d->breakers.tokens, breakers, sizeof breakers);
  assert_int_equal(d->breakers.n_sequences, 3);
  assert_memory_equal(d->breakers.sequences, sequences, sizeof sequences);
  assert_true(got->thought.thought.limited && got->thought.thought.budget == 9);
}

static void test_request(void **state)
{
  const struct lls_wire w = wire_of(AHEAD / 2);
  struct lls_live *live = make_request(LLS_POOLING_NONE);
  struct lls_pack p = pack_offer(live);
  struct lls_unpack u = {.data = p.data, .n = p.n}, again = u;
  struct lls_error err = {0};
  (void)state;
  struct lls_live *got = lls_wire_new_request(&w, &u, &err);
  assert_non_null(got);
  assert_int_equal(u.at, u.n);
  assert_int_equal(got->view.id, 77);
  assert_int_equal(got->view.arrival_ns, live->view.arrival_ns + AHEAD / 2);
  assert_memory_equal(got->tokens, prompt, sizeof prompt);
  assert_int_equal(got->n_stop_tokens, live->n_stop_tokens);
  assert_memory_equal(got->stop_tokens, live->stop_tokens,
                      live->n_stop_tokens * sizeof *live->stop_tokens);
  assert_memory_equal(got->sampling.bias, bias, sizeof bias);
  assert_memory_equal(got->bad_words, bad_words, sizeof bad_words);
  check_samplers(got);
  assert_string_equal(got->label, "label");
  assert_string_equal(got->view.tenant_name, "tenant");
  assert_memory_equal(got->text, "five", 4);
  assert_int_equal(got->move.blocks.n_groups, 2);
  assert_int_equal(got->move.blocks.lists[0].entries[0].block, 20);
  assert_int_equal(got->move.blocks.lists[1].entries[0].block, 21);
  assert_true(lls_wire_update_request(&w, &again, live));
  lls_live_free(got);
  lls_live_free(live);
  free(p.data);
}

/* Returns the first n bytes in memory of their own, so that a read beyond them is seen.
 */
static char *first_bytes(const struct lls_pack *p, size_t n)
{
  char *copy = malloc(n > 0 ? n : 1);
  assert_non_null(copy);
  memcpy(copy, p->data, n);
  return copy;
}

static void test_request_cut_off(void **state)
{
  const struct lls_wire w = wire_of(0);
  struct lls_live *live = make_request(LLS_POOLING_NONE);
  struct lls_pack p = pack_offer(live);
  (void)state;
  for (size_t n = 0; n < p.n; n++) {
    struct lls_error err = {0};
    char *data = first_bytes(&p, n);
    struct lls_unpack u = {.data = data, .n = n};
    assert_null(lls_wire_new_request(&w, &u, &err));
    assert_true(err.text[0] != '\0');
    free(data);
  }
  lls_live_free(live);
  free(p.data);
}

/* ---- a request's adapter --------------------------------------------------------- */

struct adapters_there {
  struct lls_lora *lora;
  const struct lls_lora *sent;
  int rc;
};

static int find_adapter(void *context, const char *path, const unsigned char digest[32],
                        struct lls_lora **out, struct lls_error *err)
{
  struct adapters_there *there = context;
  assert_string_equal(path, there->sent->path);
  assert_memory_equal(digest, there->sent->digest, 32);
  if (there->rc == 0)
    *out = lls_lora_ref(there->lora);
  return there->rc < 0 ? lls_fail(err, there->rc, "no such files") : 0;
}

static struct lls_lora *make_adapter(const char *path, unsigned char digest)
{
  struct lls_lora *lora = calloc(1, sizeof *lora);
  assert_non_null(lora);
  atomic_init(&lora->users, 1);
  lora->path = path != NULL ? strdup(path) : NULL;
  memset(lora->digest, digest, sizeof lora->digest);
  return lora;
}

static void test_adapter_is_found_by_path_and_digest(void **state)
{
  struct lls_wire w = wire_of(0), without = w;
  struct adapters_there there = {.lora = make_adapter(NULL, 9)};
  struct lls_live *live = make_request(LLS_POOLING_NONE);
  struct lls_error err = {0};
  (void)state;
  live->lora = make_adapter("/adapters/sql", 9);
  live->lora_scale = 0.5f;
  live->view.adapter_name = "sql";
  there.sent = live->lora;
  w.adapter = find_adapter;
  w.adapter_context = &there;
  struct lls_pack p = pack_offer(live);
  struct lls_unpack u = {.data = p.data, .n = p.n}, second = u, third = u;
  struct lls_live *got = lls_wire_new_request(&w, &u, &err);
  assert_non_null(got);
  assert_ptr_equal(got->lora, there.lora);
  assert_true(got->lora_scale == 0.5f);
  assert_string_equal(got->view.adapter_name, "sql");
  lls_live_free(got);
  assert_int_equal(atomic_load(&there.lora->users), 1);
  there.rc = -EINVAL;
  assert_null(lls_wire_new_request(&w, &second, &err));
  assert_string_equal(err.text, "no such files");
  assert_null(lls_wire_new_request(&without, &third, &err));
  assert_string_equal(err.text, "there are no adapters here");
  lls_live_free(live);
  lls_lora_unref(there.lora);
  free(p.data);
}

/* ---- events ----------------------------------------------------------------------- */

static struct lls_event token_event(const struct lls_sampled *scores)
{
  static const int32_t forced[] = {31, 32};
  return (struct lls_event){.kind = LLS_EVENT_TOKEN,
                            .request = 77,
                            .token = {.token = 30,
                                      .logprob = -1,
                                      .surprise = 5,
                                      .n_top = 1,
                                      .top_token = {33},
                                      .top_logprob = {-2}},
                            .forced = forced,
                            .n_forced = 2,
                            .prompt_scores = scores,
                            .n_prompt_scores = 5,
                            .shared_tokens = 4};
}

static void test_token(void **state)
{
  const struct lls_wire w = wire_of(AHEAD);
  struct lls_sampled scores[5] = {[4] = {.token = 9, .rank = 3}};
  const struct lls_event e = token_event(scores);
  struct lls_live *home = make_request(LLS_POOLING_NONE);
  struct lls_pack p = {0};
  struct lls_event got;
  uint64_t id = 0;
  bool lost = true;
  (void)state;
  lls_wire_pack_event(&w, &e, &p);
  lls_wire_pack_event(&w, &e, &p);
  struct lls_unpack u = {.data = p.data, .n = p.n};
  lls_wire_skip_event(&u);
  assert_true(lls_wire_next_event(&u, &id, &lost));
  assert_true(id == 77 && !lost);
  lls_wire_unpack_event(&w, &u, home, &got);
  assert_false(lls_wire_next_event(&u, &id, &lost));
  assert_int_equal(got.shared_tokens, 4);
  assert_memory_equal(&got.token.top_token[0], &e.token.top_token[0], sizeof(int32_t));
  assert_int_equal(home->view.generated_tokens, 3);
  assert_int_equal(home->tokens[5], 30);
  assert_true(home->sampling.more.mirostat_mu == 5);
  assert_memory_equal(home->tokens + 6, e.forced, 2 * sizeof(int32_t));
  assert_ptr_equal(got.forced, home->tokens + 6);
  assert_int_equal(got.n_prompt_scores, 5);
  assert_int_equal(home->scores[4].rank, 3);
  lls_live_free(home);
  free(p.data);
}

static void test_end(void **state)
{
  const struct lls_wire sender = wire_of(AHEAD), receiver = wire_of(0);
  static const float pooled[COLUMNS] = {1, 2, 3};
  struct lls_life life = {.n = 1, .changes = {{.at_ns = 10}}};
  struct lls_live *home = make_request(LLS_POOLING_LAST);
  const struct lls_event e = {.kind = LLS_EVENT_FINISHED,
                              .reason = LLS_FINISH_LENGTH,
                              .request = 77,
                              .prompt_tokens = 5,
                              .preemptions = 2,
                              .arrival_ns = 20,
                              .first_scheduled_ns = LLS_NEVER,
                              .first_token_ns = LLS_NEVER,
                              .finished_ns = 30,
                              .prediction = {.made_ns = 25},
                              .pooled = pooled,
                              .life = &life};
  struct lls_pack p = {0};
  struct lls_event got;
  (void)state;
  lls_wire_pack_event(&sender, &e, &p);
  for (size_t n = sizeof(uint64_t) * 3; n <= p.n; n++) {
    char *data = first_bytes(&p, n);
    struct lls_unpack u = {.data = data, .n = n};
    uint64_t id = 0;
    bool lost = false;
    if (lls_wire_next_event(&u, &id, &lost))
      lls_wire_unpack_event(&receiver, &u, home, &got);
    else
      assert_true(n < p.n);
    free(data);
  }
  assert_int_equal(got.reason, LLS_FINISH_LENGTH);
  assert_int_equal(got.preemptions, 2);
  assert_int_equal(got.finished_ns, 30 + AHEAD);
  assert_true(got.first_token_ns == LLS_NEVER);
  assert_int_equal(got.prediction.made_ns, 25 + AHEAD);
  assert_memory_equal(got.pooled, pooled, sizeof pooled);
  assert_int_equal(got.life->changes[0].at_ns, 10 + AHEAD);
  assert_int_equal(life.changes[0].at_ns, 10); /* the sender's own is unchanged */
  assert_ptr_equal(got.live, home);
  lls_live_free(home);
  free(p.data);
}

/* A request of a session, in process 0's form: with a part on each instance. */
static struct lls_pack pack_of_session(struct lls_live_session *parts, const char *name)
{
  const struct lls_wire w = wire_of(0);
  struct lls_live *live = make_request(LLS_POOLING_NONE);
  struct lls_pack p = {0};
  lls_session_part_init(&parts[0], 12, 4, name);
  live->sessions = parts;
  lls_wire_pack_request(&w, live, &p);
  assert_false(p.failed);
  lls_live_free(live);
  return p;
}

/* Unpacks a request in a process with the guests; NULL: in process 0. */
static struct lls_live *unpack(const struct lls_pack *p, struct lls_guests *guests)
{
  struct lls_wire w = wire_of(0);
  struct lls_unpack u = {.data = p->data, .n = p->n};
  struct lls_error err = {0};
  w.guests = guests;
  struct lls_live *live = lls_wire_new_request(&w, &u, &err);
  assert_non_null(live);
  return live;
}

static void test_a_session_travels_with_its_requests(void **state)
{
  struct lls_live_session parts[2] = {0};
  struct lls_pack p = pack_of_session(parts, "agent");
  struct lls_guests *guests;
  struct lls_inbox inbox;
  (void)state;
  assert_int_equal(lls_inbox_init(&inbox, 4), 0);
  assert_int_equal(lls_guests_create(&inbox, &guests), 0);
  struct lls_live *first = unpack(&p, guests), *second = unpack(&p, guests);
  struct lls_live *home = unpack(&p, NULL);
  assert_null(home->sessions);
  assert_non_null(first->sessions);
  assert_ptr_equal(first->sessions, second->sessions); /* one part for both */
  assert_null(first->session); /* until the instance takes the request */
  const struct lls_session *v = &first->sessions->view;
  assert_int_equal(v->size, sizeof *v);
  assert_int_equal(v->id, 12);
  assert_int_equal(v->tenant, first->view.tenant);
  assert_string_equal(v->name, "agent");
  assert_int_equal(v->ended_ns, LLS_NEVER);
  lls_live_free(first);
  lls_live_free(second);
  lls_live_free(home);
  lls_inbox_free(&inbox);
  lls_guests_free(guests);
  free(p.data);
}

/* Names are cut at a limit; a message that says that its name is longer is refused. */
static void test_a_long_name_of_a_session(void **state)
{
  struct lls_live_session parts[2] = {0};
  char name[LLS_GUEST_NAME_BYTES + 9] = "";
  struct lls_guests *guests;
  struct lls_inbox inbox;
  (void)state;
  memset(name, 'n', sizeof name - 1);
  struct lls_pack p = pack_of_session(parts, name);
  assert_int_equal(lls_inbox_init(&inbox, 4), 0);
  assert_int_equal(lls_guests_create(&inbox, &guests), 0);
  struct lls_live *live = unpack(&p, guests);
  assert_int_equal(strlen(live->sessions->view.name), LLS_GUEST_NAME_BYTES);
  lls_live_free(live);
  const uint64_t said[] = {12, LLS_GUEST_NAME_BYTES};
  size_t at = 0;
  while (at + sizeof said <= p.n && memcmp(p.data + at, said, sizeof said) != 0)
    at++;
  assert_true(at + sizeof said <= p.n);
  const uint64_t longer = LLS_GUEST_NAME_BYTES + 1;
  memcpy(p.data + at + sizeof longer, &longer, sizeof longer);
  lls_pack_put(&p, name, 8); /* so that it is not too short */
  const struct lls_wire w = wire_of(0);
  struct lls_unpack u = {.data = p.data, .n = p.n};
  struct lls_error err = {0};
  assert_null(lls_wire_new_request(&w, &u, &err));
  lls_inbox_free(&inbox);
  lls_guests_free(guests);
  free(p.data);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_request),
      cmocka_unit_test(test_request_cut_off),
      cmocka_unit_test(test_adapter_is_found_by_path_and_digest),
      cmocka_unit_test(test_token),
      cmocka_unit_test(test_end),
      cmocka_unit_test(test_a_session_travels_with_its_requests),
      cmocka_unit_test(test_a_long_name_of_a_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
