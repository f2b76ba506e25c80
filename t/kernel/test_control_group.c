/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of control groups of both versions, read from folders that imitate the
 * kernel's. */
#include "core/device/control_group.h"
#include "t/folder.h"

#include <math.h>

/* Reads the limits as the process whose /proc/self/cgroup has this text. */
static struct lls_control_groups seen_by(const struct folder *f, const char *lines,
                                         char paths[2][256])
{
  folder_put(f, "self", lines);
  snprintf(paths[0], 256, "%s", f->path);
  snprintf(paths[1], 256, "%s/self", f->path);
  return (struct lls_control_groups){.root = paths[0], .self = paths[1]};
}

static int teardown(void **state)
{
  char command[128];
  snprintf(command, sizeof command, "rm -r %s/*/", ((struct folder *)*state)->path);
  return system(command) != 0 || folder_teardown(state) != 0;
}

static void test_version_2(void **state)
{
  char paths[2][256];
  const struct folder *f = *state;
  struct lls_control_groups g = seen_by(f, "0::/a.slice/b.service\n", paths);
  folder_put(f, "a.slice/b.service/cpu.max", "max 100000\n");
  folder_put(f, "a.slice/b.service/memory.max", "max\n");
  assert_true(isinf(lls_control_group_cores(&g)));
  folder_put(f, "a.slice/b.service/cpu.max", "250000 100000\n");
  assert_true(lls_control_group_cores(&g) == 2.5);
  folder_put(f, "a.slice/cpu.max", "50000 100000\n"); /* the group above is tighter */
  assert_true(lls_control_group_cores(&g) == .5);

  size_t limit, left;
  lls_control_group_memory(&g, &limit, &left);
  assert_true(limit == SIZE_MAX && left == SIZE_MAX);
  folder_put(f, "a.slice/memory.max", "1000\n");
  folder_put(f, "a.slice/memory.current", "400\n");
  folder_put(f, "a.slice/b.service/memory.max", "900\n");
  folder_put(f, "a.slice/b.service/memory.current", "100\n");
  lls_control_group_memory(&g, &limit, &left);
  assert_int_equal(limit, 900);
  assert_int_equal(left, 600);
  folder_put(f, "a.slice/memory.current", "1400\n");
  lls_control_group_memory(&g, &limit, &left);
  assert_int_equal(left, 0);
}

/* In a container the group is the mount's root, while the path may still be the
 * host's. */
static void test_container(void **state)
{
  char paths[2][256];
  const struct folder *f = *state;
  struct lls_control_groups g = seen_by(f, "0::/docker/3f2a\n", paths);
  folder_put(f, "cpu.max", "300000 100000\n");
  folder_put(f, "other/cpu.max", "100000 100000\n");
  assert_true(lls_control_group_cores(&g) == 3);
  g = seen_by(f, "0::/\n", paths);
  assert_true(lls_control_group_cores(&g) == 3);
}

static void test_version_1(void **state)
{
  char paths[2][256];
  const struct folder *f = *state;
  struct lls_control_groups g =
      seen_by(f, "9:name=systemd:/\n4:memory:/pod/c\n2:cpu,cpuacct:/pod\n0::/\n", paths);
  folder_put(f, "cpu/pod/cpu.cfs_quota_us", "-1\n");
  folder_put(f, "cpu/pod/cpu.cfs_period_us", "100000\n");
  assert_true(isinf(lls_control_group_cores(&g)));
  folder_put(f, "cpu/pod/cpu.cfs_quota_us", "400000\n");
  assert_true(lls_control_group_cores(&g) == 4);

  size_t limit, left;
  folder_put(f, "memory/memory.limit_in_bytes", "9223372036854771712\n");
  folder_put(f, "memory/pod/c/memory.limit_in_bytes", "5000\n");
  folder_put(f, "memory/pod/c/memory.usage_in_bytes", "1000\n");
  lls_control_group_memory(&g, &limit, &left);
  assert_int_equal(limit, 5000);
  assert_int_equal(left, 4000);
}

static void test_nothing_to_read(void **state)
{
  char paths[2][256];
  const struct folder *f = *state;
  size_t limit, left;
  folder_put(f, "x/y", "");
  const struct lls_control_groups nowhere = {.root = "/nowhere", .self = "/nowhere"};
  assert_true(isinf(lls_control_group_cores(&nowhere)));
  struct lls_control_groups g = seen_by(f, "\nnonsense\n0:\n0::/../..//\n1:cpu", paths);
  folder_put(f, "cpu.max", "x y\n");
  assert_true(isinf(lls_control_group_cores(&g)));
  lls_control_group_memory(&g, &limit, &left);
  assert_true(limit == SIZE_MAX && left == SIZE_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_version_2, folder_setup, teardown),
      cmocka_unit_test_setup_teardown(test_container, folder_setup, teardown),
      cmocka_unit_test_setup_teardown(test_version_1, folder_setup, teardown),
      cmocka_unit_test_setup_teardown(test_nothing_to_read, folder_setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
