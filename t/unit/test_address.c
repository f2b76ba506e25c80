/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on: good ones are split, others are refused. */
#include "t/tap.h"

#include "core/base/listen_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

static void test_good_addresses_are_split(void **state)
{
  (void)state;
  const struct {
    const char *address, *host, *port;
  } cases[] = {
      {"127.0.0.1:8080", "127.0.0.1", "8080"},
      {"[::1]:0", "::1", "0"},
      {"localhost:65535", "localhost", "65535"},
      {":80", "", "80"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char host[LLS_HOST_MAX];
    const char *port;
    assert_int_equal(lls_address_split(cases[i].address, host, &port), 0);
    assert_string_equal(host, cases[i].host);
    assert_string_equal(port, cases[i].port);
  }
}

static void test_bad_addresses_are_refused(void **state)
{
  (void)state;
  const char *const cases[] = {
      "",
      "8080",
      "host",
      "host:",
      "host:-1",
      "host:65536",
      "host:999999999999",
      "host:000080",
      "host:80a",
      "::1:80",
      "[::1]",
      "[]:80",
      "[::1:80",
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char host[LLS_HOST_MAX];
    const char *port;
    if (lls_address_split(cases[i], host, &port) != -EINVAL)
      fail_msg("'%s' was taken for an address", cases[i]);
  }
}

static void test_a_list_is_read_address_by_address(void **state)
{
  (void)state;
  const char *list = " 127.0.0.1:80,[::1]:81  https://:82, http://h:83 ,"
                     "unix:/run/x unix:/run/y:z:0600,unix:/run/w:12,";
  const struct lls_listen_address want[] = {
      {.host = "127.0.0.1", .port = "80"},
      {.host = "::1", .port = "81"},
      {.host = "", .port = "82", .tls = LLS_LISTEN_TLS_ALWAYS},
      {.host = "h", .port = "83", .tls = LLS_LISTEN_TLS_NEVER},
      {.path = "/run/x", .mode = 0660},
      {.path = "/run/y:z", .mode = 0600},
      {.path = "/run/w:12", .mode = 0660},
  };
  struct lls_listen_address got;
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    assert_int_equal(lls_listen_next(&list, &got, NULL), 1);
    assert_string_equal(got.host, want[i].host);
    assert_string_equal(got.port, want[i].port);
    assert_string_equal(got.path, want[i].path);
    assert_int_equal(got.mode, want[i].mode);
    assert_int_equal(got.tls, want[i].tls);
    assert_int_equal(lls_listen_uses_tls(&got, true), i < 3);
    assert_false(lls_listen_uses_tls(&got, false));
  }
  assert_int_equal(lls_listen_next(&list, &got, NULL), 0);
}

static void test_bad_lists_are_refused_by_name(void **state)
{
  (void)state;
  char path[200] = "unix:/", host[600];
  memset(path + 6, 'x', 150);
  memset(host, 'h', sizeof host - 1);
  host[sizeof host - 1] = '\0';
  const char *const cases[] = {"8080", "ftp://x:1", "unix:", "unix:x", path, host};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct lls_listen_address got;
    struct lls_error err = {0};
    const char *list = cases[i];
    assert_int_equal(lls_listen_next(&list, &got, &err), -EINVAL);
    assert_non_null(strstr(err.text, "found '"));
  }
}

static const struct sockaddr *address_of(const char *text, struct sockaddr_storage *room)
{
  struct sockaddr_in *v4 = (struct sockaddr_in *)room;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)room;
  *room = (struct sockaddr_storage){0};
  bool is_v6 = strchr(text, ':') != NULL;
  room->ss_family = is_v6 ? AF_INET6 : AF_INET;
  void *bytes = is_v6 ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr;
  assert_int_equal(inet_pton(room->ss_family, text, bytes), 1);
  return (const struct sockaddr *)room;
}

static void test_whose_an_address_is(void **state)
{
  (void)state;
  struct sockaddr_storage a, b;
  const char *const loopback[] = {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"};
  const char *const other[] = {
      "0.0.0.0", "126.0.0.1", "::", "::2", "::ffff:10.0.0.127", "fe80::1"};
  for (size_t i = 0; i < sizeof loopback / sizeof *loopback; i++)
    assert_true(lls_address_is_loopback(address_of(loopback[i], &a)));
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    assert_false(lls_address_is_loopback(address_of(other[i], &a)));
  assert_true(
      lls_address_same_host(address_of("10.0.0.1", &a), address_of("10.0.0.1", &b)));
  assert_true(
      lls_address_same_host(address_of("fe80::1", &a), address_of("fe80::1", &b)));
  assert_false(
      lls_address_same_host(address_of("10.0.0.1", &a), address_of("10.0.0.2", &b)));
  assert_false(lls_address_same_host(address_of("::2", &a), address_of("fe80::1", &b)));
  assert_false(lls_address_same_host(address_of("0.0.0.0", &a), address_of("::", &b)));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_list_is_read_address_by_address),
      cmocka_unit_test(test_bad_lists_are_refused_by_name),
      cmocka_unit_test(test_good_addresses_are_split),
      cmocka_unit_test(test_bad_addresses_are_refused),
      cmocka_unit_test(test_whose_an_address_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
