"""Thread pool in C: tiles shared by a counter, barriers between kernels, POSIX threads.

Every thread runs the whole program.  The tiles of a kernel are scheduled dynamically: a thread
takes the next chunk from a counter until none is left.  In a loop the counter goes on where the
last iteration stopped: every thread has taken one chunk too many, so iterations begin at fixed
distances.
"""

from __future__ import annotations

INCLUDES = """\
#include <pthread.h>
#include <sched.h>
"""

TEAM = """
enum {{ LAUNCHES = {launches}, CHUNKS = 16, SPINS = 4000 }};

typedef struct {{
  u64 threads;
  struct {{ u64 count, rest[7]; }} waiting, generation, taken[LAUNCHES]; /* a cache line each */
}} Team;

typedef struct {{
  Team *team;
  int calls; /* whether it is the thread that called: it runs serial steps */
  u64 start[LAUNCHES]; /* where the counter of each launch begins in this round */
}} Member;

static void share(Member *me, int launch, u64 tiles, void (*kernel)(u64, u64, char *const *),
                  char *const *operands) {{
  const u64 chunk = (tiles + CHUNKS - 1) / CHUNKS, chunks = (tiles + chunk - 1) / chunk;
  const u64 start = me->start[launch];
  me->start[launch] += (chunks + me->team->threads) * chunk;
  for (;;) {{
    u64 *taken = &me->team->taken[launch].count;
    const u64 begin = __atomic_fetch_add(taken, chunk, __ATOMIC_RELAXED) - start;
    if (begin >= tiles) return;
    kernel(begin, begin + chunk < tiles ? begin + chunk : tiles, operands);
  }}
}}

static void meet(Member *me) {{
  Team *team = me->team;
  const u64 now = __atomic_load_n(&team->generation.count, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&team->waiting.count, 1, __ATOMIC_ACQ_REL) == team->threads) {{
    __atomic_store_n(&team->waiting.count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&team->generation.count, now + 1, __ATOMIC_RELEASE);
    return;
  }}
  for (int turn = 0; __atomic_load_n(&team->generation.count, __ATOMIC_ACQUIRE) == now; ++turn) {{
    if (turn > SPINS) sched_yield();
  }}
}}
"""
"""Tile sharing and the barrier; the numbers are those of `render.driver`."""

POOL = """
static struct {{
  pthread_mutex_t call, lock; /* one call at a time; what follows */
  pthread_cond_t begun, done;
  int started, running;
  u64 job;
  char *const *buffers;
  char *arena;
  Team team;
}} pool = {{
  .call = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER,
  .begun = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER,
}};

static void take_part(int calls) {{
  Member me = {{&pool.team, calls, {{0}}}};
  (void)meet; /* a program of one step does not */
  {name}(&me, pool.buffers, pool.arena);
}}

static void *work(void *unused) {{
  (void)unused;
  pthread_mutex_lock(&pool.lock);
  for (u64 seen = 0;; seen = pool.job) {{
    while (pool.job == seen) pthread_cond_wait(&pool.begun, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    take_part(0);
    pthread_mutex_lock(&pool.lock);
    if (!--pool.running) pthread_cond_signal(&pool.done);
  }}
  return 0;
}}

/* Workers are started by the first call, as many as there can be, and wait for the next. */
static void run_together(char *const *buffers, char *arena) {{
  pthread_mutex_lock(&pool.call);
  pthread_t thread;
  while (pool.started < {threads} - 1 && !pthread_create(&thread, 0, work, 0)) {{
    pthread_detach(thread);
    ++pool.started;
  }}
  pthread_mutex_lock(&pool.lock);
  const Team fresh = {{.threads = (u64)pool.started + 1}};
  pool.team = fresh;
  pool.buffers = buffers;
  pool.arena = arena;
  pool.running = pool.started;
  ++pool.job;
  pthread_cond_broadcast(&pool.begun);
  pthread_mutex_unlock(&pool.lock);
  take_part(1);
  pthread_mutex_lock(&pool.lock);
  while (pool.running) pthread_cond_wait(&pool.done, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
  pthread_mutex_unlock(&pool.call);
}}
"""
"""The pool: the caller, and workers that wait for its next call."""
