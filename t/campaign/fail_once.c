/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a server under test: lets one allocation, or one call of the system,
 * fail. Each call has a place, a hash of the callers above it; a first run records which
 * places there are, and each further run fails the first call at one of them. LLS_FAIL
 * names the file that both sides map (struct control), so that a test may arm it while a
 * server runs.
 *
 * Places and not counts, since threads come in any order: a hash means the same place in
 * the next run where addresses do (setarch -R). Six callers tell some thousand places of
 * a start apart.
 *
 * Invariant: no memory is taken and nothing is locked between a call and its failure.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_PLACES 65536 /* of a table that is a hash table: a power of two */
#define DEEPEST     16

enum { OFF, RECORD, FAIL };
enum { ALLOC = 1, IO = 2, SHORT = 4 };

/* As t/campaign/Faults.pm packs it. */
struct control {
  _Atomic uint32_t mode, kinds, depth, failed;
  _Atomic uint64_t wanted;
  _Atomic int64_t live;      /* blocks taken and not given back */
  _Atomic uint32_t n, shows; /* shows: the callers of what fails go to stderr */
  _Atomic uint64_t owner;    /* whose blocks `live` counts, not those of its children */
  _Atomic uint64_t places[MOST_PLACES];
};

static struct control nobody, *control = &nobody;
static bool is_owner;
static _Thread_local bool busy; /* within this file */

__attribute__((constructor(101))) static void begin(void)
{
  void *frame;
  const char *path = getenv("LLS_FAIL");
  int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
  busy = true;
  backtrace(&frame, 1); /* takes memory the first time */
  if (fd >= 0) {
    void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED)
      control = at;
    close(fd);
  }
  uint64_t nobody_yet = 0;
  is_owner =
      atomic_compare_exchange_strong(&control->owner, &nobody_yet, (uint64_t)getpid());
  busy = false;
}

static void record(uint64_t place)
{
  for (uint64_t i = place % MOST_PLACES, tries = 0; tries < MOST_PLACES / 2; tries++) {
    uint64_t none = 0;
    if (control->places[i] == place)
      return;
    if (atomic_compare_exchange_strong(&control->places[i], &none, place)) {
      control->n++;
      return;
    }
    i = (i + 1) % MOST_PLACES;
  }
}

static bool is_wanted(void **frames, int n, uint32_t kind)
{
  uint64_t place = 1469598103934665603u ^ kind; /* FNV-1a */
  for (int i = 0; i < n; i++)
    place = (place ^ (uintptr_t)frames[i]) * 1099511628211u;
  place += place == 0;
  if (control->mode == RECORD)
    record(place);
  return control->mode == FAIL && place == control->wanted;
}

/* True if this call is the one to fail. */
__attribute__((noinline)) static bool fails(uint32_t kind)
{
  void *frames[DEEPEST + 2];
  if (busy || control->mode == OFF || (control->kinds & kind) == 0)
    return false;
  int error = errno;
  busy = true;
  int n = backtrace(frames, (int)(2 + control->depth % (DEEPEST + 1)));
  bool now = n > 2 && is_wanted(frames + 2, n - 2, kind) &&
             atomic_fetch_add(&control->failed, 1) == 0;
  if (now && control->shows)
    backtrace_symbols_fd(frames + 1, n - 1, 2);
  busy = false;
  errno = error;
  return now;
}

/* ---- memory ------------------------------------------------------------------------ */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t),
    *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static void *none(void)
{
  errno = ENOMEM;
  return NULL;
}

static void count(int64_t blocks)
{
  if (is_owner && !busy)
    control->live += blocks;
}

static void *taken(void *block)
{
  count(block != NULL);
  return block;
}

__attribute__((noinline)) void *malloc(size_t n)
{
  return fails(ALLOC) ? none() : taken(__libc_malloc(n));
}
__attribute__((noinline)) void *calloc(size_t n, size_t size)
{
  return fails(ALLOC) ? none() : taken(__libc_calloc(n, size));
}

void *realloc(void *block, size_t n)
{
  if (n > 0 && fails(ALLOC))
    return none();
  void *at = __libc_realloc(block, n);
  if (block == NULL)
    return taken(at);
  if (n == 0)
    count(-1);
  return at;
}

void free(void *block)
{
  count(-(block != NULL));
  __libc_free(block);
}

void *memalign(size_t align, size_t n)
{
  return fails(ALLOC) ? none() : taken(__libc_memalign(align, n));
}
void *aligned_alloc(size_t align, size_t n)
{
  return fails(ALLOC) ? none() : taken(__libc_memalign(align, n));
}

int posix_memalign(void **out, size_t align, size_t n)
{
  if (fails(ALLOC))
    return ENOMEM;
  void *block = taken(__libc_memalign(align, n));
  if (block == NULL)
    return ENOMEM;
  *out = block;
  return 0;
}

/* ---- the system -------------------------------------------------------------------- */

/* The next function of that name in the order of libraries, looked up once. */
#define NEXT(name)                                                                       \
  static __typeof__(name) *next;                                                         \
  if (next == NULL) {                                                                    \
    bool was = busy;                                                                     \
    busy = true;                                                                         \
    next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                                  \
    busy = was;                                                                          \
  }
#define FAILS_WITH(error, value)                                                         \
  if (fails(IO)) {                                                                       \
    errno = (error);                                                                     \
    return value;                                                                        \
  }
/* A function whose failure is `value` and errno. */
#define FAILING(type, name, parameters, arguments, error, value)                         \
  type name parameters                                                                   \
  {                                                                                      \
    NEXT(name)                                                                           \
    FAILS_WITH(error, value)                                                             \
    return next arguments;                                                               \
  }
/* An eventfd or a pipe has no medium that could fail. */
static bool is_medium(int fd)
{
  struct stat st;
  bool was = busy;
  busy = true;
  bool has = fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) != 0 && !S_ISFIFO(st.st_mode);
  busy = was;
  return has;
}

/* One that may also do half of what it was asked for. */
#define HALVING(name, parameters, arguments, error)                                      \
  ssize_t name parameters                                                                \
  {                                                                                      \
    NEXT(name)                                                                           \
    if (control->mode == OFF || busy || !is_medium(fd))                                  \
      return next arguments;                                                             \
    FAILS_WITH(error, -1)                                                                \
    if (n > 1 && fails(SHORT))                                                           \
      n /= 2;                                                                            \
    return next arguments;                                                               \
  }

HALVING(read, (int fd, void *to, size_t n), (fd, to, n), EIO)
HALVING(pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), EIO)
HALVING(pread64, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), EIO)
HALVING(write, (int fd, const void *from, size_t n), (fd, from, n), ENOSPC)
HALVING(pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at), ENOSPC)
HALVING(pwrite64, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at),
        ENOSPC)

ssize_t __read_chk(int fd, void *to, size_t n, size_t room);
ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
  (void)room;
  return read(fd, to, n);
}
ssize_t __pread_chk(int fd, void *to, size_t n, off_t at, size_t room);
ssize_t __pread_chk(int fd, void *to, size_t n, off_t at, size_t room)
{
  (void)room;
  return pread(fd, to, n, at);
}

FAILING(FILE *, fopen, (const char *path, const char *how), (path, how), EMFILE, NULL)
FAILING(FILE *, fopen64, (const char *path, const char *how), (path, how), EMFILE, NULL)
FAILING(FILE *, fdopen, (int fd, const char *how), (fd, how), EMFILE, NULL)
FAILING(DIR *, opendir, (const char *path), (path), EMFILE, NULL)
FAILING(int, fstat, (int fd, struct stat *st), (fd, st), EIO, -1)
FAILING(int, stat, (const char *path, struct stat *st), (path, st), EIO, -1)
FAILING(int, lstat, (const char *path, struct stat *st), (path, st), EIO, -1)
FAILING(int, access, (const char *path, int how), (path, how), EIO, -1)
FAILING(off_t, lseek, (int fd, off_t at, int whence), (fd, at, whence), EIO, -1)
FAILING(int, ftruncate, (int fd, off_t n), (fd, n), ENOSPC, -1)
FAILING(int, fsync, (int fd), (fd), EIO, -1)
FAILING(int, fdatasync, (int fd), (fd), EIO, -1)
FAILING(int, rename, (const char *from, const char *to), (from, to), ENOSPC, -1)
FAILING(int, mkdir, (const char *path, mode_t mode), (path, mode), ENOSPC, -1)
FAILING(int, memfd_create, (const char *name, unsigned flags), (name, flags), EMFILE, -1)
FAILING(int, pipe2, (int fds[2], int flags), (fds, flags), EMFILE, -1)
FAILING(int, socket, (int family, int type, int protocol), (family, type, protocol),
        EMFILE, -1)
FAILING(int, listen, (int fd, int n), (fd, n), EADDRINUSE, -1)
FAILING(char *, realpath, (const char *path, char *real), (path, real), EIO, NULL)
FAILING(void *, mmap, (void *at, size_t n, int protection, int flags, int fd, off_t from),
        (at, n, protection, flags, fd, from), ENOMEM, MAP_FAILED)
FAILING(int, mprotect, (void *at, size_t n, int protection), (at, n, protection), ENOMEM,
        -1)

/* These return what went wrong. */
int pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*run)(void *),
                   void *context)
{
  NEXT(pthread_create)
  return fails(IO) ? EAGAIN : next(out, how, run, context);
}

int posix_spawn(pid_t *out, const char *path, const posix_spawn_file_actions_t *files,
                const posix_spawnattr_t *how, char *const arguments[],
                char *const environment[])
{
  NEXT(posix_spawn)
  return fails(IO) ? EAGAIN : next(out, path, files, how, arguments, environment);
}

/* The stream remembers an error, as ferror has it. */
size_t fread(void *to, size_t size, size_t n, FILE *file)
{
  NEXT(fread)
  if (fails(IO)) {
    errno = EIO;
    file->_flags |= 0x20; /* _IO_ERR_SEEN of glibc's stdio */
    return 0;
  }
  return next(to, size, n, file);
}

size_t fwrite(const void *from, size_t size, size_t n, FILE *file)
{
  NEXT(fwrite)
  if (fails(IO)) {
    errno = ENOSPC;
    file->_flags |= 0x20;
    return 0;
  }
  return next(from, size, n, file);
}

int fflush(FILE *file)
{
  NEXT(fflush)
  if (file != NULL && fails(IO)) {
    errno = ENOSPC;
    file->_flags |= 0x20;
    return EOF;
  }
  return next(file);
}

char *fgets(char *to, int n, FILE *file)
{
  NEXT(fgets)
  if (fails(IO)) {
    errno = EIO;
    file->_flags |= 0x20;
    return NULL;
  }
  return next(to, n, file);
}

/* With a mode where a file is made. */
#define OPENING(name, parameters, arguments, with_mode)                                  \
  int name parameters                                                                    \
  {                                                                                      \
    NEXT(name)                                                                           \
    mode_t mode = 0;                                                                     \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                 \
      __builtin_va_list list;                                                            \
      __builtin_va_start(list, flags);                                                   \
      mode = __builtin_va_arg(list, mode_t);                                             \
      __builtin_va_end(list);                                                            \
    }                                                                                    \
    FAILS_WITH(EMFILE, -1)                                                               \
    return next with_mode;                                                               \
  }
OPENING(open, (const char *path, int flags, ...), (path, flags), (path, flags, mode))
OPENING(open64, (const char *path, int flags, ...), (path, flags), (path, flags, mode))
OPENING(openat, (int at, const char *path, int flags, ...), (at, path, flags),
        (at, path, flags, mode))
