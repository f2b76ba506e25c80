/* SPDX-License-Identifier: Apache-2.0 */
/* See block_keys.h. */
#include "core/instance/block_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/error.h"

/* ---- SipHash-2-4, 128 bits ------------------------------------------------------ */

struct sip {
  uint64_t v[4];
};

static uint64_t rotate(uint64_t x, int by)
{
  return x << by | x >> (64 - by);
}

static void sip_rounds(struct sip *s, int n)
{
  uint64_t *v = s->v;
  for (int i = 0; i < n; i++) {
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
  }
}

static void sip_begin(struct sip *s, const struct lls_key_secret *secret)
{
  static const uint64_t initial[4] = {
      UINT64_C(0x736f6d6570736575), UINT64_C(0x646f72616e646f6d) ^ 0xee,
      UINT64_C(0x6c7967656e657261), UINT64_C(0x7465646279746573)};
  for (int i = 0; i < 4; i++)
    s->v[i] = initial[i] ^ secret->word[i % 2];
}

static void sip_word(struct sip *s, uint64_t word)
{
  s->v[3] ^= word;
  sip_rounds(s, 2);
  s->v[0] ^= word;
}

static uint64_t sip_half(struct sip *s)
{
  sip_rounds(s, 4);
  return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

/* Ends the hash. `rest`: the last bytes, fewer than 8; `bytes`: length of the whole
 * input. */
static struct lls_key sip_end(struct sip *s, uint64_t rest, size_t bytes)
{
  struct lls_key key;
  sip_word(s, rest | (uint64_t)bytes << 56);
  s->v[2] ^= 0xee;
  key.word[0] = sip_half(s);
  s->v[1] ^= 0xdd;
  key.word[1] = sip_half(s);
  return key;
}

struct lls_key lls_siphash(const struct lls_key_secret *secret, const void *data,
                           size_t bytes)
{
  struct sip s;
  uint64_t word = 0;
  size_t at = 0;
  sip_begin(&s, secret);
  for (; at + sizeof word <= bytes; at += sizeof word) {
    memcpy(&word, (const char *)data + at, sizeof word);
    sip_word(&s, word);
  }
  word = 0;
  if (at < bytes)
    memcpy(&word, (const char *)data + at, bytes - at);
  return sip_end(&s, word, bytes);
}

/* ---- keys ----------------------------------------------------------------------- */

struct lls_key lls_key_next(const struct lls_key_secret *secret,
                            const struct lls_key *before, const int32_t *tokens,
                            uint32_t n)
{
  struct sip s;
  uint64_t word = 0;
  sip_begin(&s, secret);
  sip_word(&s, before->word[0]);
  sip_word(&s, before->word[1]);
  for (uint32_t i = 0; i + 1 < n; i += 2) {
    memcpy(&word, tokens + i, sizeof word);
    sip_word(&s, word);
  }
  return sip_end(&s, n % 2 != 0 ? (uint32_t)tokens[n - 1] : 0,
                 sizeof *before + n * sizeof *tokens);
}

void lls_keys_extend(struct lls_keys *k, const int32_t *tokens, uint32_t length)
{
  if (k->all == NULL)
    return;
  for (; (k->n + 1) * k->block_tokens <= length; k->n++)
    k->all[k->n] = lls_key_next(&k->secret, k->n > 0 ? &k->all[k->n - 1] : &k->root,
                                tokens + (size_t)k->n * k->block_tokens, k->block_tokens);
}

/* ---- the secret ----------------------------------------------------------------- */

static int draw(struct lls_key_secret *secret)
{
  return getrandom(secret, sizeof *secret, 0) == sizeof *secret ? 0 : -EIO;
}

static int read_secret(const char *path, struct lls_key_secret *secret)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t n = read(fd, secret, sizeof *secret);
  close(fd);
  return n == sizeof *secret ? 0 : -EINVAL;
}

/* Links a complete file into place, since another process may look for it at the same
 * time. Returns -EEXIST if there is one. */
static int write_secret(const char *path, const struct lls_key_secret *secret)
{
  char new[PATH_MAX];
  if (snprintf(new, sizeof new, "%s.%d", path, (int)getpid()) >= (int)sizeof new)
    return -ENAMETOOLONG;
  int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    return -errno;
  int rc = write(fd, secret, sizeof *secret) == sizeof *secret ? 0 : -EIO;
  if (close(fd) != 0 && rc == 0)
    rc = -errno;
  if (rc == 0 && link(new, path) != 0)
    rc = -errno;
  unlink(new);
  return rc;
}

int lls_key_secret_find(const char *folder, struct lls_key_secret *secret,
                        struct lls_error *err)
{
  char path[PATH_MAX] = "";
  int rc = draw(secret);
  if (rc == 0 && folder != NULL && folder[0] != '\0') {
    if (snprintf(path, sizeof path, "%s/prompts-secret", folder) >= (int)sizeof path)
      rc = -ENAMETOOLONG;
    else
      rc = write_secret(path, secret);
    if (rc == -EEXIST)
      rc = read_secret(path, secret);
  }
  return rc == 0 ? 0
                 : lls_fail(err, rc, "%s: the secret of the cache's keys: %s", path,
                            rc == -EINVAL ? "not one: remove the file" : strerror(-rc));
}
