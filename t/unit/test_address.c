/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on: good ones are split, others are refused. */
#include "t/tap.h"

#include "core/base/address.h"

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
      cmocka_unit_test(test_good_addresses_are_split),
      cmocka_unit_test(test_bad_addresses_are_refused),
      cmocka_unit_test(test_whose_an_address_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
