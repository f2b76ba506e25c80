/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of the HTTP server that need no socket: parser, request, router, text. */
#include "t/tap.h"

#include "core/http/parser.h"
#include "core/http/router.h"

#include <errno.h>
#include <string.h>

#define MAX_HEAD 1000
#define MAX_BODY 1000

struct fixture {
  struct lls_http_request request;
  struct lls_http_parser parser;
};

static int setup(void **state)
{
  struct fixture *f = calloc(1, sizeof *f);
  lls_http_parser_init(&f->parser, &f->request, MAX_HEAD, MAX_BODY);
  *state = f;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *f = *state;
  lls_http_request_clear(&f->request);
  free(f);
  return 0;
}

/* Feeds the text in pieces of that size; returns the last call's result. */
static int feed(struct fixture *f, const char *text, size_t piece, size_t *taken)
{
  size_t length = strlen(text);
  int status = 0;
  *taken = 0;
  while (status == 0 && *taken < length) {
    size_t used, next = length - *taken < piece ? length - *taken : piece;
    status = lls_http_parser_feed(&f->parser, text + *taken, next, &used);
    *taken += used;
  }
  return status;
}

static const char post[] =
    "POST /a%20b?c=d HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nX-Two: 1\r\n"
    "x-two: 2\r\nContent-Length: 5\r\n\r\nhello";

static void check_post(const struct lls_http_request *request)
{
  assert_string_equal(request->method, "POST");
  assert_string_equal(request->path, "/a b");
  assert_string_equal(request->query, "c=d");
  assert_int_equal(request->n_headers, 5);
  assert_string_equal(lls_http_request_header(request, "HOST"), "x");
  assert_string_equal(lls_http_request_header(request, "x-empty"), "");
  assert_string_equal(lls_http_request_header(request, "X-TWO"), "1");
  assert_null(lls_http_request_header(request, "x-three"));
  assert_int_equal(request->body.length, 5);
  assert_memory_equal(request->body.data, "hello", 5);
  assert_true(request->keep_alive);
  assert_false(request->http10);
}

static void test_a_request_in_pieces_of_every_size(void **state)
{
  struct fixture *f = *state;
  for (size_t piece = 1; piece <= sizeof post; piece++) {
    size_t taken;
    assert_int_equal(feed(f, post, piece, &taken), 1);
    assert_int_equal(taken, strlen(post));
    check_post(&f->request);
    lls_http_request_clear(&f->request);
    lls_http_parser_next(&f->parser);
  }
}

static void test_the_next_request_is_left(void **state)
{
  struct fixture *f = *state;
  char two[2 * sizeof post];
  size_t taken;
  snprintf(two, sizeof two, "%s%s", post, post);
  assert_int_equal(feed(f, two, sizeof two, &taken), 1);
  assert_int_equal(taken, strlen(post));
  lls_http_request_clear(&f->request);
  lls_http_parser_next(&f->parser);
  assert_int_equal(feed(f, two + taken, sizeof two, &taken), 1);
  check_post(&f->request);
}

static void expect_refusal(void **state, const char *text, unsigned status)
{
  struct fixture *f = *state;
  size_t taken;
  assert_int_equal(feed(f, text, 7, &taken), -EPROTO);
  assert_int_equal(f->parser.status, status);
  assert_true(f->parser.reason[0] != '\0');
  /* the error is permanent */
  assert_int_equal(feed(f, post, sizeof post, &taken), -EPROTO);
}

static void test_smuggled_lengths_are_refused(void **state)
{
  expect_refusal(state,
                 "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                 "Content-Length: 3\r\n\r\nabc",
                 400);
}

static void test_other_codings_are_refused(void **state)
{
  expect_refusal(state,
                 "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
                 "1\r\na\r\n0\r\n\r\n",
                 501);
}

static void test_chunks_to_http10_are_refused(void **state)
{
  expect_refusal(state,
                 "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "1\r\na\r\n0\r\n\r\n",
                 400);
}

static void test_two_hosts_are_refused(void **state)
{
  expect_refusal(state, "GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", 400);
}

/* Folded headers are refused wherever the text is cut into pieces. */
static void test_folded_headers_are_refused(void **state)
{
  static const char *const folded[] = {
      "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: x\r\nA:\r\n\tc\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: x\r\n \r\n\r\n",
  };
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof folded / sizeof folded[0]; i++)
    for (size_t piece = 1; piece <= strlen(folded[i]); piece++) {
      size_t taken;
      lls_http_request_clear(&f->request);
      lls_http_parser_init(&f->parser, &f->request, MAX_HEAD, MAX_BODY);
      assert_int_equal(feed(f, folded[i], piece, &taken), -EPROTO);
      assert_int_equal(f->parser.status, 400);
      assert_non_null(strstr(f->parser.reason, "folded"));
    }
}

/* A line of a body that looks like a folded header is part of the body. */
static void test_a_body_may_begin_with_blanks(void **state)
{
  struct fixture *f = *state;
  static const char text[] =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n \r\n \r\n";
  for (size_t piece = 1; piece <= sizeof text; piece++) {
    size_t taken;
    assert_int_equal(feed(f, text, piece, &taken), 1);
    assert_memory_equal(f->request.body.data, " \r\n \r\n", 6);
    lls_http_request_clear(&f->request);
    lls_http_parser_next(&f->parser);
  }
}

/* A request that is mostly neither head nor body is refused: padding before, in and
 * after its parts. */
static void test_padding_is_refused(void **state)
{
  static const char *const around[][2] = {
      {"GET / HTTP/1.1\r\nHost: x\r\nA:", "b\r\n\r\n"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;a=",
       "\r\na\r\n0\r\n\r\n"},
  };
  for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
    struct fixture *f = *state;
    char text[4 * MAX_HEAD], padding[2 * MAX_HEAD];
    memset(padding, i == 0 ? ' ' : 'x', sizeof padding - 1);
    padding[sizeof padding - 1] = '\0';
    snprintf(text, sizeof text, "%s%s%s", around[i][0], padding, around[i][1]);
    lls_http_request_clear(&f->request);
    lls_http_parser_init(&f->parser, &f->request, MAX_HEAD, MAX_BODY);
    expect_refusal(state, text, 431);
  }
}

/* Each chunk has its own size line, however small it is. */
static void test_many_small_chunks_are_no_padding(void **state)
{
  struct fixture *f = *state;
  struct lls_text text = {0};
  size_t taken;
  lls_text_puts(&text,
                "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < MAX_BODY; i++)
    lls_text_puts(&text, "0000000000000001\r\na\r\n");
  lls_text_puts(&text, "0\r\n\r\n");
  assert_int_equal(feed(f, text.data, 100, &taken), 1);
  assert_int_equal(f->request.body.length, MAX_BODY);
  lls_text_free(&text);
}

static void test_other_protocols_are_told_so(void **state)
{
  struct fixture *f = *state;
  static const char *const cases[][2] = {
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1, not HTTP/2"},
      {"\x16\x03\x01\x02", "TLS"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    size_t taken;
    lls_http_request_clear(&f->request);
    lls_http_parser_init(&f->parser, &f->request, MAX_HEAD, MAX_BODY);
    assert_int_equal(feed(f, cases[i][0], 1, &taken), -EPROTO);
    assert_int_equal(f->parser.status, 400);
    assert_non_null(strstr(f->parser.reason, cases[i][1]));
  }
}

static void test_bare_line_ends_are_refused(void **state)
{
  expect_refusal(state, "POST / HTTP/1.1\nHost: x\nContent-Length : 3\n\nabc", 400);
}

static void test_a_long_head_is_refused_while_it_comes(void **state)
{
  char text[MAX_HEAD + 100];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  memcpy(text, "GET /", 5);
  expect_refusal(state, text, 431);
}

static void test_a_long_body_is_refused_by_its_length(void **state)
{
  struct fixture *f = *state;
  expect_refusal(state, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n",
                 413);
  assert_int_equal(f->request.body.length, 0);
}

static void test_continue_is_asked_for(void **state)
{
  struct fixture *f = *state;
  size_t taken;
  assert_int_equal(feed(f,
                        "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n"
                        "Content-Length: 1\r\n\r\n",
                        9, &taken),
                   0);
  assert_true(f->parser.wants_100);
}

static void test_keep_alive_follows_version_and_header(void **state)
{
  const struct {
    const char *text;
    bool http10, keep_alive;
  } cases[] = {
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", false, true},
      {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false, false},
      {"GET / HTTP/1.0\r\n\r\n", true, false},
      {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fixture *f = *state;
    size_t taken;
    lls_http_request_clear(&f->request);
    lls_http_parser_init(&f->parser, &f->request, MAX_HEAD, MAX_BODY);
    assert_int_equal(feed(f, cases[i].text, 100, &taken), 1);
    assert_int_equal(f->request.http10, cases[i].http10);
    assert_int_equal(f->request.keep_alive, cases[i].keep_alive);
  }
}

static void test_trailers_change_nothing(void **state)
{
  struct fixture *f = *state;
  char text[1000];
  size_t taken;
  snprintf(text, sizeof text,
           "POST /path?query HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
           "1\r\na\r\n0\r\nHost: y\r\nLong: %0500d\r\n\r\n",
           1);
  assert_int_equal(feed(f, text, 50, &taken), 1);
  assert_int_equal(taken, strlen(text));
  assert_string_equal(f->request.path, "/path");
  assert_string_equal(f->request.query, "query");
  assert_string_equal(lls_http_request_header(&f->request, "host"), "x");
  assert_null(lls_http_request_header(&f->request, "long"));
}

static void test_long_trailers_are_refused(void **state)
{
  char text[2000];
  snprintf(text, sizeof text,
           "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
           "0\r\nLong: %01500d\r\n\r\n",
           1);
  expect_refusal(state, text, 431);
}

/* ---- targets -------------------------------------------------------------------- */

static bool set_target(struct lls_http_request *request, const char *target)
{
  lls_http_request_clear(request);
  lls_text_append(&request->head, target, strlen(target) + 1);
  return lls_http_request_set_target(request) == NULL;
}

static void test_queries(void **state)
{
  (void)state;
  char value[6];
  assert_true(lls_http_query("a=1&bc=2&b=x%2fy+z&b", "b", value, sizeof value));
  assert_string_equal(value, "x/y z");
  assert_true(lls_http_query("b=1&b=%4&b=%00", "b", value, sizeof value));
  assert_string_equal(value, "%00");
  assert_true(lls_http_query("b=123456", "b", value, sizeof value));
  assert_string_equal(value, "");
  assert_false(lls_http_query("bb=1&=2", "b", value, sizeof value));
  assert_string_equal(value, "");
}

static void test_targets(void **state)
{
  (void)state;
  struct lls_http_request request = {0};
  assert_true(set_target(&request, "/"));
  assert_string_equal(request.query, "");
  assert_true(set_target(&request, "/a%2f%20b?%41"));
  assert_string_equal(request.path, "/a/ b");
  assert_string_equal(request.query, "%41");
  assert_true(set_target(&request, "HTTPS://host/x?y"));
  assert_string_equal(request.path, "/x");
  assert_string_equal(lls_http_request_host(&request), "host");
  assert_true(set_target(&request, "http://host:80/x?y"));
  assert_string_equal(request.path, "/x");
  assert_string_equal(lls_http_request_host(&request), "host:80");
  assert_true(set_target(&request, "/http://host/"));
  assert_null(lls_http_request_host(&request));
  const char *const wrong[] = {"",
                               "*",
                               "x",
                               "http://host",
                               "/%",
                               "/%4",
                               "/%4g",
                               "/%00",
                               "http://",
                               "a:b/c://d/e",
                               "http:///a",
                               "http://a@b/c",
                               "http://a?b/c",
                               "http://a%62/c"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_false(set_target(&request, wrong[i]));
  /* A proxy that compares raw paths must see the same path as this server. */
  const char *const hidden[] = {"/%61dmin", "/metric%73", "/a%2Db",
                                "/a%2e",    "/%7Ea",      "/%30"};
  for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
    assert_false(set_target(&request, hidden[i]));
  lls_http_request_clear(&request);
}

/* ---- what is wanted, and how much ----------------------------------------------- */

struct wants {
  bool head;
  size_t room, held;
};

static bool wants_head(void *owner)
{
  return ((struct wants *)owner)->head;
}

static bool has_room(void *owner, size_t more, uint64_t body)
{
  const struct wants *wants = owner;
  (void)body;
  return more <= wants->room;
}

static void want(struct fixture *f, struct wants *wants)
{
  f->parser.owner = wants;
  f->parser.on_head = wants_head;
  f->parser.may_hold = has_room;
}

static void test_a_body_may_be_unwanted(void **state)
{
  struct fixture *f = *state;
  struct wants wants = {.head = false, .room = 1000};
  const char *after_head = strstr(post, "\r\n\r\n") + 4;
  size_t taken;
  want(f, &wants);
  assert_int_equal(feed(f, post, 1, &taken), 1);
  assert_int_equal(taken, after_head - post);
  assert_string_equal(f->request.path, "/a b");
  assert_int_equal(f->request.body.length, 0);
  assert_false(f->request.keep_alive);
  assert_int_equal(feed(f, after_head, 1, &taken), -EPROTO); /* no more is read */
}

static void test_without_a_body_nothing_is_left_out(void **state)
{
  struct fixture *f = *state;
  struct wants wants = {.head = false, .room = 1000};
  size_t taken;
  want(f, &wants);
  assert_int_equal(feed(f, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 9, &taken), 1);
  assert_true(f->request.keep_alive);
}

/* Limits apply to a head while it grows, to a length when it is announced, to chunks as
 * they arrive. */
static void test_a_request_beyond_the_room_is_refused(void **state)
{
  struct fixture *f = *state;
  static const char *const large[] = {
      "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n",
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1f\r\n"
      "0123456789012345678901234567890"};
  struct wants wants = {.head = true, .room = 30};
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
    size_t taken;
    lls_http_request_clear(&f->request);
    lls_http_parser_init(&f->parser, &f->request, MAX_HEAD, MAX_BODY);
    want(f, &wants);
    assert_int_equal(feed(f, large[i], 1000, &taken), -EPROTO);
    assert_int_equal(f->parser.status, 503);
  }
}

/* ---- routes --------------------------------------------------------------------- */

static void handler(void *context, struct lls_http_exchange *exchange)
{
  (void)context;
  (void)exchange;
}

static void test_routes(void **state)
{
  (void)state;
  static const struct lls_http_route routes[] = {
      {"GET", "/a", handler, NULL},
      {"POST", "/a", handler, NULL},
      {"GET", "/b/*", handler, NULL},
      {"GET", "/c/*/d", handler, NULL},
  };
  const struct {
    const char *method, *path;
    int route; /* -1 = none */
    const char *tail, *allow;
  } cases[] = {
      {"GET", "/a", 0, "", ""},        {"HEAD", "/a", 0, "", ""},
      {"POST", "/a", 1, "", ""},       {"PUT", "/a", -1, NULL, "GET, HEAD, POST"},
      {"GET", "/b/c/d", 2, "c/d", ""}, {"POST", "/b/c", -1, NULL, "GET, HEAD"},
      {"GET", "/b/", -1, NULL, ""},    {"GET", "/b", -1, NULL, ""},
      {"GET", "/a/", -1, NULL, ""},    {"GET", "/", -1, NULL, ""},
      {"GET", "/c/x/d", 3, "x/d", ""}, {"GET", "/c/x/y/d", 3, "x/y/d", ""},
      {"GET", "/c//d", -1, NULL, ""},  {"GET", "/c/d", -1, NULL, ""},
      {"GET", "/c/x/", -1, NULL, ""},  {"GET", "/c/x/dd", -1, NULL, ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char path[16], allow[LLS_HTTP_ALLOW_MAX];
    struct lls_http_request request = {.method = cases[i].method, .path = path};
    snprintf(path, sizeof path, "%s", cases[i].path);
    const struct lls_http_route *found = lls_http_route_find(routes, 4, &request, allow);
    assert_ptr_equal(found, cases[i].route < 0 ? NULL : &routes[cases[i].route]);
    if (found != NULL)
      assert_string_equal(request.tail, cases[i].tail);
    else
      assert_string_equal(allow, cases[i].allow);
  }
}

/* ---- text ----------------------------------------------------------------------- */

static void test_text_grows_and_shrinks(void **state)
{
  (void)state;
  struct lls_text text = {0};
  for (int i = 0; i < 1000; i++)
    lls_text_printf(&text, "%d,", i);
  assert_int_equal(text.length, 10 * 2 + 90 * 3 + 900 * 4);
  assert_memory_equal(text.data, "0,1,2,", 6);
  lls_text_consume(&text, 4);
  assert_memory_equal(text.data, "2,3,", 4);
  lls_text_consume(&text, text.length);
  assert_string_equal(text.data, "");
  lls_text_puts(&text, "x");
  assert_string_equal(text.data, "x");
  assert_false(lls_text_reserve(&text, SIZE_MAX));
  assert_true(text.failed);
  lls_text_free(&text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_a_request_in_pieces_of_every_size, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_the_next_request_is_left, setup, teardown),
      cmocka_unit_test_setup_teardown(test_smuggled_lengths_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_codings_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_chunks_to_http10_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_two_hosts_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_folded_headers_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_body_may_begin_with_blanks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_padding_is_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_many_small_chunks_are_no_padding, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_other_protocols_are_told_so, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bare_line_ends_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_long_head_is_refused_while_it_comes, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_a_long_body_is_refused_by_its_length, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_continue_is_asked_for, setup, teardown),
      cmocka_unit_test_setup_teardown(test_keep_alive_follows_version_and_header, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_trailers_change_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_long_trailers_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_body_may_be_unwanted, setup, teardown),
      cmocka_unit_test_setup_teardown(test_without_a_body_nothing_is_left_out, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_a_request_beyond_the_room_is_refused, setup,
                                      teardown),
      cmocka_unit_test(test_targets),
      cmocka_unit_test(test_queries),
      cmocka_unit_test(test_routes),
      cmocka_unit_test(test_text_grows_and_shrinks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
