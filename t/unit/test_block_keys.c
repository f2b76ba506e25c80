/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of cached blocks. SipHash is compared with `openssl mac -macopt
 * hexkey:000102030405060708090a0b0c0d0e0f -macopt size:16 -in FILE SIPHASH`, whose
 * first three outputs are those that SipHash's authors publish.
 */
#include "core/instance/block_keys.h"
#include "t/folder.h"

#include <errno.h>

#include <sys/stat.h>

static const struct lls_key_secret secret = {
    {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};

static void test_siphash(void **state)
{
  static const struct {
    size_t bytes; /* 0, 1, 2, ... */
    const char *hash;
  } known[] = {
      {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
      {2, "8177228da4a45dc7fca38bdef60affe4"},  {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},
      {8, "3b62a9ba6258f5610f83e264f31497b4"},  {15, "5493e99933b0a8117e08ec0f97cfc3d9"},
      {16, "6ee2a4ca67b054bbfd3315bf85230577"}, {63, "5150d1772f50834a503e069a973fbd7c"},
  };
  (void)state;
  unsigned char bytes[64];
  for (unsigned char i = 0; i < sizeof bytes; i++)
    bytes[i] = i;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct lls_key key = lls_siphash(&secret, bytes, known[i].bytes);
    char text[33];
    for (size_t k = 0; k < sizeof key; k++)
      snprintf(text + 2 * k, 3, "%02x", ((unsigned char *)&key)[k]);
    assert_string_equal(text, known[i].hash);
  }
}

/* A key is the hash of the key before it and of its tokens, of even and odd numbers. */
static void test_next(void **state)
{
  struct {
    struct lls_key before;
    int32_t tokens[17];
  } data = {.before = {{5, UINT64_MAX}}};
  (void)state;
  for (int32_t i = 0; i < 17; i++)
    data.tokens[i] = 1000 * i - 3;
  for (uint32_t n = 1; n <= 17; n++) {
    struct lls_key key = lls_key_next(&secret, &data.before, data.tokens, n);
    struct lls_key same =
        lls_siphash(&secret, &data, sizeof data.before + n * sizeof *data.tokens);
    assert_true(lls_key_equal(&key, &same));
  }
}

static struct lls_keys begin(struct lls_key *room, uint64_t salt)
{
  return (struct lls_keys){
      .secret = secret, .root = {{salt, 0}}, .all = room, .block_tokens = 4};
}

/* A block gets its key once it is full, in whatever pieces its tokens come. */
static void test_extend(void **state)
{
  int32_t tokens[22];
  struct lls_key at_once[5], by_one[5], salted[5];
  (void)state;
  for (int32_t i = 0; i < 22; i++)
    tokens[i] = i % 8; /* blocks repeat, but their keys do not */
  struct lls_keys a = begin(at_once, 0), b = begin(by_one, 0), c = begin(salted, 1);
  lls_keys_extend(&a, tokens, 22);
  assert_int_equal(a.n, 5);
  for (uint32_t length = 0; length <= 22; length++) {
    lls_keys_extend(&b, tokens, length);
    assert_int_equal(b.n, length / 4);
  }
  assert_memory_equal(at_once, by_one, sizeof at_once);
  lls_keys_extend(&c, tokens, 22);
  for (uint32_t i = 0; i < 5; i++)
    for (uint32_t k = 0; k < 5; k++) {
      assert_false(lls_key_equal(&at_once[i], &salted[k]));
      assert_true(i == k || !lls_key_equal(&at_once[i], &at_once[k]));
    }
  struct lls_keys none = begin(NULL, 0);
  lls_keys_extend(&none, tokens, 22);
  assert_int_equal(none.n, 0);
}

static void test_secret(void **state)
{
  const struct folder *f = *state;
  struct lls_key_secret a, b, other;
  struct lls_error err;
  struct stat st;
  char path[256];
  snprintf(path, sizeof path, "%s/prompts-secret", f->path);
  assert_int_equal(lls_key_secret_find(f->path, &a, &err), 0);
  assert_int_equal(lls_key_secret_find(f->path, &b, &err), 0);
  assert_memory_equal(&a, &b, sizeof a); /* a later start has other keys */
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0600);
  assert_int_equal(lls_key_secret_find("", &other, &err), 0);
  assert_memory_not_equal(&a, &other, sizeof a);
  folder_write_text(f, "prompts-secret", "short");
  assert_int_equal(lls_key_secret_find(f->path, &b, &err), -EINVAL);
  assert_non_null(strstr(
      err.text, "prompts-secret: the secret of the cache's keys: not one: remove"));
  assert_true(lls_key_secret_find("/nowhere", &b, &err) < 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_siphash), cmocka_unit_test(test_next),
      cmocka_unit_test(test_extend), IN_FOLDER(test_secret)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
