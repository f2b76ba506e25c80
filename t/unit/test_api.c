/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings against a simple definition, parameters, and Prometheus' text format. */
#include "t/tap.h"

#include "core/api/api_internal.h"
#include "core/api/api_params.h"
#include "core/base/json_memory.h"
#include "core/base/stop_strings.h"
#include "core/obs/metrics.h"

#include <stdlib.h>
#include <string.h>

/* ---- stop strings --------------------------------------------------------------- */

/* The part of a text shown so far, in pieces, by the front end's rule. */
static size_t shown_by_pieces(const struct lls_stop_set *set, const char *text,
                              size_t piece, size_t *most_held)
{
  size_t ready = 0, at, which = 0, all = strlen(text);
  *most_held = 0;
  for (size_t length = piece; length < all + piece; length += piece) {
    length = length < all ? length : all;
    if (lls_stop_find(set, text + ready, length - ready, &at, &which))
      return ready + at;
    size_t held = lls_stop_hold(set, text + ready, length - ready);
    *most_held = held > *most_held ? held : *most_held;
    ready = length - held;
    if (length == all)
      break;
  }
  return all;
}

/* The same by definition: the text up to the earliest end of a stop string. */
static size_t shown_at_once(const struct lls_stop_set *set, const char *text)
{
  for (size_t end = 1; end <= strlen(text); end++) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < set->count; i++) {
      size_t n = set->strings[i].length;
      if (n <= end && memcmp(text + end - n, set->strings[i].text, n) == 0)
        best = end - n < best ? end - n : best;
    }
    if (best != SIZE_MAX)
      return best;
  }
  return strlen(text);
}

static uint32_t next_random(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 16;
}

/* Texts over two letters, so that prefixes of stop strings are everywhere. */
static void test_stop_strings_by_pieces_and_at_once_agree(void **state)
{
  (void)state;
  uint32_t random = 1;
  for (int round = 0; round < 20000; round++) {
    char texts[3][8], text[24];
    struct lls_stop_string strings[3];
    struct lls_stop_set set = {strings, 1 + next_random(&random) % 3};
    size_t longest = 0, held;
    for (size_t i = 0; i < set.count; i++) {
      size_t n = 1 + next_random(&random) % 6;
      for (size_t k = 0; k < n; k++)
        texts[i][k] = (char)('a' + next_random(&random) % 2);
      strings[i] = (struct lls_stop_string){texts[i], n};
      longest = n > longest ? n : longest;
    }
    for (size_t k = 0; k < sizeof text - 1; k++)
      text[k] = (char)('a' + next_random(&random) % 2);
    text[sizeof text - 1] = '\0';
    for (size_t piece = 1; piece < sizeof text; piece += 3) {
      assert_int_equal(shown_by_pieces(&set, text, piece, &held),
                       shown_at_once(&set, text));
      assert_true(held < longest);
    }
  }
}

static void test_the_one_that_ends_first_is_named(void **state)
{
  (void)state;
  char text_a[] = "bc", text_b[] = "abcd", text_c[] = "abc";
  struct lls_stop_string strings[] = {{text_a, 2}, {text_b, 4}, {text_c, 3}};
  const struct lls_stop_set set = {strings, 3};
  size_t at, which;
  assert_true(lls_stop_find(&set, "xxabcdx", 7, &at, &which));
  assert_int_equal(at, 2);
  assert_int_equal(which, 2);
  assert_false(lls_stop_find(&set, "xxa", 3, &at, &which));
  assert_false(lls_stop_find(&set, "", 0, &at, &which));
}

/* ---- parameters ----------------------------------------------------------------- */

static const struct lls_sampling defaults = {
    .temperature = 0.5f, .top_p = 0.25f, .repetition_penalty = 1};

static int read_params(const char *json, enum lls_endpoint endpoint,
                       struct lls_api_params *out, struct lls_api_error *error)
{
  const struct lls_api_limits limits = {.any_model = LLS_ANY_MODEL_FALSE};
  const struct lls_params_context context = {.endpoint = endpoint,
                                             .model_name = "m",
                                             .vocab = 100,
                                             .defaults = &defaults,
                                             .limits = &limits};
  json_t *body = json_loads(json, 0, NULL);
  assert_non_null(body);
  int status = lls_api_params_read(body, &context, out, error);
  json_decref(body);
  return status;
}

static void test_defaults(void **state)
{
  (void)state;
  struct lls_api_params params;
  struct lls_api_error error;
  assert_int_equal(read_params("{}", LLS_COMPLETIONS, &params, &error), 0);
  assert_int_equal(lls_api_params_answer(&params, 100), 16);
  assert_int_equal(lls_api_params_answer(&params, 10), 10);
  assert_int_equal(params.n, 1);
  assert_false(params.has_seed);
  assert_int_equal(params.slo.ttft_ns, LLS_NEVER);
  struct lls_sampling sampling = lls_api_params_sampling(&params);
  assert_true(sampling.temperature == 0.5f && sampling.top_p == 0.25f);
  assert_false(sampling.want_logprob);
  assert_int_equal(sampling.n_banned, 0);
  assert_int_equal(read_params("{}", LLS_CHAT, &params, &error), 0);
  assert_int_equal(lls_api_params_answer(&params, 100), 100);
  assert_int_equal(read_params("{\"seed\":-1}", LLS_CHAT, &params, &error), 0);
  assert_false(params.has_seed); /* vLLM, too, takes this as any seed */
}

static void test_values_reach_their_members(void **state)
{
  (void)state;
  struct lls_api_params params;
  struct lls_api_error error;
  const char *json =
      "{\"model\":\"m\",\"temperature\":0,\"top_k\":7,\"seed\":-2,\"stop\":[\"x\",\"yz\"]"
      ","
      "\"stop_token_ids\":[3,99],\"logit_bias\":{\"5\":-1.5},\"class\":\"best_effort\","
      "\"priority\":-4,\"slo\":{\"ttft_ms\":1.5,\"completion_ms\":2000},\"logprobs\":2,"
      "\"min_tokens\":3.0,\"max_tokens\":9,\"frequency_penalty\":-0.5}";
  assert_int_equal(read_params(json, LLS_COMPLETIONS, &params, &error), 0);
  struct lls_sampling sampling = lls_api_params_sampling(&params);
  assert_true(sampling.temperature == 0 && sampling.frequency_penalty == -0.5f);
  assert_int_equal(sampling.top_k, 7);
  assert_true(sampling.want_logprob);
  assert_int_equal(sampling.n_logprobs, 2);
  assert_int_equal(sampling.n_bias, 1);
  assert_int_equal(sampling.bias[0].token, 5);
  assert_true(params.has_seed && params.seed == UINT64_MAX - 1);
  assert_int_equal(params.stop.count, 2);
  assert_int_equal(params.stop.strings[1].length, 2);
  assert_int_equal(params.n_stop_tokens, 2);
  assert_int_equal(params.stop_tokens[1], 99);
  assert_int_equal(params.request_class, LLS_CLASS_BEST_EFFORT);
  assert_int_equal(params.priority, -4);
  assert_int_equal(params.slo.ttft_ns, 1500000);
  assert_int_equal(params.slo.completion_ns, 2 * LLS_NS_PER_S);
  assert_int_equal(params.slo.tbt_ns, LLS_NEVER);
  assert_int_equal(params.min_tokens, 3);
  lls_api_params_free(&params);
}

static void test_a_long_value_is_quoted_in_part(void **state)
{
  (void)state;
  struct lls_api_params params;
  struct lls_api_error error;
  char json[4096] = "{\"temperature\":\"";
  memset(json + strlen(json), 'x', 4000);
  strcpy(json + 4000, "\"}");
  assert_int_equal(read_params(json, LLS_CHAT, &params, &error), -1);
  assert_string_equal(error.param, "temperature");
  assert_int_equal(error.status, 400);
  assert_non_null(strstr(error.message.text, "xxx..."));
  assert_true(strlen(error.message.text) < 120);
}

/* ---- bodies ---------------------------------------------------------------------- */

static size_t most_bytes = SIZE_MAX; /* largest allowed allocation */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes); /* the linker redirects this program's malloc to it */

void *__wrap_malloc(size_t bytes)
{
  return bytes <= most_bytes ? __real_malloc(bytes) : NULL;
}

/* The JSON library reports a failed allocation as a syntax error. */
static void test_no_memory_for_a_body_is_no_fault_of_the_client(void **state)
{
  (void)state;
  enum { ITEMS = 20000 };
  static char text[2 * ITEMS + 32];
  struct lls_text request = {.data = text};
  struct lls_api_error error;
  strcpy(text, "{\"prompt\":[1");
  for (int i = 0; i < ITEMS; i++)
    strcat(text + 2 * i, ",1");
  strcat(text, "]}");
  request.length = strlen(text);
  lls_json_memory_watch();
  for (most_bytes = 32; most_bytes < ITEMS * sizeof(void *); most_bytes *= 4) {
    assert_null(lls_api_body(&request, &error));
    assert_int_equal(error.status, 503);
    assert_non_null(strstr(error.message.text, "out of memory"));
  }
  most_bytes = SIZE_MAX;
  json_t *body = lls_api_body(&request, &error);
  text[20] = ']';
  assert_null(lls_api_body(&request, &error));
  json_set_alloc_funcs(malloc, free);
  assert_non_null(body);
  assert_int_equal(error.status, 400);
  json_decref(body);
}

/* ---- metrics -------------------------------------------------------------------- */

static void test_histogram(void **state)
{
  (void)state;
  static const double bounds[] = {0.1, 1};
  struct lls_histogram histogram;
  struct lls_text labels = {0}, out = {0};
  lls_histogram_init(&histogram, bounds, 2);
  const double values[] = {0.05, 0.1, 0.5, 1, 3};
  for (size_t i = 0; i < 5; i++)
    lls_histogram_observe(&histogram, values[i]);
  assert_int_equal(lls_histogram_count(&histogram), 5);
  lls_metrics_label(&labels, "model", "a\"b\\c\nd");
  lls_metrics_head(&out, "x", "histogram", "Some.");
  lls_metrics_histogram(&out, "x", labels.data, &histogram);
  lls_metrics_histogram(&out, "y", "", &histogram);
  assert_string_equal(out.data, "# HELP x Some.\n# TYPE x histogram\n"
                                "x_bucket{model=\"a\\\"b\\\\c\\nd\",le=\"0.1\"} 2\n"
                                "x_bucket{model=\"a\\\"b\\\\c\\nd\",le=\"1\"} 4\n"
                                "x_bucket{model=\"a\\\"b\\\\c\\nd\",le=\"+Inf\"} 5\n"
                                "x_sum{model=\"a\\\"b\\\\c\\nd\"} 4.65\n"
                                "x_count{model=\"a\\\"b\\\\c\\nd\"} 5\n"
                                "y_bucket{le=\"0.1\"} 2\n"
                                "y_bucket{le=\"1\"} 4\n"
                                "y_bucket{le=\"+Inf\"} 5\n"
                                "y_sum 4.65\ny_count 5\n");
  lls_text_free(&labels);
  lls_text_free(&out);
}

static void test_counters_keep_all_their_digits(void **state)
{
  (void)state;
  struct lls_text out = {0};
  lls_metrics_sample(&out, "a", "", 1234567890123.0);
  lls_metrics_sample(&out, "b", "l=\"1\"", 0.5);
  assert_string_equal(out.data, "a 1234567890123\nb{l=\"1\"} 0.5\n");
  lls_text_free(&out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stop_strings_by_pieces_and_at_once_agree),
      cmocka_unit_test(test_the_one_that_ends_first_is_named),
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_values_reach_their_members),
      cmocka_unit_test(test_a_long_value_is_quoted_in_part),
      cmocka_unit_test(test_no_memory_for_a_body_is_no_fault_of_the_client),
      cmocka_unit_test(test_histogram),
      cmocka_unit_test(test_counters_keep_all_their_digits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
