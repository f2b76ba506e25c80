/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks on disk (core/disk): what is found is what was written for that key, whatever
 * writes broke off, bits flipped, or reads failed; what was used longest ago leaves
 * first; a file of another identity is emptied, and one that another process has is left
 * alone. A simulated disk takes its time by a clock, and has an index of any size.
 */
#include "t/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/disk/block_store.h"
#include "t/dice.h"
#include "t/folder.h"

#define RECORD 6000 /* two pages, of which the second is not full */
#define PAGES  8192

static char path[4096];

/* Faults of the system's calls. */
static struct {
  int read_errno, write_errno; /* 0: nothing */
  long write_bytes;            /* these are written, then nothing any more; -1: all */
} faults;

static ssize_t bad_read(int fd, void *to, size_t bytes, off_t at)
{
  errno = faults.read_errno;
  return faults.read_errno != 0 ? -1 : pread(fd, to, bytes, at);
}

static ssize_t bad_write(int fd, const void *from, size_t bytes, off_t at)
{
  errno = faults.write_errno;
  if (faults.write_errno != 0)
    return -1;
  if (faults.write_bytes < 0)
    return pwrite(fd, from, bytes, at);
  size_t n = (size_t)faults.write_bytes < bytes ? (size_t)faults.write_bytes : bytes;
  faults.write_bytes -= (long)n;
  if (n > 0 && pwrite(fd, from, n, at) != (ssize_t)n)
    return -1;
  return (ssize_t)bytes; /* a process that is killed never learns of it */
}

static const struct lls_block_io io = {bad_read, bad_write};

static struct lls_block_store *open_store(const char *identity, uint64_t bytes)
{
  char whole[LLS_BLOCK_IDENTITY] = {0};
  struct lls_error err = {0};
  struct lls_block_store *s = NULL;
  bool emptied;
  snprintf(whole, sizeof whole, "%s", identity);
  const struct lls_block_store_options o = {.path = path,
                                            .identity = whole,
                                            .record_bytes = RECORD,
                                            .bytes = bytes,
                                            .writing_bytes = 4 * PAGES,
                                            .reading_bytes = 2 * PAGES,
                                            .io = &io};
  if (lls_block_store_open(&o, &s, &emptied, &err) < 0)
    return NULL;
  return s;
}

static struct lls_key key_of(uint32_t i)
{
  struct dice d = {i};
  uint64_t a = dice_next(&d), b = dice_next(&d);
  return (struct lls_key){{a, b}};
}

static void fill(char *record, uint32_t i)
{
  memset(record, 0, PAGES);
  for (uint32_t k = 0; k < RECORD; k++)
    record[k] = (char)(i * 31 + k * (i % 7 + 1));
}

static void put(struct lls_block_store *s, uint32_t i)
{
  const struct lls_key key = key_of(i);
  char *room;
  while ((room = lls_block_store_room(s)) == NULL)
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  fill(room, i);
  lls_block_store_put(s, room, &key, 1);
}

/* Reads a block; 1: it is right, 0: there is none, or it cannot be read. */
static int get(struct lls_block_store *s, uint32_t i)
{
  const struct lls_key key = key_of(i);
  struct lls_block_read read;
  char right[PAGES];
  int rc = lls_block_store_get(s, &key, i);
  if (rc < 0) {
    assert_int_equal(rc, -ENOENT);
    return 0;
  }
  while (!lls_block_store_next(s, &read))
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  assert_int_equal(read.ticket, i);
  assert_true(lls_key_equal(&read.key, &key));
  bool found = read.record != NULL;
  fill(right, i);
  if (found)
    assert_memory_equal(read.record, right, RECORD);
  lls_block_store_done(s, &read);
  return found;
}

static uint32_t count(struct lls_block_store *s, uint32_t first, uint32_t n)
{
  uint32_t good = 0;
  for (uint32_t i = first; i < first + n; i++)
    good += (uint32_t)get(s, i);
  return good;
}

static int begin(void **state)
{
  (void)state;
  unlink(path);
  faults.read_errno = faults.write_errno = 0;
  faults.write_bytes = -1;
  return 0;
}

#define ROOM (20 * (PAGES + 64) + 2 * LLS_BLOCK_PAGE + 2000)

static void test_what_is_written_is_found(void **state)
{
  (void)state;
  struct lls_block_store *s = open_store("a", ROOM);
  struct lls_block_store_status status;
  for (uint32_t i = 0; i < 10; i++)
    put(s, i);
  assert_int_equal(count(s, 0, 10), 10);
  assert_int_equal(count(s, 10, 5), 0);
  lls_block_store_status(s, &status);
  assert_int_equal(status.slots, 20);
  assert_int_equal(status.used, 10);
  assert_int_equal(status.read_bytes, 10 * PAGES);
  assert_null(open_store("a", ROOM)); /* it is in use */
  lls_block_store_close(s);
  s = open_store("a", ROOM);
  assert_int_equal(count(s, 0, 15), 10);
  lls_block_store_close(s);
  s = open_store("b", ROOM); /* another model */
  assert_int_equal(count(s, 0, 15), 0);
  put(s, 3);
  lls_block_store_close(s);
  s = open_store("b", ROOM / 2); /* another size */
  assert_int_equal(count(s, 0, 15), 0);
  lls_block_store_close(s);
  assert_null(open_store("b", PAGES)); /* no room for one */
}

static void test_the_least_used_leaves(void **state)
{
  (void)state;
  struct lls_block_store *s = open_store("a", ROOM);
  for (uint32_t i = 0; i < 20; i++)
    put(s, i);
  const struct lls_key key = key_of(0), seen = key_of(1);
  assert_int_equal(lls_block_store_find(s, &key), 1);
  assert_int_equal(lls_block_store_peek(s, &seen), 1); /* which is no use */
  for (uint32_t i = 20; i < 30; i++)
    put(s, i);
  assert_int_equal(get(s, 0), 1);
  assert_int_equal(count(s, 1, 10), 0);
  assert_int_equal(count(s, 11, 19), 19);
  lls_block_store_close(s);
  s = open_store("a", ROOM); /* by the order of writes */
  assert_int_equal(count(s, 0, 30), 20);
  lls_block_store_close(s);
}

/* A process that ends in any moment has written the first bytes of what it wanted to. */
static void test_writes_that_break_off(void **state)
{
  (void)state;
  struct dice d = {3};
  for (uint32_t round = 0; round < 60; round++) {
    unlink(path);
    faults.write_bytes = -1;
    struct lls_block_store *s = open_store("a", ROOM);
    for (uint32_t i = 0; i < 20; i++)
      put(s, i);
    assert_int_equal(count(s, 0, 20), 20);
    faults.write_bytes = (long)dice(&d, 0, 10 * (PAGES + 64));
    for (uint32_t i = 20; i < 30; i++) /* in place of others */
      put(s, i);
    lls_block_store_close(s);
    s = open_store("a", ROOM);
    uint32_t good = count(s, 0, 30); /* each is right, or none */
    assert_in_range(good, 18, 20);
    faults.write_bytes = -1;
    put(s, 100);
    assert_int_equal(get(s, 100), 1);
    lls_block_store_close(s);
  }
}

static void test_bits_that_flip(void **state)
{
  (void)state;
  struct dice d = {5};
  for (uint32_t round = 0; round < 60; round++) {
    unlink(path);
    struct lls_block_store *s = open_store("a", ROOM);
    for (uint32_t i = 0; i < 20; i++)
      put(s, i);
    lls_block_store_close(s);
    int fd = open(path, O_RDWR);
    off_t at = (off_t)dice(&d, 0, (uint32_t)lseek(fd, 0, SEEK_END) - 1);
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= (unsigned char)(1u << dice(&d, 0, 7));
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    s = open_store("a", ROOM);
    uint32_t good = count(s, 0, 20);
    assert_true(good >= 19 || (good == 0 && at < LLS_BLOCK_PAGE));
    assert_int_equal(count(s, 0, 20), good);
    lls_block_store_close(s);
  }
}

static void test_a_disk_that_fails(void **state)
{
  (void)state;
  struct lls_block_store_status status;
  struct lls_block_store *s = open_store("a", ROOM);
  for (uint32_t i = 0; i < 4; i++)
    put(s, i);
  assert_int_equal(count(s, 0, 4), 4);
  faults.write_errno = ENOSPC;
  put(s, 10);
  assert_int_equal(get(s, 10), 0);
  assert_int_equal(get(s, 10), 0);
  lls_block_store_status(s, &status);
  assert_int_equal(status.failed_writes, 1);
  assert_int_equal(status.last_error, ENOSPC);
  faults.write_errno = 0;
  faults.read_errno = EIO;
  assert_int_equal(get(s, 1), 0);
  faults.read_errno = 0;
  assert_int_equal(get(s, 1), 0); /* it is forgotten */
  put(s, 1);
  put(s, 10);
  assert_int_equal(count(s, 0, 4) + count(s, 10, 1), 5);
  lls_block_store_close(s);
}

/* ---- a simulated disk ------------------------------------------------------------- */

static int64_t virtual_ns(void *now_ns)
{
  return *(const int64_t *)now_ns;
}

/* Returns how many reads have ended, in order. */
static uint32_t ended(struct lls_block_store *s, uint64_t first)
{
  struct lls_block_read read;
  uint32_t n = 0;
  for (; lls_block_store_next(s, &read); n++) {
    assert_int_equal(read.ticket, first + n);
    assert_non_null(read.record);
    lls_block_store_done(s, &read);
  }
  return n;
}

static void test_a_simulated_disk(void **state)
{
  (void)state;
  int64_t now_ns = 1000;
  bool emptied;
  struct lls_block_store *s = NULL;
  struct lls_block_store_status status;
  const struct lls_disk_rates rates = {
      .read_byte_ns = 1, .write_byte_ns = 2, .latency_ns = 100};
  const struct lls_block_store_options o = {.record_bytes = RECORD,
                                            .bytes = UINT64_C(1) << 36,
                                            .writing_bytes = 4 * PAGES,
                                            .reading_bytes = 2 * PAGES,
                                            .simulated = &rates,
                                            .clock = virtual_ns,
                                            .clock_context = &now_ns};
  assert_int_equal(lls_block_store_open(&o, &s, &emptied, NULL), 0);
  for (uint32_t i = 0; i < 4; i++) {
    const struct lls_key key = key_of(i);
    lls_block_store_put(s, lls_block_store_room(s), &key, 1);
  }
  assert_null(lls_block_store_room(s)); /* all is on its way */
  now_ns += 100 + 2 * PAGES;
  void *room = lls_block_store_room(s);
  assert_non_null(room);
  lls_block_store_unused(s, room);
  for (uint32_t i = 0; i < 2; i++) { /* behind the writes */
    const struct lls_key key = key_of(i);
    assert_int_equal(lls_block_store_get(s, &key, i), 0);
  }
  const struct lls_key key = key_of(2), none = key_of(9);
  assert_int_equal(lls_block_store_get(s, &key, 2), -EAGAIN);
  assert_int_equal(lls_block_store_get(s, &none, 2), -ENOENT);
  assert_int_equal(lls_block_store_peek(s, &key), 1);
  assert_int_equal(lls_block_store_peek(s, &none), 0);
  now_ns += 3 * (100 + 2 * PAGES) + 100 + PAGES - 1;
  assert_int_equal(ended(s, 0), 0);
  now_ns++;
  assert_int_equal(ended(s, 0), 1);
  now_ns += 100 + PAGES;
  assert_int_equal(ended(s, 1), 1);
  lls_block_store_status(s, &status);
  assert_true(status.slots > 8000000);
  assert_int_equal(status.used, 4);
  assert_int_equal(status.read_bytes, 2 * PAGES);
  assert_int_equal(status.written_bytes, 4 * PAGES);
  lls_block_store_close(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_what_is_written_is_found, begin),
      cmocka_unit_test_setup(test_the_least_used_leaves, begin),
      cmocka_unit_test_setup(test_writes_that_break_off, begin),
      cmocka_unit_test_setup(test_bits_that_flip, begin),
      cmocka_unit_test_setup(test_a_disk_that_fails, begin),
      cmocka_unit_test(test_a_simulated_disk),
  };
  char folder[] = "/tmp/lls-blocks-XXXXXX";
  if (mkdtemp(folder) == NULL)
    return 1;
  snprintf(path, sizeof path, "%s/blocks", folder);
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  rmdir(folder);
  return rc;
}
