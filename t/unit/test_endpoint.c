/* SPDX-License-Identifier: Apache-2.0 */
/* Two endpoints of ZeroMQ clash if one socket takes what the other one needs, however
 * they are written. */
#include "t/tap.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/config/endpoint.h"
#include "t/folder.h"

static void test_tcp(void **state)
{
  static const struct {
    const char *a, *b;
    bool clash;
  } cases[] = {
      {"tcp://*:5557", "tcp://*:5557", true},
      {"tcp://*:5557", "tcp://0.0.0.0:5557", true},
      {"tcp://*:5557", "tcp://127.0.0.1:5557", true},
      {"tcp://*:5557", "tcp://lo:5557", true},
      {"tcp://127.0.0.1:5557", "tcp://lo:5557", true},
      {"tcp://127.0.0.1:05557", "tcp://127.0.0.1:5557", true},
      {"tcp://[::1]:5557", "tcp://[0:0::1]:5557", true},
      {"tcp://[::]:5557", "tcp://127.0.0.1:5557", true},
      {"tcp://[::]:5557", "tcp://*:5557", true},
      {"tcp://nowhere:5557", "tcp://nowhere:5557", true},
      {"tcp://*:5557", "tcp://*:5558", false},
      {"tcp://127.0.0.1:5557", "tcp://127.0.0.2:5557", false},
      {"tcp://*:5557", "tcp://[::1]:5557", false},
      {"tcp://[::1]:5557", "tcp://127.0.0.1:5557", false},
      {"tcp://*:*", "tcp://*:*", false},
      {"tcp://127.0.0.1:0", "tcp://127.0.0.1:0", false},
      {"tcp://*:5557", "ipc:///tmp/5557", false},
      {"ipc://*", "ipc://*", false},
      {"ipc://@name", "ipc://@name", true},
      {"ipc://@name", "ipc://@other", false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (lls_endpoints_clash(cases[i].a, cases[i].b) != cases[i].clash ||
        lls_endpoints_clash(cases[i].b, cases[i].a) != cases[i].clash)
      fail_msg("%s and %s", cases[i].a, cases[i].b);
  }
}

static void test_files(void **state)
{
  struct folder folder;
  char a[600], b[600], link[600];
  (void)state;
  folder_make(&folder);
  snprintf(link, sizeof link, "%s/link", folder.path);
  assert_int_equal(symlink(folder.path, link), 0);
  snprintf(a, sizeof a, "ipc://%s/events", folder.path);
  snprintf(b, sizeof b, "ipc://%s/link/./events", folder.path);
  assert_true(lls_endpoints_clash(a, b));
  snprintf(b, sizeof b, "ipc://%s/others", folder.path);
  assert_false(lls_endpoints_clash(a, b));
  snprintf(a, sizeof a, "ipc://%s/none/events", folder.path);
  assert_true(lls_endpoints_clash(a, a));
  unlink(link);
  folder_remove(&folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tcp),
                                     cmocka_unit_test(test_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
