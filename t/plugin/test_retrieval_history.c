/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of predictor `retrieval` alone: averages computed by hand, nearest
 * neighbours against all entries, ageing, and the database when its server is killed or
 * is one of several.
 */
#include "plugins/predictors/retrieval/history.h"
#include "plugins/predictors/retrieval/index.h"
#include "plugins/predictors/retrieval/regressor.h"
#include "plugins/predictors/retrieval/words.h"
#include "t/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define DIMS 24

/* ---- a host ------------------------------------------------------------------------ */

static char failure[512], logged[512];

__attribute__((format(printf, 3, 4))) static int say_why(void *context, int code,
                                                         const char *format, ...)
{
  va_list args;
  (void)context;
  va_start(args, format);
  vsnprintf(failure, sizeof failure, format, args);
  va_end(args);
  return code;
}

__attribute__((format(printf, 3, 4))) static void log_line(void *context, uint32_t level,
                                                           const char *format, ...)
{
  va_list args;
  (void)context, (void)level;
  va_start(args, format);
  vsnprintf(logged, sizeof logged, format, args);
  va_end(args);
}

static const struct lls_host host = {
    .size = sizeof host, .fail = say_why, .log = log_line};

/* ---- averages ---------------------------------------------------------------------- */

/* Lengths 100, 140, 600, 300 with these cosines to the query. */
static void test_averages(void **state)
{
  (void)state;
  const struct neighbour near[] = {
      {.9988f, 100}, {.9982f, 140}, {.829f, 300}, {.0499f, 600}};
  struct lls_prediction p = {0};
  assert_true(estimate_from_neighbours(near, 2, .9, 1000, &p));
  assert_int_equal(p.length, 120); /* 119.99 */
  assert_true(estimate_from_neighbours(near, 4, .7, 1000, &p));
  assert_int_equal(p.length, 173); /* (99.88 + 139.75 + 248.7) / 2.826 = 172.8 */
  assert_true(p.low < 173 && p.high > 173 && p.low >= 1);
  assert_false(estimate_from_neighbours(near, 4, .9999, 1000, &p));
  assert_false(estimate_from_neighbours(near, 0, -1, 1000, &p));
  assert_true(estimate_from_neighbours(near, 2, .9, 50, &p));
  assert_int_equal(p.length, 50); /* max_new_tokens */
}

static void test_confidence(void **state)
{
  (void)state;
  const struct neighbour alike[] = {{.9f, 50}, {.9f, 50}},
                         apart[] = {{.9f, 10}, {.9f, 90}};
  const struct neighbour negative[] = {{-.5f, 10}};
  struct lls_prediction a, b;
  assert_true(estimate_from_neighbours(alike, 2, .8, 1000, &a));
  assert_true(estimate_from_neighbours(apart, 2, .8, 1000, &b));
  assert_int_equal(a.length, 50);
  assert_int_equal(b.length, 50);
  assert_true(fabsf(a.confidence - .9f) < 1e-6f);
  assert_true(fabsf(b.confidence - .5f) < 1e-6f); /* .9 / (1 + 40 / 50) */
  assert_int_equal(a.low, 50);
  assert_int_equal(b.high, 101); /* 50 + 1.2816 x 40 */
  assert_int_equal(b.low, 1);
  assert_false(estimate_from_neighbours(negative, 1, -1, 1000, &a));
}

/* The length model is two neighbours of cosine 1: the cube root of 160 x 160 x 20 is 80.
 */
static void test_both(void **state)
{
  (void)state;
  const struct neighbour one[] = {{1, 20}, {.5f, 900}};
  struct lls_prediction p, alike, apart;
  assert_true(estimate_from_both(one, 2, .8, log(160), 0, 1000, &p));
  assert_int_equal(p.length, 80);
  assert_true(p.low < 80 && p.high > 80);
  assert_true(estimate_from_both(one, 2, .8, log(160), 0, 70, &p));
  assert_int_equal(p.length, 70); /* max_new_tokens */
  assert_true(estimate_from_both(one, 1, .8, log(20), 0, 1000, &alike));
  assert_true(estimate_from_both(one, 1, .8, log(20), 1, 1000, &apart));
  assert_int_equal(alike.length, 20);
  assert_int_equal(alike.high, 20);
  assert_true(apart.high > 20 && apart.low < 20);
  assert_true(alike.confidence > .99f && apart.confidence < alike.confidence);
  assert_false(estimate_from_both(one + 1, 1, .8, log(160), 0, 1000, &p));
}

/* A known prompt is predicted by its own length, which a near prompt's is not. */
static void test_itself(void **state)
{
  (void)state;
  const struct neighbour near[] = {{1, 100}, {.9f, 900}, {.9f, 900}};
  struct lls_prediction p;
  assert_true(estimate_from_itself(near, 3, 1000, &p));
  assert_int_equal(p.length, 100);
  assert_true(estimate_from_itself(near, 3, 70, &p));
  assert_int_equal(p.length, 70);
  assert_false(estimate_from_itself(near + 1, 2, 1000, &p));
  assert_false(estimate_from_itself(near, 0, 1000, &p));
}

static void test_judge(void **state)
{
  (void)state;
  struct judge j;
  judge_init(&j);
  assert_int_equal(j.median, 256);
  judge_answer(&j, 50, 100, 40); /* off by half, another bin */
  judge_answer(&j, 90, 100, 40); /* off by a tenth, the same bin */
  assert_true(fabs(j.error - .3) < 1e-9 && fabs(j.accuracy - .5) < 1e-9);
  for (uint32_t i = 1; i <= 1000; i++)
    judge_length(&j, i);
  assert_int_equal(j.median, 745 + 128); /* of 745..1000 */
}

/* ---- neighbours -------------------------------------------------------------------- */

static uint64_t seed = 1;

static float number(void)
{
  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (float)(int32_t)(seed >> 32) / 2147483648.f;
}

static void random_vector(float *v, uint32_t dims)
{
  double squares = 0;
  for (uint32_t i = 0; i < dims; i++) {
    v[i] = number();
    squares += (double)v[i] * (double)v[i];
  }
  for (uint32_t i = 0; i < dims; i++)
    v[i] = (float)(v[i] / sqrt(squares));
}

static float dot(const float *a, const float *b, uint32_t dims)
{
  double sum = 0;
  for (uint32_t i = 0; i < dims; i++)
    sum += (double)a[i] * (double)b[i];
  return (float)sum;
}

/* Counts the entries nearer than x: its true rank. */
static uint32_t nearer(float (*all)[DIMS], uint32_t n, const float *query, float x)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++)
    count += dot(all[i], query, DIMS) > x + 1e-5f;
  return count;
}

static void test_neighbours_are_the_nearest(void **state)
{
  (void)state;
  enum { N = 3000, QUERIES = 200, K = 5 };
  static float all[N][DIMS];
  struct graph *index = index_create(DIMS, N);
  assert_non_null(index);
  struct found found[K];
  float query[DIMS];
  random_vector(query, DIMS);
  assert_int_equal(index_search(index, query, K, found), 0);
  for (uint32_t i = 0; i < N; i++) {
    random_vector(all[i], DIMS);
    assert_int_equal(index_add(index, all[i]), 0);
  }
  assert_int_equal(index_add(index, query), -ENOSPC);
  uint32_t right = 0;
  for (uint32_t q = 0; q < QUERIES; q++) {
    random_vector(query, DIMS);
    assert_int_equal(index_search(index, query, K, found), K);
    for (uint32_t i = 0; i < K; i++) {
      assert_true(i == 0 || found[i].similarity <= found[i - 1].similarity);
      assert_true(fabsf(found[i].similarity - dot(all[found[i].number], query, DIMS)) <
                  1e-5f);
      right += nearer(all, N, query, found[i].similarity) <= i;
    }
  }
  /* The graph is approximate, and random vectors are its hardest case. */
  assert_true(right > QUERIES * K * 94 / 100);
  index_destroy(index);
}

static void test_words(void **state)
{
  (void)state;
  float a[64], b[64], c[64];
  words_of_text("List five animals.", 18, a, 64);
  words_of_text("list FIVE animals", 17, b, 64);
  words_of_text("tell me a story", 15, c, 64);
  assert_true(dot(a, b, 64) > .9999f);
  assert_true(dot(a, c, 64) < .7f);
  words_of_text("", 0, a, 64);
  assert_true(fabsf(dot(a, a, 64) - 1) < 1e-5f);
  const int32_t tokens[] = {5, 6, 7};
  words_of_tokens(tokens, 3, a, 64);
  assert_true(fabsf(dot(a, a, 64) - 1) < 1e-5f);
}

/* ---- the bound --------------------------------------------------------------------- */

static void one_hot(float *v, uint32_t i)
{
  memset(v, 0, DIMS * sizeof *v);
  v[i % DIMS] = 1;
  v[(i / DIMS + i + 1) % DIMS] += .5f + (float)(i / DIMS) * .01f;
  double norm = sqrt((double)dot(v, v, DIMS));
  for (uint32_t d = 0; d < DIMS; d++)
    v[d] = (float)(v[d] / norm);
}

/* The length stored for the vector of i; 0 if it was forgotten. */
static uint32_t remembered(const struct history *h, uint32_t i)
{
  float v[DIMS];
  struct neighbour near;
  one_hot(v, i);
  return history_near(h, v, 1, &near) == 1 && near.similarity > .99999f ? near.length : 0;
}

static void add(struct history *h, uint32_t i, uint32_t length)
{
  float v[DIMS];
  one_hot(v, i);
  assert_int_equal(history_add(h, v, length), 0);
}

static void test_ageing(void **state)
{
  (void)state;
  struct history *h;
  assert_int_equal(history_create(DIMS, 20, NULL, &h), 0);
  for (uint32_t i = 0; i < 100; i++) {
    add(h, i, i + 1);
    assert_true(history_count(h) <= 20);
    for (uint32_t j = i >= 9 ? i - 9 : 0; j <= i; j++) /* the newest half remains */
      assert_int_equal(remembered(h, j), j + 1);
  }
  assert_int_equal(remembered(h, 70), 0);
  add(h, 99, 25); /* the same prompt again: its entry becomes the root of 100 x 25 */
  assert_int_equal(remembered(h, 99), 50);
  assert_int_equal(history_count(h), 20);
  history_destroy(h);
}

/* ---- the file ---------------------------------------------------------------------- */

static char path[128];

static struct store *open_store(const char *model, uint64_t space)
{
  struct store *s;
  struct store_options o = {.path = path, .model = model, .space = space, .dims = DIMS};
  if (store_open(&o, &host, &s) < 0)
    fail_msg("%s", failure);
  return s;
}

static struct history *open_history(uint32_t bound)
{
  struct history *h;
  assert_int_equal(history_create(DIMS, bound, open_store("m", 1), &h), 0);
  assert_int_equal(history_load(h), 0);
  while (history_load_some(h, 3) > 0)
    ;
  return h;
}

static void test_rebuilt_from_the_file(void **state)
{
  const struct folder *f = *state;
  snprintf(path, sizeof path, "%s/history.db", f->path);
  struct history *h = open_history(20);
  for (uint32_t i = 0; i < 55; i++)
    add(h, i, i + 1);
  add(h, 54, 99);
  uint32_t n = history_count(h);
  history_destroy(h); /* commits */
  h = open_history(20);
  assert_int_equal(history_count(h), n); /* forgotten entries are not in the file */
  assert_int_equal(remembered(h, 54), 74);
  for (uint32_t i = 46; i < 54; i++)
    assert_int_equal(remembered(h, i), i + 1);
  history_destroy(h);

  struct history *other;
  assert_int_equal(history_create(DIMS, 20, open_store("m", 2), &other), 0);
  assert_int_equal(history_load(other), 0);
  assert_int_equal(history_load_some(other, 100), 0);
  assert_int_equal(history_count(other), 0); /* made by another encoder */
  history_destroy(other);
}

static void run_sql(const char *sql)
{
  sqlite3 *db;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

/* The file claims the largest row number; UBSan would report a number after it. */
static void test_the_last_row_there_can_be(void **state)
{
  const struct folder *f = *state;
  snprintf(path, sizeof path, "%s/last.db", f->path);
  struct history *h = open_history(20);
  for (uint32_t i = 0; i < 5; i++)
    add(h, i, i + 1);
  history_destroy(h);
  run_sql("UPDATE answer SET id = 9223372036854775807 WHERE id = 5");
  h = open_history(20);
  assert_int_equal(history_count(h), 5);
  add(h, 5, 6);
  assert_int_equal(remembered(h, 4), 5);
  assert_int_equal(remembered(h, 5), 6);
  history_destroy(h);
}

static void count_row(void *context, int64_t id, uint32_t length, const float *vector)
{
  (void)id;
  assert_true(length >= 1 && vector[0] * vector[0] <= 1);
  ++*(uint32_t *)context;
}

/* Writes until it is killed, and sends a byte into the pipe after each transaction. */
static void write_for_ever(int pipe_end)
{
  struct history *h = open_history(1000000);
  for (uint32_t i = 0;; i++) {
    float v[DIMS];
    seed = (uint64_t)getpid() * 1000003 + i;
    random_vector(v, DIMS);
    if (history_add(h, v, i + 1) < 0)
      _exit(1);
    history_commit(h);
    if (write(pipe_end, "", 1) != 1)
      _exit(2);
  }
}

static bool file_is_whole(void)
{
  sqlite3 *db;
  sqlite3_stmt *check;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &check, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_step(check), SQLITE_ROW);
  bool whole = strcmp((const char *)sqlite3_column_text(check, 0), "ok") == 0;
  sqlite3_finalize(check);
  sqlite3_close(db);
  return whole;
}

static void test_killed_at_any_moment(void **state)
{
  const struct folder *f = *state;
  uint32_t written = 0;
  snprintf(path, sizeof path, "%s/killed.db", f->path);
  for (uint32_t round = 0; round < 12; round++) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
      write_for_ever(ends[1]);
    close(ends[1]);
    for (uint32_t i = 0; i < 5 + round * 7; i++)
      written += read(ends[0], &byte, 1) == 1;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    while (read(ends[0], &byte, 1) == 1)
      written++;
    close(ends[0]);
    uint32_t rows = 0;
    struct store *s = open_store("m", 1);
    assert_int_equal(store_load(s, 0, UINT32_MAX, count_row, &rows), 0);
    store_close(s);
    assert_true(rows >= written); /* one more commit may be done than was reported */
    assert_true(file_is_whole());
    written = rows;
  }
  assert_true(written > 400);
}

#define MANY 40000 /* more rows than SQLite keeps in memory before it writes */

static void write_in_one(int pipe_end)
{
  struct store *s = open_store("m", 1);
  float v[DIMS] = {1};
  int64_t id;
  for (uint32_t i = 0; i < MANY; i++)
    if (store_add(s, i + 1, v, &id) < 0)
      _exit(1);
  if (write(pipe_end, "", 1) == 1)
    pause();
  _exit(2);
}

/* Killed in a transaction that was partly written: none of it remains, and all earlier
 * rows are intact. Without a journal half of it would remain. */
static void test_killed_inside_a_transaction(void **state)
{
  const struct folder *f = *state;
  int ends[2];
  char byte;
  uint32_t rows = 0;
  float v[DIMS] = {1};
  int64_t id;
  snprintf(path, sizeof path, "%s/inside.db", f->path);
  struct store *s = open_store("m", 1);
  for (uint32_t i = 0; i < 100; i++)
    assert_int_equal(store_add(s, i + 1, v, &id), 0);
  store_close(s);
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0)
    write_in_one(ends[1]);
  close(ends[1]);
  assert_int_equal(read(ends[0], &byte, 1), 1);
  close(ends[0]);
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  s = open_store("m", 1);
  assert_int_equal(store_load(s, 0, UINT32_MAX, count_row, &rows), 0);
  store_close(s);
  assert_int_equal(rows, 100);
  assert_true(file_is_whole());
}

static void test_second_server(void **state)
{
  const struct folder *f = *state;
  int ends[2];
  char byte, expected[64];
  snprintf(path, sizeof path, "%s/shared.db", f->path);
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* killed too if this test fails */
    open_store("m", 1);
    if (write(ends[1], "", 1) == 1)
      pause();
    _exit(1);
  }
  assert_int_equal(read(ends[0], &byte, 1), 1);
  struct store *s;
  struct store_options o = {.path = path, .model = "m", .space = 1, .dims = DIMS};
  assert_int_equal(store_open(&o, &host, &s), -EBUSY);
  snprintf(expected, sizeof expected, "in use by another server (process %d)", child);
  assert_non_null(strstr(failure, expected));
  assert_non_null(strstr(failure, path));
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  store_close(open_store("m", 1));
  close(ends[0]);
  close(ends[1]);
}

static void assert_begins_anew(struct store *s, const char *why)
{
  char bad[sizeof path + 8];
  float v[DIMS] = {1};
  int64_t id;
  uint32_t rows = 0;
  assert_non_null(strstr(logged, why));
  assert_non_null(strstr(logged, "it is set aside as"));
  snprintf(bad, sizeof bad, "%s.bad", path);
  assert_int_equal(access(bad, F_OK), 0);
  assert_int_equal(store_add(s, 7, v, &id), 0);
  store_close(s);
  s = open_store("m", 1);
  assert_int_equal(store_load(s, 0, UINT32_MAX, count_row, &rows), 0);
  assert_int_equal(rows, 1);
  store_close(s);
}

static void test_not_a_database(void **state)
{
  const struct folder *f = *state;
  folder_write_text(f, "text.db", "this is a letter to my grandmother, not a database\n");
  snprintf(path, sizeof path, "%s/text.db", f->path);
  assert_begins_anew(open_store("m", 1), "text.db: file is not a database");
}

/* Its head is intact, so the damage shows only when rows are read. */
static void test_a_damaged_database(void **state)
{
  const struct folder *f = *state;
  float v[DIMS] = {1};
  int64_t id;
  uint32_t rows = 0;
  char garbage[4096];
  memset(garbage, 0xa5, sizeof garbage);
  snprintf(path, sizeof path, "%s/damaged.db", f->path);
  struct store *s = open_store("m", 1);
  for (uint32_t i = 0; i < 1000; i++)
    assert_int_equal(store_add(s, i + 1, v, &id), 0);
  store_close(s);
  int fd = open(path, O_WRONLY);
  for (off_t at = 4 * 4096; at < lseek(fd, 0, SEEK_END); at += 4096)
    assert_int_equal(pwrite(fd, garbage, sizeof garbage, at), sizeof garbage);
  close(fd);
  s = open_store("m", 1);
  assert_int_equal(store_load(s, 0, UINT32_MAX, count_row, &rows), 0);
  assert_begins_anew(s, "damaged.db: database disk image is malformed");
}

/* ---- the regressor ----------------------------------------------------------------- */

static void test_regressor(void **state)
{
  const struct folder *f = *state;
  /* hidden: relu(x - y + 1), relu(-x); log length 2 a + 3 b + .5 */
  const float numbers[] = {1, -1, -1, 0, 1, 0, 2, 3, .5f};
  char file[256] = "llmserve-length 1 2 2 0.25\n", at[128];
  size_t head = strlen(file);
  struct regressor *r;
  memcpy(file + head, numbers, sizeof numbers);
  folder_write(f, "length.mlp", file, head + sizeof numbers);
  snprintf(at, sizeof at, "%s/length.mlp", f->path);
  assert_int_equal(regressor_read(at, 2, &host, &r), 0);
  assert_true(fabs(regressor_log_length(r, (float[]){1, 0}) - 4.5) < 1e-6);
  assert_true(fabs(regressor_log_length(r, (float[]){-2, 0}) - 6.5) < 1e-6);
  struct lls_prediction p = {0};
  estimate_from_log(regressor_log_length(r, (float[]){1, 0}), regressor_deviation(r),
                    1000, &p);
  assert_int_equal(p.length, 90); /* e^4.5 */
  assert_int_equal(p.high, 124);  /* e^(4.5 + 1.2816 x .25) */
  regressor_free(r);
  assert_int_equal(regressor_read(at, 3, &host, &r), -EINVAL);
  assert_non_null(strstr(failure, "vectors of 2 numbers, the encoder makes 3"));
  folder_write(f, "length.mlp", file, head + sizeof numbers - 1);
  assert_int_equal(regressor_read(at, 2, &host, &r), -EINVAL);
  folder_write_text(f, "length.mlp", "");
  assert_int_equal(regressor_read(at, 2, &host, &r), -EINVAL);
  assert_int_equal(regressor_read("/nowhere/at/all", 2, &host, &r), -ENOENT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_averages),
      cmocka_unit_test(test_confidence),
      cmocka_unit_test(test_both),
      cmocka_unit_test(test_itself),
      cmocka_unit_test(test_judge),
      cmocka_unit_test(test_neighbours_are_the_nearest),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_ageing),
      cmocka_unit_test(test_rebuilt_from_the_file),
      cmocka_unit_test(test_the_last_row_there_can_be),
      cmocka_unit_test(test_killed_at_any_moment),
      cmocka_unit_test(test_killed_inside_a_transaction),
      cmocka_unit_test(test_second_server),
      cmocka_unit_test(test_not_a_database),
      cmocka_unit_test(test_a_damaged_database),
      cmocka_unit_test(test_regressor),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
