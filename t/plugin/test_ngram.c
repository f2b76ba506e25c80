/* SPDX-License-Identifier: Apache-2.0 */
/* The drafter ngram: what it guesses of given texts, its odds, its memory, and texts that
 * sessions left. */
#include "t/tap.h"

#include "t/dice.h"
#include "t/policy.h"

#include <stdarg.h>
#include <string.h>

#define SLOTS      8
#define MAX_DRAFTS 8
#define MOST       4096 /* tokens of a text */

struct scene {
  struct lls_engine_caps engine;
  struct lls_host host;
  struct harness_loaded plugin;
  const struct lls_drafter_vtable *d;
  void *self;
  char failure[256];
  double bytes, sessions; /* of the last stats */
};

struct asked { /* a request, and what was guessed of it last */
  struct lls_request r;
  struct lls_session session;
  int32_t tokens[MOST];
  int32_t guesses[MAX_DRAFTS];
  float odds[MAX_DRAFTS];
  int n;
};

__attribute__((format(printf, 3, 4))) static int fail_with(void *context, int code,
                                                           const char *format, ...)
{
  struct scene *s = context;
  va_list args;
  va_start(args, format);
  vsnprintf(s->failure, sizeof s->failure, format, args);
  va_end(args);
  return code;
}

static void begin(struct scene *s, const char *const *parameters)
{
  struct lls_error err = {0};
  const struct harness_policy ngram = {"ngram", parameters};
  *s = (struct scene){.engine = {.size = sizeof s->engine,
                                 .max_requests = SLOTS,
                                 .max_drafts = MAX_DRAFTS}};
  s->host = (struct lls_host){.api_version = LLS_API_VERSION,
                              .size = sizeof s->host,
                              .context = s,
                              .fail = fail_with,
                              .engine = &s->engine};
  if (policy_load(LLS_KIND_DRAFTER, &ngram, &s->plugin, &err) < 0)
    fail_msg("%s", err.text);
  s->d = &s->plugin.module->drafter;
  assert_int_equal(s->d->create(&s->host, s->plugin.params, &s->self), 0);
}

static void end(struct scene *s)
{
  s->d->destroy(s->self);
  policy_unload(&s->plugin);
}

/* Makes a request whose prompt is one token for each letter of `text`. */
static void arrive(struct scene *s, struct asked *a, uint32_t slot, uint64_t session,
                   const char *text)
{
  memset(a, 0, sizeof *a);
  a->session = (struct lls_session){.size = sizeof a->session, .id = session};
  a->r.id = slot + 1;
  a->r.slot = slot;
  a->r.tokens = a->tokens;
  a->r.session = session != 0 ? &a->session : NULL;
  for (; *text != '\0'; text++)
    a->tokens[a->r.prompt_tokens++] = *text;
  s->d->on_arrival(s->self, &a->r);
}

static void answer(struct asked *a, const char *text)
{
  for (; *text != '\0'; text++)
    a->tokens[a->r.prompt_tokens + a->r.generated_tokens++] = *text;
}

/* Asks for at most n guesses. Returns them as letters. */
static const char *guess(struct scene *s, struct asked *a, uint32_t n)
{
  static char letters[MAX_DRAFTS + 1];
  struct lls_draft out = {
      .size = sizeof out, .max = n, .tokens = a->guesses, .odds = a->odds};
  for (uint32_t i = 0; i < MAX_DRAFTS; i++)
    a->odds[i] = 0.5f;
  a->n = s->d->draft(s->self, &a->r, &out);
  assert_in_range(a->n, 0, n);
  for (int i = 0; i < a->n; i++)
    letters[i] = (char)a->guesses[i];
  letters[a->n] = '\0';
  return letters;
}

static const char *guess_of(struct scene *s, const char *prompt, uint32_t n)
{
  static struct asked a;
  arrive(s, &a, 0, 0, prompt);
  const char *letters = guess(s, &a, n);
  s->d->on_finish(s->self, &a.r, LLS_FINISH_STOP);
  return letters;
}

static void on_number(void *context, const char *name, double value)
{
  struct scene *s = context;
  if (strcmp(name, "bytes") == 0)
    s->bytes = value;
  if (strcmp(name, "sessions") == 0)
    s->sessions = value;
}

static void on_text(void *context, const char *line)
{
  (void)context, (void)line;
}

static void look(struct scene *s)
{
  const struct lls_sink sink = {.context = s, .number = on_number, .text = on_text};
  s->d->stats(s->self, &sink);
}

static void test_what_followed_before_is_guessed(void **state)
{
  (void)state;
  struct scene s;
  begin(&s, NULL);
  assert_string_equal(guess_of(&s, "", 8), "");
  assert_string_equal(guess_of(&s, "abcdefgh", 8), "");
  assert_string_equal(guess_of(&s, "abcdefgh.ab", 4), "cdef");
  assert_string_equal(guess_of(&s, "abcdefgh.b", 8), ""); /* one token is no match */
  /* the longest match, though the shorter one is newer; of two equal ones the newer */
  assert_string_equal(guess_of(&s, "xyz1--yz2..xyz", 1), "1");
  assert_string_equal(guess_of(&s, "xyz1--xyz2..xyz", 1), "2");
  /* behind the text's end it goes on as it repeated itself */
  assert_string_equal(guess_of(&s, "..ababab", 8), "abababab");
  assert_string_equal(guess_of(&s, "aaaa", 8), "aaaaaaaa");
  end(&s);
}

static void test_longer_matches_can_be_required(void **state)
{
  (void)state;
  struct scene s;
  begin(&s, POLICY_PARAMETERS("min_match", "3"));
  assert_string_equal(guess_of(&s, "abcdefgh.ab", 4), "");
  assert_string_equal(guess_of(&s, "abcdefgh.abc", 4), "defg");
  end(&s);
}

/* Against all matches, on random texts of few letters. */
static void test_the_match_is_the_longest(void **state)
{
  (void)state;
  struct scene s;
  static struct asked a;
  struct dice d = {7};
  begin(&s, NULL);
  for (int text = 0; text < TAP_LOTS(60); text++) {
    arrive(&s, &a, 1, 0, "");
    uint32_t letters = dice(&d, 1, 5);
    for (uint32_t n = 1; n < 200; n++) {
      a.tokens[a.r.prompt_tokens++] = (int32_t)dice(&d, 1, letters);
      guess(&s, &a, 1);
      uint32_t longest = 1;
      bool right = false;
      for (uint32_t at = 1; at < n; at++) {
        uint32_t same = 0;
        while (same < at && a.tokens[at - 1 - same] == a.tokens[n - 1 - same])
          same++;
        if (same > longest)
          right = false;
        if (same >= longest && same > 1) {
          longest = same;
          right |= a.n > 0 && a.guesses[0] == a.tokens[at];
        }
      }
      assert_int_equal(a.n, longest > 1);
      assert_true(longest == 1 || right);
    }
    s.d->on_finish(s.self, &a.r, LLS_FINISH_STOP);
  }
  end(&s);
}

static void test_odds_are_learnt(void **state)
{
  (void)state;
  struct scene s;
  static struct asked a;
  begin(&s, NULL);
  arrive(&s, &a, 0, 0, "abcdefghijklmnopqrstuvwxyz.abcd");
  assert_string_equal(guess(&s, &a, 3), "efg");
  float before = a.odds[0];
  assert_true(a.odds[0] < a.odds[1] && a.odds[1] < a.odds[2]); /* ever longer matches */
  answer(&a, "efg"); /* all right, whether or not a step verified them */
  guess(&s, &a, 3);
  answer(&a, "hij");
  s.d->on_finish(s.self, &a.r, LLS_FINISH_STOP);
  arrive(&s, &a, 0, 0, "abcdefghijklmnopqrstuvwxyz.abcd");
  guess(&s, &a, 3);
  float after = a.odds[0];
  assert_true(after > before);
  for (char i = 0; i < 20; i++) { /* now they are always wrong */
    const char other[] = {(char)('A' + i), 'a', 'b', 'c', 'd', '\0'};
    answer(&a, other);
    guess(&s, &a, 1);
  }
  assert_true(a.odds[0] < after / 2);
  end(&s);
}

static void test_what_was_learnt_outlives_a_reload(void **state)
{
  (void)state;
  struct scene s;
  static struct asked a;
  struct lls_blob blob;
  void *next;
  begin(&s, NULL);
  arrive(&s, &a, 0, 0, "abcdefghijklmnop.abcd");
  guess(&s, &a, 3);
  answer(&a, "efg");
  guess(&s, &a, 3);
  float odds = a.odds[0];
  assert_int_equal(s.d->export_state(s.self, &blob), 0);
  assert_int_equal(s.d->create(&s.host, s.plugin.params, &next), 0);
  blob.version = 2;
  assert_int_equal(s.d->import_state(next, &blob), -ENOTSUP);
  blob.version = 1;
  blob.bytes--;
  assert_int_equal(s.d->import_state(next, &blob), -EINVAL);
  blob.bytes++;
  assert_int_equal(s.d->import_state(next, &blob), 0);
  s.d->destroy(s.self);
  s.self = next;
  assert_string_equal(guess(&s, &a, 3), ""); /* it was not told of the request yet */
  s.d->on_arrival(s.self, &a.r);
  assert_string_equal(guess(&s, &a, 3), "hij");
  assert_true(a.odds[0] > 0.8f * odds);
  ((float *)blob.data)[0] = -1;
  assert_int_equal(s.d->import_state(s.self, &blob), -EINVAL);
  free(blob.data);
  end(&s);
}

static void test_what_the_client_expects_is_guessed(void **state)
{
  (void)state;
  struct scene s;
  static struct asked a;
  static const int32_t expected[] = {'w', 'o', 'r', 'l', 'd', '!', 'e', 'n', 'd'};
  begin(&s, NULL);
  arrive(&s, &a, 0, 0, "say hello");
  a.r.expected = expected;
  a.r.n_expected = 9;
  answer(&a, "w"); /* one token is enough at the answer's beginning */
  assert_string_equal(guess(&s, &a, 3), "orl");
  answer(&a, "or");
  assert_string_equal(guess(&s, &a, 8), "ld!end");
  answer(&a, "k.."); /* it is no longer the same */
  assert_string_equal(guess(&s, &a, 3), "");
  answer(&a, "d!"); /* but comes back to it */
  assert_string_equal(guess(&s, &a, 3), "end");
  s.d->on_finish(s.self, &a.r, LLS_FINISH_STOP);
  end(&s);
}

static void test_long_prompts_are_read_in_parts(void **state)
{
  (void)state;
  struct scene s;
  static struct asked a;
  begin(&s, POLICY_PARAMETERS("pace", "10"));
  arrive(&s, &a, 0, 0, "abcdefghijklmnopqrstuvwxyz.abc");
  assert_string_equal(guess(&s, &a, 2), "");
  answer(&a, "d");
  assert_string_equal(guess(&s, &a, 2), "");
  answer(&a, "e");
  assert_string_equal(guess(&s, &a, 2), "");
  answer(&a, "f");
  assert_string_equal(guess(&s, &a, 2), "gh");
  end(&s);
}

static void test_memory_has_a_bound(void **state)
{
  (void)state;
  struct scene s;
  static struct asked a[3];
  struct dice d = {3};
  static const int32_t last[] = {50001, 50002, 50003, 50004, 50001, 50002};
  begin(&s, POLICY_PARAMETERS("memory", "200000", "pace", "10000"));
  for (uint32_t i = 0; i < 3; i++) {
    arrive(&s, &a[i], i, i + 1, "");
    for (uint32_t n = 0; n < MOST; n++)
      a[i].tokens[a[i].r.prompt_tokens++] = (int32_t)dice(&d, 1, 30000);
    memcpy(a[i].tokens + MOST - 6, last, sizeof last);
    guess(&s, &a[i], 2);
    look(&s);
    assert_true(s.bytes > 0 && s.bytes <= 200000);
  }
  /* the first text began again with its newest tokens, and knows these */
  assert_int_equal(a[0].n, 2);
  assert_int_equal(a[0].guesses[0], 50003);
  for (uint32_t i = 0; i < 3; i++)
    s.d->on_finish(s.self, &a[i].r, LLS_FINISH_STOP);
  end(&s);
}

static void test_a_session_goes_on(void **state)
{
  (void)state;
  struct scene s;
  static struct asked a, other;
  begin(&s, NULL);
  arrive(&s, &a, 0, 77, "the quick brown fox");
  assert_string_equal(guess(&s, &a, 2), "");
  answer(&a, " jumps over");
  guess(&s, &a, 2);
  s.d->on_finish(s.self, &a.r, LLS_FINISH_STOP);
  look(&s);
  assert_int_equal(s.sessions, 1);
  double bytes = s.bytes;
  arrive(&s, &other, 1, 78, "a quic"); /* another session knows nothing of it */
  assert_string_equal(guess(&s, &other, 2), "");
  arrive(&s, &a, 0, 77, "now a qui"); /* the same session does */
  assert_string_equal(guess(&s, &a, 4), "ck b");
  look(&s);
  assert_int_equal(s.sessions, 0);
  s.d->on_finish(s.self, &a.r, LLS_FINISH_CANCELLED); /* not kept */
  s.d->on_finish(s.self, &other.r, LLS_FINISH_STOP);
  look(&s);
  assert_int_equal(s.sessions, 1);
  assert_true(s.bytes <= bytes);
  end(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_followed_before_is_guessed),
      cmocka_unit_test(test_longer_matches_can_be_required),
      cmocka_unit_test(test_the_match_is_the_longest),
      cmocka_unit_test(test_odds_are_learnt),
      cmocka_unit_test(test_what_was_learnt_outlives_a_reload),
      cmocka_unit_test(test_what_the_client_expects_is_guessed),
      cmocka_unit_test(test_long_prompts_are_read_in_parts),
      cmocka_unit_test(test_memory_has_a_bound),
      cmocka_unit_test(test_a_session_goes_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
