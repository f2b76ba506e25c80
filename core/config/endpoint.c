/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares endpoints of ZeroMQ by what they bind: tcp://HOST:PORT by address and port,
 * where HOST is '*', an address, or the name of a network interface (zmq_tcp(7); names of
 * hosts are for clients); ipc://PATH by folder and name. Others are compared as text.
 */
#include "core/config/endpoint.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An address to bind, as IPv6; those of IPv4 are mapped (RFC 4291, 2.5.5.2). */
struct place {
  struct in6_addr address;
  bool any; /* every address, of IPv4 alone if `address` is mapped */
  long port;
};

static bool is_mapped(const struct place *p)
{
  return IN6_IS_ADDR_V4MAPPED(&p->address);
}

static void map(const struct in_addr *from, struct in6_addr *to)
{
  memset(to, 0, sizeof *to);
  to->s6_addr[10] = to->s6_addr[11] = 0xff;
  memcpy(to->s6_addr + 12, from, sizeof *from);
}

/* Finds the IPv4 address of a network interface. */
static bool find_interface(const char *name, struct in_addr *out)
{
  struct ifaddrs *all, *one;
  bool found = false;
  if (getifaddrs(&all) < 0)
    return false;
  for (one = all; one != NULL && !found; one = one->ifa_next) {
    found = one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET &&
            strcmp(one->ifa_name, name) == 0;
    if (found)
      *out = ((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr;
  }
  freeifaddrs(all);
  return found;
}

static bool read_host(const char *host, struct place *out)
{
  struct in_addr v4 = {0};
  bool all = strcmp(host, "*") == 0;
  if (!all && inet_pton(AF_INET6, host, &out->address) == 1) {
    out->any = IN6_IS_ADDR_UNSPECIFIED(&out->address);
    return true;
  }
  if (!all && inet_pton(AF_INET, host, &v4) != 1 && !find_interface(host, &v4))
    return false;
  map(&v4, &out->address);
  out->any = v4.s_addr == htonl(INADDR_ANY);
  return true;
}

/* Reads tcp://HOST:PORT. Returns false if it is something else, or if the system chooses
 * the port. */
static bool read_place(const char *endpoint, struct place *out)
{
  static const char tcp[] = "tcp://";
  char host[128];
  const char *begin = endpoint + sizeof tcp - 1, *colon = strrchr(endpoint, ':');
  if (strncmp(endpoint, tcp, sizeof tcp - 1) != 0 || colon < begin)
    return false;
  size_t length = (size_t)(colon - begin);
  bool brackets = length > 1 && begin[0] == '[' && colon[-1] == ']';
  *out = (struct place){.port = strtol(colon + 1, NULL, 10)};
  snprintf(host, sizeof host, "%.*s", (int)(length - (brackets ? 2 : 0)),
           begin + brackets);
  return out->port > 0 && read_host(host, out);
}

static bool places_clash(const struct place *a, const struct place *b)
{
  if (a->port != b->port)
    return false;
  if (a->any || b->any) /* a socket of every IPv6 address takes those of IPv4, too */
    return is_mapped(a) == is_mapped(b) || (a->any && !is_mapped(a)) ||
           (b->any && !is_mapped(b));
  return memcmp(&a->address, &b->address, sizeof a->address) == 0;
}

/* Reads ipc://PATH; `folder` gets the real path of the folder. Returns the file's name,
 * or NULL for another endpoint, or if the system chooses the name. */
static const char *read_path(const char *endpoint, char folder[PATH_MAX])
{
  static const char ipc[] = "ipc://";
  const char *path = endpoint + sizeof ipc - 1, *slash = strrchr(endpoint, '/');
  char given[PATH_MAX];
  if (strncmp(endpoint, ipc, sizeof ipc - 1) != 0 || path[0] == '@' ||
      strcmp(path, "*") == 0)
    return NULL;
  snprintf(given, sizeof given, "%.*s", slash < path ? 1 : (int)(slash - path) + 1,
           slash < path ? "." : path);
  return realpath(given, folder) != NULL ? slash + 1 : NULL;
}

/* True if the system chooses the port or the file: another one each time. */
static bool is_chosen(const char *endpoint)
{
  const char *last = strrchr(endpoint, ':');
  return last != NULL && (strcmp(last, ":*") == 0 || strcmp(last, ":0") == 0 ||
                          strcmp(last, "://*") == 0);
}

bool lls_endpoints_clash(const char *a, const char *b)
{
  struct place at, other;
  char folder[PATH_MAX], other_folder[PATH_MAX];
  if (read_place(a, &at) && read_place(b, &other))
    return places_clash(&at, &other);
  const char *name = read_path(a, folder), *other_name = read_path(b, other_folder);
  if (name != NULL && other_name != NULL)
    return strcmp(name, other_name) == 0 && strcmp(folder, other_folder) == 0;
  return strcmp(a, b) == 0 && !is_chosen(a);
}
