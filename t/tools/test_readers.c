/* SPDX-License-Identifier: Apache-2.0 */
/* Every format of traces, and the error for each kind of bad file: its place and its
 * cause. */
#include "t/tools/workload.h"

#include "t/folder.h"

static void assert_row(const struct lls_workload *w, uint32_t i, int64_t arrival_ns,
                       uint32_t prompt, uint32_t output)
{
  assert_true(i < w->n_items);
  assert_int_equal(w->items[i].arrival_ns, arrival_ns);
  assert_int_equal(w->items[i].prompt_tokens, prompt);
  assert_int_equal(w->items[i].output_tokens, output);
}

static void test_tables(void **state)
{
  (void)state;
  struct lls_workload w = from_file("azure.csv", "");
  assert_int_equal(w.n_items, 3);
  assert_row(&w, 0, 0, 374, 44);
  assert_row(&w, 1, 500000100, 396, 109); /* over midnight of a leap day */
  assert_row(&w, 2, 1750000000, 879, 55);
  assert_int_equal(w.last_arrival_ns, 1750000000);
  assert_string_equal(w.items[2].label, "r2");
  lls_workload_free(&w);

  w = from_file("burstgpt.csv", "");
  assert_int_equal(w.n_items, 2); /* a failed request is left out */
  assert_row(&w, 1, INT64_C(118500000000), 417, 276);
  lls_workload_free(&w);

  w = from_file("servegen.csv", "");
  assert_row(&w, 0, 19000000, 29, 1);
  assert_int_equal(w.n_tenants, 2);
  assert_int_equal(w.items[0].tenant, 1);
  assert_int_equal(w.items[1].tenant, 2);
  assert_int_equal(w.items[2].tenant, 1);
  lls_workload_free(&w);

  w = from_file("distserve.csv", "");
  assert_row(&w, 1, 919973000, 829, 170);
  lls_workload_free(&w);

  w = from_file("lengths.csv", "");
  assert_row(&w, 2, 0, 1402, 711);
  assert_int_equal(w.items[2].max_new_tokens, 1024);
  lls_workload_free(&w);
}

static void test_our_own(void **state)
{
  (void)state;
  struct lls_workload w = from_file("own.csv", "");
  const struct lls_item *first = &w.items[0], *second = &w.items[1], *third = &w.items[2];
  assert_row(&w, 0, 5, 100, 10);
  assert_int_equal(first->max_new_tokens, 64);
  assert_int_equal(second->max_new_tokens, 32);
  assert_int_equal(first->request_class, LLS_CLASS_REALTIME);
  assert_int_equal(second->request_class, LLS_CLASS_BEST_EFFORT);
  assert_int_equal(third->request_class, LLS_CLASS_NONE);
  assert_int_equal(first->priority, -1);
  assert_int_equal(w.n_tenants, 2);
  assert_int_equal(third->tenant, 1);
  assert_string_equal(first->label, "first");
  assert_string_equal(third->label, "r2");
  assert_int_equal(first->slo.ttft_ns, 400000001);
  assert_int_equal(first->slo.tbt_ns, 200000000);
  assert_int_equal(first->slo.tpot_ns, LLS_NEVER);
  assert_int_equal(second->slo.completion_ns, INT64_C(60000000000));
  int32_t a[100], b[120];
  assert_int_equal(lls_item_fill(&w, first, 10, 1000, a), 0);
  assert_int_equal(lls_item_fill(&w, third, 10, 1000, b), 0);
  assert_memory_equal(a, b, 32 * sizeof *a);
  assert_memory_not_equal(a + 32, b + 32, 32 * sizeof *a);
  lls_workload_free(&w);
}

static void test_lines_of_json(void **state)
{
  (void)state;
  struct lls_workload w = from_file("mooncake.jsonl", "--jitter 0");
  int32_t a[1100], b[1030];
  assert_row(&w, 2, INT64_C(3000000000), 600, 7);
  lls_item_fill(&w, &w.items[0], 0, 32000, a);
  lls_item_fill(&w, &w.items[1], 0, 32000, b);
  assert_memory_equal(a, b, 1024 * sizeof *a);
  assert_memory_not_equal(a + 1024, b + 1024, 6 * sizeof *a);
  lls_workload_free(&w);

  w = from_file("mooncake.jsonl", "");
  assert_true(w.items[0].arrival_ns > 0 && w.items[1].arrival_ns < 3 * LLS_NS_PER_S);
  assert_true(w.items[0].arrival_ns != w.items[1].arrival_ns);
  assert_true(w.items[2].arrival_ns >= 3 * LLS_NS_PER_S);
  lls_workload_free(&w);

  w = from_file("llmservingsim.jsonl", "");
  assert_row(&w, 0, 46926808, 3, 531);
  assert_int_equal(lls_item_fill(&w, &w.items[1], 0, 100, a), 0);
  assert_int_equal(a[0], 20);
  assert_int_equal(a[1], 21);
  assert_true(lls_item_fill(&w, &w.items[1], 0, 21, a) < 0);
  lls_workload_free(&w);

  w = from_file("measured.jsonl", "");
  assert_row(&w, 0, 0, 2358, 531);
  assert_row(&w, 1, 500000000, 1034, 769);
  lls_workload_free(&w);
}

static void test_chats(void **state)
{
  (void)state;
  char more[LINE_MAX_LEN];
  snprintf(more, sizeof more, "--tokenizer %s", source_path("share/demo-model"));
  struct lls_workload w = from_file("sharegpt.json", more);
  assert_int_equal(w.n_items, 2);
  assert_string_equal(w.items[0].text, "Tell me a short story about a dog.");
  assert_true(w.items[0].prompt_tokens > 5 && w.items[0].prompt_tokens < 20);
  assert_true(w.items[0].output_tokens > 8 && w.items[0].output_tokens < 30);
  int32_t ids[20];
  assert_int_equal(lls_item_fill(&w, &w.items[0], 0, 2048, ids), 0);
  assert_int_equal(ids[0], w.items[0].ids[0]);
  lls_workload_free(&w);

  w = from_file("alpaca.json", more);
  assert_string_equal(w.items[0].text, "Add the numbers.\n\n2 and 3");
  assert_string_equal(w.items[1].text, "Say hello.");
  lls_workload_free(&w);

  w = from_file("lmbench.json", more);
  assert_string_equal(w.items[1].text,
                      "Where is the cat? It is on the roof. And the dog?");
  assert_int_equal(w.items[1].output_tokens, 7);
  assert_int_equal(w.items[0].ids[5], w.items[1].ids[5]); /* one conversation */
  lls_workload_free(&w);

  w = from_file("spec_bench.jsonl", more);
  assert_int_equal(w.n_items, 2);
  assert_string_equal(w.items[0].text, "Write a line about rain.");
  lls_workload_free(&w);
}

/* Every format of llmserve-trace(5) can be named, with the same result as when it is
 * detected. */
static void test_formats_by_name(void **state)
{
  (void)state;
  static const char *const files[] = {
      "azure.csv",   "burstgpt.csv",        "servegen.csv",  "distserve.csv",
      "lengths.csv", "mooncake.jsonl",      "sharegpt.json", "lmbench.json",
      "alpaca.json", "llmservingsim.jsonl", "own.csv",       "spec_bench.jsonl",
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char more[LINE_MAX_LEN];
    bool own = strcmp(files[i], "own.csv") == 0;
    int length = own ? 3 : (int)strcspn(files[i], ".");
    snprintf(more, sizeof more, "--min-len 1 --tokenizer %s",
             source_path("share/demo-model"));
    struct lls_workload seen = from_file(files[i], more);
    snprintf(more + strlen(more), sizeof more - strlen(more), " --dataset-name %.*s",
             length, own ? "csv" : files[i]);
    struct lls_workload told = from_file(files[i], more);
    assert_int_equal(told.n_items, seen.n_items);
    lls_workload_free(&seen);
    lls_workload_free(&told);
  }
}

/* ---- bad files --------------------------------------------------------------------- */

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define OWN   "arrival_s,prompt_tokens,output_tokens\n"

static void test_bad_tables_say_where(void **state)
{
  const struct folder *f = *state;
  refuse(f, "a.csv", "", "a.csv:0: the file is empty");
  refuse(f, "a.csv", "a,b,c\n1,2,3\n", "a.csv:1: the columns are of no format");
  refuse(f, "a.csv", AZURE "2023-11-16 18:15:46,12,x\n",
         ":2: GeneratedTokens: expected a number from 1 to 16777216, found 'x'");
  refuse(f, "a.csv", AZURE "\n2023-11-16 18:15:46,12\n", ":3: expected 3 fields");
  refuse(f, "a.csv", AZURE "yesterday,12,3\n", ":2: TIMESTAMP: expected a time like");
  refuse(f, "a.csv", AZURE "2023-11-16 18:15:46,1,3\n2023-11-16 18:15:45,1,3\n",
         ":3: TIMESTAMP: is before");
  refuse(f, "a.csv", AZURE "2023-11-16 18:15:46,0,3\n", ":2: ContextTokens: expected");
  refuse(f, "a.csv", OWN "1,5,1e9\n", ":2: output_tokens: expected");
  refuse(f, "a.csv", OWN "-1,5,5\n", ":2: arrival_s: expected");
  refuse(f, "a.csv", OWN "nan,5,5\n", ":2: arrival_s: expected");
  refuse(f, "a.csv", "prompt_tokens,output_tokens,colour\n1,2,3\n",
         ":1: unknown column 'colour'");
  refuse(f, "a.csv", "prompt_tokens,output_tokens,arrival_s,arrival_ns\n1,2,3,4\n",
         ":1: columns 'arrival_s' and 'arrival_ns' say the same");
  refuse(f, "a.csv", "prompt_tokens,output_tokens,class\n1,2,urgent\n",
         ":2: class: expected realtime, best_effort or nothing, found 'urgent'");
  refuse(f, "a.csv", "prompt_tokens,output_tokens,prefix,prefix_tokens\n1,2,3,4\n",
         ":2: prefix_tokens 4 are more than");
  refuse(f, "a.csv", OWN, "has no requests");
  refuse(f, "b.csv", "prompt_tokens,output_tokens\n1,\n", ":2: output_tokens: expected");
}

static void test_a_zero_byte_is_no_text(void **state)
{
  const struct folder *f = *state;
  struct lls_workload w;
  struct lls_error err;
  char line[256];
  folder_write(f, "z.csv", OWN "1,2\0,3\n", sizeof OWN - 1 + 7);
  snprintf(line, sizeof line, "--trace %s/z.csv", f->path);
  assert_true(build(line, &w, &err) < 0);
  assert_non_null(strstr(err.text, "z.csv:2: a zero byte"));
}

#define MOONCAKE "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 5}\n"

static void test_bad_lines_say_where(void **state)
{
  const struct folder *f = *state;
  refuse(f, "a.jsonl", MOONCAKE "{\"timestamp\": 0, ", ":2: expected a JSON object");
  refuse(f, "a.jsonl", MOONCAKE "[1]\n", ":2: expected a JSON object");
  refuse(f, "a.jsonl", MOONCAKE "\n{\"timestamp\": 0, \"input_length\": 3}\n",
         ":3: \"output_length\": expected a number, found nothing");
  refuse(f, "a.jsonl", "{\"input_length\": -3}\n", ":1: \"timestamp\"");
  refuse(
      f, "a.jsonl",
      "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 5, \"hash_ids\": 7}\n",
      ":1: \"hash_ids\": expected a list");
  refuse(f, "a.jsonl", "{\"colour\": 1}\n", ":1: expected the keys of mooncake");
  refuse(f, "a.jsonl",
         "{\"input_toks\": 2, \"output_toks\": 5, \"arrival_time_ns\": 7, "
         "\"input_tok_ids\": [1]}\n",
         ":1: \"input_tok_ids\": expected a list of 2");
  refuse(f, "a.jsonl", "{\"prompt\": \"hello\"}\n", "a.jsonl:1: texts need a tokeniser");
}

static void test_bad_chats_say_where(void **state)
{
  const struct folder *f = *state;
  refuse(f, "a.json", "[{\"conversations\": []},\n {\"convers\n", "a.json:");
  refuse(f, "a.json", "[{\"instruction\": \"x\"}]", "entry 0: expected texts in");
  refuse(f, "a.json", "[{\"conversations\": []}, {\"conversations\": 3}]",
         "entry 1: expected \"conversations\"");
  refuse(f, "a.json", "[{\"instruction\": \"x\", \"output\": \"y\"}]",
         "entry 0: texts need a tokeniser");
  refuse(f, "a.json", "[{\"input\": \"x\", \"output_length\": 0}]",
         "entry 0: expected a text in \"input\"");
  refuse(f, "a.json", "[{\"input\": \"x\", \"output_length\": 4294967294}]",
         "entry 0: expected a text in \"input\" and a number from 1 to 16777216");
  refuse(f, "a.jsonl",
         "{\"timestamp\": 1e13, \"input_length\": 1, \"output_length\": 1}\n",
         ":1: \"timestamp\": expected 0 to 34560000000, found 1");
  refuse(f, "a.jsonl",
         "{\"arrival_time\": 1, \"input_toks\": 1, \"output_toks\": 1}\n"
         "{\"arrival_time\": 9999999999, \"input_toks\": 1, \"output_toks\": 1}\n",
         ":2: \"arrival_time\": is more than 400 days after");
  refuse(f, "a.csv",
         "TIMESTAMP,ContextTokens,GeneratedTokens\n1970-01-01 00:00:00,1,1\n"
         "2260-01-01 00:00:00,1,1\n",
         ":3: TIMESTAMP: is more than 400 days after");
  refuse(f, "a.jsonl", "{\"turns\": []}\n", ":1: \"turns\": expected a text");
  refuse(f, "a.json", "[]", "has no requests");
}

static void test_a_missing_file_is_named(void **state)
{
  (void)state;
  struct lls_workload w;
  struct lls_error err;
  assert_true(build("--trace /nowhere/trace.csv", &w, &err) < 0);
  assert_non_null(strstr(err.text, "/nowhere/trace.csv: cannot be read"));
  assert_true(build("--dataset-name azure", &w, &err) < 0);
  assert_non_null(strstr(err.text, "expected --dataset-path FILE"));
  assert_true(build("--dataset-name purple", &w, &err) < 0);
  assert_non_null(strstr(err.text, "found 'purple'"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tables),
      cmocka_unit_test(test_our_own),
      cmocka_unit_test(test_lines_of_json),
      cmocka_unit_test(test_chats),
      cmocka_unit_test(test_formats_by_name),
      IN_FOLDER(test_bad_tables_say_where),
      IN_FOLDER(test_a_zero_byte_is_no_text),
      IN_FOLDER(test_bad_lines_say_where),
      IN_FOLDER(test_bad_chats_say_where),
      cmocka_unit_test(test_a_missing_file_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
