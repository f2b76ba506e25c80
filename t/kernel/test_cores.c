/* SPDX-License-Identifier: Apache-2.0 */
/* The order of cores on machines that folders imitate: two sockets with hyper-threads,
 * as Linux numbers them, and machines that describe less. */
#include "core/device/cores.h"
#include "t/folder.h"

static int teardown(void **state)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s/*/", ((struct folder *)*state)->path);
  return system(command) != 0 || folder_teardown(state) != 0;
}

/* Two sockets of two cores with two hyper-threads: cpus 0, 1, 4, 5 and 2, 3, 6, 7. */
static void put_two_sockets(const struct folder *f)
{
  char path[64], text[16];
  folder_put(f, "node/node0/cpulist", "0-1,4-5\n");
  folder_put(f, "node/node1/cpulist", "2-3,6-7\n");
  for (int cpu = 0; cpu < 8; cpu++) {
    snprintf(path, sizeof path, "cpu/cpu%d/topology/thread_siblings_list", cpu);
    snprintf(text, sizeof text, "%d,%d\n", cpu % 4, cpu % 4 + 4);
    folder_put(f, path, text);
  }
}

static cpu_set_t cpus(const char *list)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  for (; *list != '\0'; list++)
    CPU_SET(*list - '0', &set);
  return set;
}

/* The cpus listed, one digit each. */
static void expect(const struct folder *f, const char *allowed,
                   enum lls_cores_order order, const char *listed)
{
  struct lls_core cores[CPU_SETSIZE];
  char text[CPU_SETSIZE + 1] = "";
  cpu_set_t set = cpus(allowed);
  size_t n = lls_cores_list(f->path, &set, order, cores);
  for (size_t i = 0; i < n; i++)
    text[i] = (char)('0' + cores[i].cpu);
  assert_string_equal(text, listed);
}

static void test_two_sockets(void **state)
{
  const struct folder *f = *state;
  put_two_sockets(f);
  expect(f, "01234567", LLS_CORES_BY_NODE, "04152637"); /* halves are sockets */
  expect(f, "01234567", LLS_CORES_APART, "01234567");
}

/* A container may use some cpus only, and may lack the first one of a core. */
static void test_some_cpus(void **state)
{
  const struct folder *f = *state;
  put_two_sockets(f);
  expect(f, "13457", LLS_CORES_BY_NODE, "41537");
  expect(f, "13457", LLS_CORES_APART, "41357");
  expect(f, "67", LLS_CORES_APART, "67");
  expect(f, "", LLS_CORES_APART, "");
}

/* A machine that numbers hyper-threads side by side. */
static void test_adjacent(void **state)
{
  const struct folder *f = *state;
  folder_put(f, "node/node0/cpulist", "0-3\n");
  folder_put(f, "cpu/cpu0/topology/thread_siblings_list", "0-1\n");
  folder_put(f, "cpu/cpu1/topology/thread_siblings_list", "0-1\n");
  folder_put(f, "cpu/cpu2/topology/thread_siblings_list", "2-3\n");
  folder_put(f, "cpu/cpu3/topology/thread_siblings_list", "2-3\n");
  expect(f, "0123", LLS_CORES_BY_NODE, "0123");
  expect(f, "0123", LLS_CORES_APART, "0213");
}

/* Nothing described, and files that hold anything: the kernel's numbers. */
static void test_undescribed(void **state)
{
  const struct folder *f = *state;
  expect(f, "305", LLS_CORES_BY_NODE, "035");
  folder_put(f, "node/node0/cpulist", "\n"); /* a node of memory alone */
  folder_put(f, "node/node1/cpulist", "x,-7,3-,9999999999\n");
  folder_put(f, "node/nodes/cpulist", "3\n");
  folder_put(f, "cpu/cpu3/topology/thread_siblings_list", "");
  expect(f, "305", LLS_CORES_APART, "035");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_two_sockets, folder_setup, teardown),
      cmocka_unit_test_setup_teardown(test_some_cpus, folder_setup, teardown),
      cmocka_unit_test_setup_teardown(test_adjacent, folder_setup, teardown),
      cmocka_unit_test_setup_teardown(test_undescribed, folder_setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
