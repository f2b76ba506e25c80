/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on: good ones are split, others are refused. */
#include "t/tap.h"

#include "core/base/address.h"

#include <errno.h>

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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good_addresses_are_split),
      cmocka_unit_test(test_bad_addresses_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
