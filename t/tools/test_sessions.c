/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a workload: the formats that have them, the tokens that a turn keeps, and
 * when it is sent. */
#include "t/tools/workload.h"

#include "t/folder.h"
#include "tools/workload/issue.h"

static const struct lls_item *find(const struct lls_workload *w, const char *session,
                                   uint32_t turn)
{
  for (uint32_t i = 0; i < w->n_items; i++)
    if (w->items[i].session != NULL && strcmp(w->items[i].session, session) == 0 &&
        w->items[i].turn == turn)
      return &w->items[i];
  fail_msg("no turn %u of session %s", turn, session);
  return NULL;
}

static void assert_turn(const struct lls_workload *w, const char *session, uint32_t turn,
                        uint32_t prompt, uint32_t kept, uint32_t output)
{
  const struct lls_item *item = find(w, session, turn);
  assert_int_equal(item->prompt_tokens, prompt);
  assert_int_equal(item->kept_tokens, kept);
  assert_int_equal(item->output_tokens, output);
  assert_int_equal(lls_item_follows(item), turn > 0);
  if (turn > 0) {
    assert_ptr_equal(&w->items[item->previous], find(w, session, turn - 1));
    assert_ptr_equal(&w->items[w->items[item->previous].next], item);
  } else {
    assert_int_equal(item->previous, LLS_NO_ITEM);
  }
}

/* ---- formats ----------------------------------------------------------------------- */

static void test_tracelab(void **state)
{
  (void)state;
  struct lls_workload w = from_file("tracelab.csv", "");
  assert_int_equal(w.n_items, 3);
  assert_int_equal(w.n_sessions, 2);
  assert_turn(&w, "0", 0, 3000, 0, 40);
  assert_turn(&w, "0", 1, 3240, 3040, 30);
  assert_turn(&w, "1", 0, 1000, 0, 25);
  assert_int_equal(find(&w, "0", 0)->arrival_ns, 250000000);
  assert_int_equal(find(&w, "0", 0)->wait_ns, 1500500000);
  assert_int_equal(w.last_arrival_ns, 900000000);
  lls_workload_free(&w);
}

static void test_rounds(void **state)
{
  (void)state;
  struct lls_workload w = from_file("rounds.jsonl", "--request-rate 2");
  assert_turn(&w, "s1", 0, 3000, 0, 40);
  assert_turn(&w, "s1", 1, 3240, 3040, 30);
  assert_turn(&w, "s2", 0, 1, 0, 9);
  assert_int_equal(find(&w, "s1", 0)->wait_ns, 1520 * INT64_C(1000000));
  assert_string_equal(find(&w, "s1", 0)->tool, "Bash");
  assert_null(find(&w, "s2", 0)->tool);
  assert_int_equal(w.last_arrival_ns, LLS_NS_PER_S); /* two sessions, two a second */
  lls_workload_free(&w);
}

static void test_mooncake_with_sessions(void **state)
{
  (void)state;
  struct lls_workload w = from_file("sessions.jsonl", "--jitter 0");
  assert_int_equal(w.n_items, 5);
  assert_turn(&w, "a", 0, 600, 0, 50);
  assert_turn(&w, "a", 1, 750, 650, 20); /* input_length is what it adds */
  assert_turn(&w, "b", 1, 1500, 0, 10);  /* the hashes say what it keeps */
  assert_int_equal(find(&w, "a", 0)->wait_ns, 300000000);
  assert_int_equal(find(&w, "b", 0)->wait_ns, 0);
  assert_int_equal(w.items[2].session_number, 0);
  lls_workload_free(&w);
}

#define OWN "session,arrival_s,prompt_tokens,output_tokens,wait_ms,tool,kept_tokens\n"

static struct lls_workload own(const struct folder *f, const char *rows, const char *more)
{
  char line[512], text[1024];
  snprintf(text, sizeof text, OWN "%s", rows);
  folder_write_text(f, "own.csv", text);
  snprintf(line, sizeof line, "--trace %s/own.csv %s", f->path, more);
  return built(line);
}

static void test_our_own(void **state)
{
  const struct folder *f = *state;
  struct lls_workload w = own(f,
                              "a,0,100,10,500,search,\n"
                              "a,,200,10,0,,\n" /* keeps all 110 */
                              "a,,90,5,,,40\n"  /* the context was cut */
                              ",1,50,5,,,\n"
                              "b,2,10,5,,,\n"
                              "b,9,20,5,,,\n", /* has a time of its own */
                              "");
  assert_turn(&w, "a", 0, 100, 0, 10);
  assert_turn(&w, "a", 1, 200, 110, 10);
  assert_turn(&w, "a", 2, 90, 40, 5);
  assert_string_equal(find(&w, "a", 0)->tool, "search");
  const struct lls_item *late = find(&w, "b", 1);
  assert_int_equal(late->arrival_ns, 9 * LLS_NS_PER_S);
  assert_int_equal(late->kept_tokens, 15);
  assert_int_equal(find(&w, "b", 0)->next, LLS_NO_ITEM); /* nothing waits for its end */
  lls_workload_free(&w);
}

static void test_a_written_session_reads_back(void **state)
{
  const struct folder *f = *state;
  struct lls_error err = {0};
  char path[128], line[256];
  struct lls_workload w = built("--dataset-name agents --num-prompts 5 --request-rate 1 "
                                "--tenants 2 --agents-prefix-len 0");
  snprintf(path, sizeof path, "%s/agents.csv", f->path);
  assert_int_equal(lls_workload_write(&w, path, &err), 0);
  snprintf(line, sizeof line, "--trace %s", path);
  struct lls_workload back = built(line);
  assert_int_equal(back.n_items, w.n_items);
  for (uint32_t i = 0; i < w.n_items; i++) {
    const struct lls_item *a = &w.items[i], *b = &back.items[i];
    assert_string_equal(a->session, b->session);
    assert_int_equal(a->prompt_tokens, b->prompt_tokens);
    assert_int_equal(a->kept_tokens, b->kept_tokens);
    assert_int_equal(a->arrival_ns, b->arrival_ns);
    assert_int_equal(a->wait_ns, b->wait_ns);
    assert_int_equal(a->tenant, b->tenant);
    assert_int_equal(a->next, b->next);
  }
  lls_workload_free(&back);
  lls_workload_free(&w);
}

/* ---- bad files --------------------------------------------------------------------- */

#define ROUND(members)                                                                   \
  "{\"newly_append_tokens\": 1, \"round_index\": 0, \"prefix_tokens\": 0, "              \
  "\"output_tokens\": 1" members "}\n"

static void test_bad_sessions_are_named(void **state)
{
  const struct folder *f = *state;
  refuse(f, "a.csv", OWN "a,0,10,1,,,\na,,20,1,,,\n",
         "turn 2 of session 'a' has no time, and the turn before it no wait");
  refuse(f, "a.csv", OWN "a,,10,1,5,,\n", "the first turn of session 'a' has no time");
  refuse(f, "a.csv", OWN ",,10,1,,,\n", "a request without a session has no time");
  refuse(f, "a.csv", OWN "a,0,10,1,-5,,\n", ":2: wait_ms: expected");
  refuse(f, "a.csv", OWN "a,0,10,1,,,11\n",
         ":2: kept_tokens 11 are more than prompt_tokens 10");
  refuse(f, "a.csv", OWN "a,0,10,1,5,b\tc,\n", ":2: the name of a tool may have");
  refuse(f, "a.csv", "arrival_s,prompt_tokens,output_tokens\n,10,1\n",
         ":2: arrival_s: expected");
  refuse(f, "a.jsonl", ROUND(""), ":1: \"session_id\": expected the name of a session");
  refuse(f, "a.jsonl", ROUND(", \"session_id\": 3"), ":1: \"session_id\": expected");
  refuse(f, "a.jsonl", ROUND(", \"session_id\": \"s\", \"tools\": [{}]"),
         ":1: \"tools\": expected objects with a tool_name");
  refuse(f, "a.jsonl", ROUND(", \"session_id\": \"a,b\""),
         ":1: the name of a session may have printable ASCII");
  refuse(f, "a.jsonl",
         "{\"session_id\": \"a\", \"delay\": -1, \"input_length\": 1, "
         "\"output_length\": 1}\n",
         ":1: \"delay\": expected 0 to");
  refuse(f, "a.jsonl",
         "{\"session_id\": \"a\", \"delay\": 1, \"input_length\": 1, "
         "\"output_length\": 1}\n",
         "the first turn of session 'a' has no time");
}

static void test_bad_options_are_named(void **state)
{
  (void)state;
  const char *const bad[][2] = {
      {"--agents-tools bash", "--agents-tools: expected at most 32 of NAME:WEIGHT"},
      {"--agents-tools bash:0:1", "--agents-tools"},
      {"--agents-tools bash:1:1:1", "--agents-tools"},
      {"--agents-turns many", "--agents-turns: 'many'"},
      {"--input-len 7", "the turns of sessions keep their own lengths"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct lls_workload w;
    struct lls_error err;
    char line[128];
    snprintf(line, sizeof line, "--dataset-name agents %s", bad[i][0]);
    if (build(line, &w, &err) == 0)
      fail_msg("taken: %s", bad[i][0]);
    if (strstr(err.text, bad[i][1]) == NULL)
      fail_msg("%s: '%s'", bad[i][0], err.text);
  }
}

/* ---- tokens, selection and times --------------------------------------------------- */

static void test_a_turn_begins_with_the_turn_before(void **state)
{
  const struct folder *f = *state;
  struct lls_workload w = own(f,
                              "a,0,100,10,0,,\n"
                              "a,,200,10,0,,\n"
                              "a,,230,5,0,,\n" /* keeps all 210 */
                              "a,,60,5,,,40\n"
                              "b,0,100,10,,,\n",
                              "");
  int32_t ids[5][256];
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(lls_item_fill(&w, find(&w, "a", i), 100, 30000, ids[i]), 0);
  assert_int_equal(lls_item_fill(&w, find(&w, "b", 0), 100, 30000, ids[4]), 0);
  assert_memory_equal(ids[0], ids[1], 100 * sizeof(int32_t));
  assert_memory_equal(ids[1], ids[2], 200 * sizeof(int32_t));
  assert_memory_equal(ids[2], ids[3], 40 * sizeof(int32_t));
  assert_memory_not_equal(&ids[2][40], &ids[3][40], 20 * sizeof(int32_t));
  assert_memory_not_equal(ids[0], ids[4], 16 * sizeof(int32_t));
  lls_workload_free(&w);
}

/* --num-prompts and --request-rate count sessions; a length limit cuts a session. */
static void test_selection_is_of_sessions(void **state)
{
  const struct folder *f = *state;
  const char *rows = "a,0,100,10,0,,\na,,200,10,0,,\na,,300,10,,,\n"
                     "b,1,100,10,0,,\nb,,400,10,,,\n";
  struct lls_workload w = own(f, rows, "--num-prompts 1");
  assert_int_equal(w.n_items, 3);
  lls_workload_free(&w);
  w = own(f, rows, "--max-input-len 250 --realtime-share 1");
  assert_int_equal(w.n_items, 3); /* a's third and b's second are too long */
  assert_int_equal(find(&w, "a", 1)->request_class, LLS_CLASS_REALTIME);
  lls_workload_free(&w);
  w = own(f, rows, "--time-scale 3");
  assert_int_equal(find(&w, "b", 0)->arrival_ns, 3 * LLS_NS_PER_S);
  assert_int_equal(find(&w, "b", 1)->arrival_ns, LLS_NEVER);
  lls_workload_free(&w);
  /* a turn with a time is sent without the turn before it, and keeps nothing then */
  w = own(f, "a,0,400,10,,,\na,1,50,10,,,\n", "--max-input-len 250");
  assert_int_equal(w.n_items, 1);
  assert_int_equal(find(&w, "a", 1)->kept_tokens, 0);
  lls_workload_free(&w);
  /* nothing would send a turn that follows one that was left out */
  w = own(f, "a,0,90,10,0,,\na,,200,10,,,\na,1,400,10,0,,\na,,90,10,,,\n",
          "--max-input-len 250");
  assert_int_equal(w.n_items, 2);
  assert_int_equal(find(&w, "a", 1)->kept_tokens, 100);
  lls_workload_free(&w);
}

static void test_a_turn_waits_for_the_turn_before(void **state)
{
  const struct folder *f = *state;
  struct lls_workload w = own(f,
                              "a,0,100,10,50,,\na,,200,10,,,\n"
                              "b,0,100,10,20,,\nb,,200,10,,,\n",
                              "");
  struct lls_issuer *issuer;
  int64_t wake, ms = 1000000;
  const struct lls_item *a = find(&w, "a", 0), *b = find(&w, "b", 0);
  assert_int_equal(lls_issuer_create(&w, 0, &issuer), 0);
  assert_ptr_equal(lls_issuer_next(issuer, 0, &wake), a);
  assert_ptr_equal(lls_issuer_next(issuer, 0, &wake), b);
  assert_null(lls_issuer_next(issuer, 0, &wake));
  assert_int_equal(wake, LLS_NEVER);
  lls_issuer_ended(issuer, a, 10 * ms); /* due at 60 */
  lls_issuer_ended(issuer, b, 30 * ms); /* due at 50, before a's */
  assert_false(lls_issuer_done(issuer));
  assert_null(lls_issuer_next(issuer, 40 * ms, &wake));
  assert_int_equal(wake, 50 * ms);
  assert_ptr_equal(lls_issuer_next(issuer, 70 * ms, &wake), find(&w, "b", 1));
  assert_int_equal(lls_issuer_due_ns(issuer), 50 * ms);
  assert_ptr_equal(lls_issuer_next(issuer, 70 * ms, &wake), find(&w, "a", 1));
  lls_issuer_ended(issuer, find(&w, "a", 1), 80 * ms);
  lls_issuer_ended(issuer, find(&w, "b", 1), 80 * ms);
  assert_true(lls_issuer_done(issuer));
  assert_int_equal(lls_issuer_total(issuer), 4);
  lls_issuer_destroy(issuer);
  lls_workload_free(&w);
}

/* Turns with times of their own may all be followed: then one session has several turns
 * that wait. */
static void test_turns_of_one_session_wait_together(void **state)
{
  const struct folder *f = *state;
  char rows[512] = "";
  struct lls_issuer *issuer;
  int64_t wake;
  uint32_t sent = 0;
  for (int i = 0; i < 16; i++)
    snprintf(rows + strlen(rows), sizeof rows - strlen(rows),
             "a,%d,100,1,500,,\na,,200,1,,,\n", i);
  struct lls_workload w = own(f, rows, "");
  assert_int_equal(lls_issuer_create(&w, 0, &issuer), 0);
  for (uint32_t i = 0; i < 16; i++)
    assert_non_null(lls_issuer_next(issuer, 100 * LLS_NS_PER_S, &wake));
  for (uint32_t i = 0; i < 16; i++)
    lls_issuer_ended(issuer, &w.items[i], 100 * LLS_NS_PER_S);
  while (lls_issuer_next(issuer, 200 * LLS_NS_PER_S, &wake) != NULL)
    sent++;
  assert_int_equal(sent, 16);
  lls_issuer_destroy(issuer);
  lls_workload_free(&w);
}

static void test_agents_are_made(void **state)
{
  (void)state;
  struct lls_workload w =
      built("--dataset-name agents --num-prompts 300 --request-rate 1 --agents-turns "
            "uniform:2..4 --agents-tools read:3:1,:1:30 --agents-prefix-len 64");
  uint32_t tools = 0, waits = 0;
  for (uint32_t i = 0; i < w.n_items; i++) {
    const struct lls_item *item = &w.items[i];
    assert_int_equal(item->next == LLS_NO_ITEM, item->wait_ns == LLS_NEVER);
    waits += item->next != LLS_NO_ITEM;
    tools += item->tool != NULL;
    if (item->previous != LLS_NO_ITEM) {
      const struct lls_item *before = &w.items[item->previous];
      assert_int_equal(item->kept_tokens, before->prompt_tokens + before->output_tokens);
      assert_true(item->prompt_tokens > item->kept_tokens);
    }
  }
  assert_int_equal(w.n_sessions, 300);
  assert_int_equal(w.n_items - waits, 300);
  assert_true(waits > 500 && waits < 700);
  assert_true(tools > waits * 2 / 3 && tools < waits * 5 / 6);
  lls_workload_free(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tracelab),
      cmocka_unit_test(test_rounds),
      cmocka_unit_test(test_mooncake_with_sessions),
      IN_FOLDER(test_our_own),
      IN_FOLDER(test_a_written_session_reads_back),
      IN_FOLDER(test_bad_sessions_are_named),
      cmocka_unit_test(test_bad_options_are_named),
      IN_FOLDER(test_a_turn_begins_with_the_turn_before),
      IN_FOLDER(test_selection_is_of_sessions),
      IN_FOLDER(test_a_turn_waits_for_the_turn_before),
      IN_FOLDER(test_turns_of_one_session_wait_together),
      cmocka_unit_test(test_agents_are_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
