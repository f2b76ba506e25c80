/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/cluster/links.c between two simulated processes with a simulated link. Pieces
 * arrive in order, whatever the order of their messages; no more than a window are
 * under way. A link that is refused, breaks or stalls is given up by both ends; all
 * pieces under way are lost, none is waited for, and memory is released.
 */
#include "t/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/cluster/links.h"

enum { N = 64, BYTES = 32 };

/* The connection between two ends; a piece holds its bytes as they were when it was
 * sent. */
struct wire {
  bool joined[2];
  bool broken[2]; /* by the end that detects it: the receiver, the sender */
  bool is_still;  /* the link is stalled */
  bool is_same_device;
  unsigned n_open; /* ends that are open */
  unsigned n_rooms;
  char sent[N][BYTES];
  char *to[N];
  uint64_t n_sent, n_wanted;
};

struct lls_device_link {
  struct wire *wire;
  bool sends;
};

struct played {
  struct lls_device base;
  struct wire *wire;
  struct lls_links *links;
};

static struct wire *wire_of(struct lls_device *d)
{
  return ((struct played *)d)->wire;
}

static int prepare(struct lls_device *d, struct lls_error *err)
{
  (void)d;
  (void)err;
  return 0;
}

static int make_name(struct lls_device *d, struct lls_link_name *out,
                     struct lls_error *err)
{
  (void)d;
  (void)err;
  *out = (struct lls_link_name){.id = "one"};
  return 0;
}

static int open_end(struct lls_device *d, const struct lls_link_name *name, bool sends,
                    struct lls_device_link **out, struct lls_error *err)
{
  struct wire *w = wire_of(d);
  assert_string_equal((const char *)name->id, "one");
  if (w->is_same_device)
    return lls_fail(err, -EXDEV, "it is the same device");
  *out = calloc(1, sizeof **out);
  assert_non_null(*out);
  **out = (struct lls_device_link){.wire = w, .sends = sends};
  w->joined[sends] = true;
  w->n_open++;
  return 0;
}

static void give(struct lls_device_link *link, char *piece, size_t bytes)
{
  struct wire *w = link->wire;
  assert_true(bytes <= BYTES);
  if (link->sends)
    memcpy(w->sent[w->n_sent++], piece, bytes);
  else
    w->to[w->n_wanted++] = piece;
}

/* A piece is done at both ends when both have begun it. */
static int go_on(struct lls_device_link *link, uint64_t *n_done, struct lls_error *err)
{
  struct wire *w = link->wire;
  if (w->broken[link->sends])
    return lls_fail(err, -EIO, "the wire is cut");
  if (!w->joined[0] || !w->joined[1])
    return -EAGAIN;
  uint64_t both = w->n_sent < w->n_wanted ? w->n_sent : w->n_wanted;
  while (!w->is_still && *n_done < both) {
    if (!link->sends)
      memcpy(w->to[*n_done], w->sent[*n_done], BYTES);
    ++*n_done;
  }
  return 0;
}

static void close_end(struct lls_device_link *link)
{
  link->wire->n_open--;
  free(link);
}

static int take_memory(struct lls_device *d, enum lls_memory kind, size_t bytes,
                       void **out)
{
  assert_int_equal(kind, LLS_MEMORY_PIECES);
  *out = malloc(bytes);
  wire_of(d)->n_rooms++;
  return *out != NULL ? 0 : -ENOMEM;
}

static void give_back(struct lls_device *d, enum lls_memory kind, void *data)
{
  (void)kind;
  wire_of(d)->n_rooms--;
  free(data);
}

static const struct lls_link_ops link_ops = {
    .text = "a wire",
    .prepare = prepare,
    .make_name = make_name,
    .open = open_end,
    .give = give,
    .go_on = go_on,
    .close = close_end,
};
static const struct lls_device_ops device_ops = {
    .alloc = take_memory, .release = give_back, .links = &link_ops};

/* ---- two processes ----------------------------------------------------------------- */

struct two {
  struct wire wire;
  struct played p[2];
};

static void begin(struct two *t, int64_t timeout_ns)
{
  *t = (struct two){0};
  for (uint32_t i = 0; i < 2; i++) {
    t->p[i].base.ops = &device_ops;
    t->p[i].wire = &t->wire;
    const struct lls_links_options o = {.device = &t->p[i].base,
                                        .self = i,
                                        .n = 2,
                                        .bytes = BYTES,
                                        .timeout_ns = timeout_ns};
    assert_int_equal(lls_links_create(&o, &t->p[i].links, NULL), 0);
  }
}

static void end(struct two *t)
{
  for (uint32_t i = 0; i < 2; i++)
    lls_links_destroy(t->p[i].links);
  assert_int_equal(t->wire.n_open, 0);
  assert_int_equal(t->wire.n_rooms, 0);
}

/* Exchanges messages until there are none left. */
static void go_round(struct two *t)
{
  for (int turn = 0; turn < 8; turn++)
    for (uint32_t i = 0; i < 2; i++) {
      struct lls_link_message m;
      lls_links_go_on(t->p[i].links);
      while (lls_links_has_word(t->p[i].links, 1 - i)) {
        lls_links_take_word(t->p[i].links, 1 - i, &m);
        lls_links_hear(t->p[1 - i].links, i, &m);
      }
    }
}

static char *room(struct two *t, bool *linked)
{
  return lls_links_room(t->p[0].links, 1, linked);
}

static void open_link(struct two *t)
{
  bool linked;
  assert_null(room(t, &linked));
  assert_false(linked); /* until the link is open pieces are sent another way */
  go_round(t);
  assert_non_null(room(t, &linked));
  assert_true(linked);
}

static void send(struct two *t, unsigned ticket)
{
  bool linked;
  char *at = room(t, &linked);
  assert_non_null(at);
  memset(at, (int)ticket, BYTES);
  assert_int_equal(lls_links_give(t->p[0].links, 1, BYTES), ticket);
}

static void expect(struct two *t, unsigned ticket)
{
  const struct lls_linked piece = {.sequence = ticket, .bytes = BYTES, .ticket = ticket};
  assert_int_equal(lls_links_expect(t->p[1].links, 0, &piece), 0);
}

/* The next arrived piece is this one, whole or lost. */
static void comes(struct two *t, unsigned ticket, bool whole)
{
  struct lls_linked piece = {0};
  const char *data;
  uint32_t from;
  assert_true(lls_links_receive(t->p[1].links, &from, &piece, &data));
  assert_int_equal(from, 0);
  assert_int_equal(piece.ticket, ticket);
  assert_true((data != NULL) == whole);
  for (size_t i = 0; whole && i < BYTES; i++)
    assert_int_equal(data[i], ticket);
}

static void nothing_comes(struct two *t)
{
  struct lls_linked piece;
  const char *data;
  uint32_t from;
  assert_false(lls_links_receive(t->p[1].links, &from, &piece, &data));
}

static void has_news(struct two *t, const char *text)
{
  struct lls_error news;
  uint32_t to;
  assert_true(lls_links_news(t->p[0].links, &to, &news));
  assert_int_equal(to, 1);
  assert_string_equal(news.text, text);
  assert_false(lls_links_news(t->p[0].links, &to, &news));
}

static void is_given_up(struct two *t, const char *text)
{
  bool linked;
  has_news(t, text);
  assert_null(room(t, &linked));
  assert_false(linked);
  assert_int_equal(t->wire.n_open, 0);
}

#define HOUR ((int64_t)3600 * 1000000000)

/* ---- scenes ------------------------------------------------------------------------ */

static void test_order(void **state)
{
  struct two t;
  (void)state;
  begin(&t, HOUR);
  open_link(&t);
  has_news(&t, "blocks go there from GPU to GPU, by a wire");
  for (unsigned first = 0; first < 5 * LLS_LINK_WINDOW; first += LLS_LINK_WINDOW) {
    for (unsigned i = 0; i < LLS_LINK_WINDOW; i++)
      send(&t, first + i);
    bool linked;
    assert_null(room(&t, &linked)); /* the window is full */
    assert_true(linked);
    for (unsigned i = LLS_LINK_WINDOW; i-- > 0;) {
      nothing_comes(&t);
      expect(&t, first + i);
      if (i > 0)
        go_round(&t);
    }
    go_round(&t);
    for (unsigned i = 0; i < LLS_LINK_WINDOW; i++)
      comes(&t, first + i, true);
    nothing_comes(&t);
  }
  end(&t);
}

/* Received pieces that are not taken keep their place: no other piece gets it. */
static void test_slow_receiver(void **state)
{
  struct two t;
  (void)state;
  begin(&t, HOUR);
  open_link(&t);
  unsigned n = 0;
  for (; n < 2 * LLS_LINK_WINDOW; n++) {
    bool linked;
    if (room(&t, &linked) == NULL)
      break;
    send(&t, n);
    expect(&t, n);
    go_round(&t);
  }
  assert_int_equal(n, 2 * LLS_LINK_WINDOW); /* half received, half under way */
  for (unsigned i = 0; i < n; i++) {
    comes(&t, i, true);
    go_round(&t);
  }
  end(&t);
}

static void test_refused(void **state)
{
  struct two t;
  bool linked;
  (void)state;
  begin(&t, HOUR);
  t.wire.is_same_device = true;
  assert_null(room(&t, &linked));
  go_round(&t);
  is_given_up(&t, "blocks go there without a wire: it is the same device, says the other "
                  "process");
  end(&t);
}

/* Detected by the sender (1) or the receiver (0). */
static void check_break(int where, const char *text)
{
  struct two t;
  begin(&t, HOUR);
  open_link(&t);
  has_news(&t, "blocks go there from GPU to GPU, by a wire");
  send(&t, 0);
  expect(&t, 0);
  go_round(&t);
  comes(&t, 0, true);
  t.wire.is_still = true;
  for (unsigned i = 1; i < 4; i++)
    send(&t, i);
  expect(&t, 1);
  expect(&t, 3); /* its place is not reused: the message of 2 is under way */
  go_round(&t);
  t.wire.broken[where] = true;
  go_round(&t);
  is_given_up(&t, text);
  comes(&t, 1, false);
  comes(&t, 3, false);
  nothing_comes(&t);
  expect(&t, 2);
  comes(&t, 2, false);
  nothing_comes(&t);
  end(&t);
}

static void test_breaks(void **state)
{
  (void)state;
  check_break(1, "blocks go there without a wire: the wire is cut");
  check_break(0, "blocks go there without a wire: the wire is cut, says the other "
                 "process");
}

static void test_stands_still(void **state)
{
  struct two t;
  (void)state;
  begin(&t, 0);
  open_link(&t);
  has_news(&t, "blocks go there from GPU to GPU, by a wire");
  t.wire.is_still = true;
  send(&t, 0);
  go_round(&t);
  is_given_up(&t, "blocks go there without a wire: a piece was on its way for 0 ms");
  expect(&t, 0);
  comes(&t, 0, false);
  end(&t);
}

/* An end that dies is not waited for, not even for a piece just handed out. */
static void test_dies(void **state)
{
  struct two t;
  bool linked;
  (void)state;
  begin(&t, HOUR);
  open_link(&t);
  send(&t, 0);
  send(&t, 1);
  expect(&t, 0);
  expect(&t, 1);
  expect(&t, 3);
  go_round(&t);
  comes(&t, 0, true);
  lls_links_forget(t.p[1].links, 0);
  lls_links_forget(t.p[0].links, 1);
  nothing_comes(&t);
  assert_null(room(&t, &linked));
  assert_false(linked);
  go_round(&t);
  nothing_comes(&t);
  end(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),        cmocka_unit_test(test_slow_receiver),
      cmocka_unit_test(test_refused),      cmocka_unit_test(test_breaks),
      cmocka_unit_test(test_stands_still), cmocka_unit_test(test_dies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
