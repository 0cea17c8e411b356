/*
 * Owns the load: opens thousands of streams from one thread and counts what arrives on each, at little cost of its own.
 *
 *   load [tls+|resume+]http|nats|grpc|gateway|bytes HOST PORT STREAMS REQUEST-FILE [READY-TEXT]
 *
 * With `tls+` every stream makes a full handshake. With `resume+` the first stream does, and the others resume its session, as a returning
 * fleet does. NATS speaks its first line in the clear and TLS after it.
 *
 * With `bytes` READY-TEXT is a number of bytes, and what arrives is thrown away unseen: for listings of gigabytes. `gateway` is
 * HTTP whose documents stand there in base64. Where the request has "########", each stream sends its own number.
 *
 * Every document carries a marker, "@@" and sixteen hexadecimal digits: the monotonic time, in nanoseconds, at which it was
 * written. Counting markers is the same work for every protocol.
 *
 * It says "ready NS RESUMED" once every stream has been answered (READY-TEXT was seen on it): NS is the time since the first connect,
 * RESUMED the number of streams that resumed a TLS session.
 * Then it takes commands on standard input:
 *   expect K   "expecting" at once; when each stream that reads has K more markers than then: "reached FIRST P50 P99 LAST", absolute nanoseconds
 *   count      "count MARKERS BYTES NOW"
 *   lag        "lag SAMPLES P50 P99 MAX" since the last such command, in nanoseconds, from one stream in sixteen
 *   stall M    the first M streams are not read any more
 *   awake 0|1  whether it polls without ever sleeping: "awake 0|1"
 *   quit
 *
 * A receiver that sleeps has to be woken by whoever writes to it, and on a virtual machine that may cost more than the write: a price of the
 * machine, which real receivers, on machines of their own, do not take from the program under test. So while something is measured, the one
 * generator that receives it is awake and all others sleep, where nothing comes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum protocol { HTTP, NATS, GRPC, GATEWAY, BYTES };

struct stream {
  int fd;
  /* With TLS; `greeted` is set once a NATS server has sent its line in the clear, `secured` after the handshake. */
  SSL *ssl;
  int greeted, secured;
  int ready, sent, stalled;
  /* The last bytes of the read before, in which the awaited text may begin. */
  char before[16];
  int matched;
  uint64_t markers, target, reached, bytes;
  /* A marker that a read cut in two: how many of its characters have come, and its number so far. */
  int part;
  uint64_t stamp;
  /* HTTP/2 frames: header bytes seen, payload left, kind. */
  unsigned char head[9];
  int have;
  uint32_t left;
  /* NATS: the line that is being read; with the gateway, a marker in base64. */
  char line[192];
  int length;
};

static enum protocol protocol;
static SSL_CTX *tls;
static int resumes, resumed_count;
static SSL_SESSION *session;
static struct stream *streams;
static int total, ready_count, open_count, epoll_fd, awake;
static char *request, *ready_text;
static size_t request_size, ready_size;
static long long ready_bytes;
/* Where a stream's number goes in the request. */
static char *numbered[16];
static int numbered_count;
static uint64_t markers, bytes_read, waiting_for;
static struct sockaddr_in to;

static char buffer[1 << 18];

#define LAGS 1000000
static uint64_t *lags;
static int lag_count;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void die(const char *what) {
  fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static int keep_session(SSL *ssl, SSL_SESSION *given) {
  (void)ssl;
  if (session || !resumes) return 0;
  session = given;
  return 1;
}

static void set_up_tls(void) {
  tls = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(tls, keep_session);
}

static void start_tls(struct stream *s) {
  s->ssl = SSL_new(tls);
  SSL_set_fd(s->ssl, s->fd);
  SSL_set_connect_state(s->ssl);
  if (!session) return;
  /* A copy: after one use OpenSSL would call the session itself used up. */
  SSL_SESSION *copy = SSL_SESSION_dup(session);
  SSL_set_session(s->ssl, copy);
  SSL_SESSION_free(copy);
}

/* Like recv and send; an answer of TLS that the caller should try again is EAGAIN. */
static ssize_t through_tls(struct stream *s, int n) {
  if (n > 0) return n;
  int why = SSL_get_error(s->ssl, n);
  if (why == SSL_ERROR_ZERO_RETURN) return 0;
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) errno = EAGAIN;
  else if (why == SSL_ERROR_SSL) errno = EPROTO;
  return -1;
}

static ssize_t receive(struct stream *s, void *to_buffer, size_t size, int flags) {
  if (!s->ssl) return recv(s->fd, to_buffer, size, flags);
  return through_tls(s, SSL_read(s->ssl, to_buffer, (int)size));
}

static ssize_t transmit(struct stream *s, const void *bytes, size_t size) {
  if (!s->ssl) return send(s->fd, bytes, size, MSG_NOSIGNAL);
  return through_tls(s, SSL_write(s->ssl, bytes, (int)size));
}

static void open_stream(int index) {
  struct stream *s = &streams[index];
  s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (s->fd < 0) die("socket");
  int one = 1;
  setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  /* One source address has some 28,000 ports to one server: spread over several. */
  struct sockaddr_in from = {.sin_family = AF_INET};
  from.sin_addr.s_addr = htonl(0x7f000001u + 1 + (uint32_t)index / 16000 + (uint32_t)(getpid() % 200) * 4);
  setsockopt(s->fd, IPPROTO_IP, 24 /* IP_BIND_ADDRESS_NO_PORT */, &one, sizeof one);
  bind(s->fd, (struct sockaddr *)&from, sizeof from);
  if (connect(s->fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) die("connect");
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)index};
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->fd, &e) < 0) die("epoll_ctl");
  open_count++;
}

static void reach(struct stream *s) {
  if (s->target && !s->reached && s->markers >= s->target) {
    s->reached = now();
    waiting_for--;
  }
}

static void mark(struct stream *s, int sampled) {
  s->markers++;
  markers++;
  if (sampled && lag_count < LAGS) {
    uint64_t t = now();
    if (t > s->stamp) lags[lag_count++] = t - s->stamp;
  }
}

/* Finds markers; those that a read cuts in two are finished by the next. */
static void scan(struct stream *s, const char *p, size_t n) {
  int sampled = ((s - streams) & 15) == 0;
  const char *end = p + n;
  while (p < end) {
    if (s->part == 0) {
      p = memchr(p, '@', (size_t)(end - p));
      if (!p) return;
      p++;
      s->part = 1;
    } else if (s->part == 1) {
      s->part = *p == '@' ? 2 : 0;
      s->stamp = 0;
      p++;
    } else {
      char c = *p++;
      int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) {
        s->part = 0;
        continue;
      }
      s->stamp = s->stamp << 4 | (uint64_t)digit;
      if (++s->part == 18) {
        s->part = 0;
        mark(s, sampled);
      }
    }
  }
}

static int sextet(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The same where documents are in base64. A marker begins its document: its 18 bytes are 24 characters, the first "QEA". */
static void scan_base64(struct stream *s, const char *p, size_t n) {
  int sampled = ((s - streams) & 15) == 0;
  const char *end = p + n;
  while (p < end) {
    if (s->length == 0) {
      p = memchr(p, 'Q', (size_t)(end - p));
      if (!p) return;
    }
    char c = *p++;
    if (s->length < 3 ? c != "QEA"[s->length] : sextet(c) < 0) {
      s->length = 0;
      continue;
    }
    s->line[s->length++] = c;
    if (s->length < 24) continue;
    s->length = 0;
    s->stamp = 0;
    for (int i = 0; i < 24; i += 4) {
      uint32_t three = 0;
      for (int k = 0; k < 4; k++) three = three << 6 | (uint32_t)sextet(s->line[i + k]);
      for (int k = 0; k < 3; k++) {
        char d = (char)(three >> (16 - 8 * k));
        if (d != '@') s->stamp = s->stamp << 4 | (uint64_t)(d <= '9' ? d - '0' : d - 'a' + 10);
      }
    }
    mark(s, sampled);
  }
}

static void be_ready(struct stream *s) {
  if (s->ready) return;
  s->ready = 1;
  ready_count++;
}

/* Whether the text has been seen on this stream, also across reads. */
static void look_for_ready(struct stream *s, const char *p, size_t n) {
  char seam[2 * sizeof s->before];
  size_t head = n < sizeof s->before ? n : sizeof s->before;
  memcpy(seam, s->before, (size_t)s->matched);
  memcpy(seam + s->matched, p, head);
  if (memmem(seam, (size_t)s->matched + head, ready_text, ready_size) || memmem(p, n, ready_text, ready_size)) {
    be_ready(s);
    return;
  }
  size_t keep = n < sizeof s->before ? n : sizeof s->before;
  memcpy(s->before, p + n - keep, keep);
  s->matched = (int)keep;
}

static void answer(struct stream *s, const char *text, size_t size) {
  if (transmit(s, text, size) != (ssize_t)size) die("answer");
}

/* What a client of NATS does about a line: answers pings and the server's flow control, learns how long a message is. */
static void nats_line(struct stream *s) {
  char *line = s->line, *words[6] = {0};
  if (!s->ready && strstr(line, ready_text)) be_ready(s);
  if (!strncmp(line, "PING", 4)) return answer(s, "PONG\r\n", 6);
  if (!strncmp(line, "-ERR", 4)) {
    fprintf(stderr, "load: %s\n", line);
    exit(1);
  }
  int headed = !strncmp(line, "HMSG ", 5), count = 0;
  if (!headed && strncmp(line, "MSG ", 4)) return;
  for (char *word = strtok(line, " \r\n"); word && count < 6; word = strtok(NULL, " \r\n")) words[count++] = word;
  s->left = (uint32_t)atoi(words[count - 1]) + 2;
  /* Headers, a subject to answer to and no content: the server asks whether we keep up. */
  if (headed && count == 6 && !strcmp(words[4], words[5])) {
    char reply[256];
    answer(s, reply, (size_t)snprintf(reply, sizeof reply, "PUB %s 0\r\n\r\n", words[3]));
  }
}

static void messages(struct stream *s, const char *p, size_t n) {
  while (n > 0) {
    size_t part = n < s->left ? n : s->left;
    if (part > 0) {
      if (!s->ready) look_for_ready(s, p, part);
      scan(s, p, part);
      s->left -= (uint32_t)part;
    } else {
      const char *end = memchr(p, '\n', n);
      part = end ? (size_t)(end - p) + 1 : n;
      size_t room = sizeof s->line - 1 - (size_t)s->length, take = part < room ? part : room;
      memcpy(s->line + s->length, p, take);
      s->length += (int)take;
      if (end) {
        s->line[s->length] = 0;
        s->length = 0;
        nats_line(s);
      }
    }
    p += part;
    n -= part;
  }
}

/* Enough of HTTP/2: acknowledge settings and pings, look into data, pass over the rest. */
static void frames(struct stream *s, const unsigned char *p, size_t n) {
  while (n > 0) {
    if (s->have < 9) {
      s->head[s->have++] = *p++;
      n--;
      if (s->have < 9) continue;
      s->left = (uint32_t)s->head[0] << 16 | (uint32_t)s->head[1] << 8 | s->head[2];
      if (s->head[3] == 4 && !(s->head[4] & 1)) {
        static const unsigned char ack[9] = {0, 0, 0, 4, 1, 0, 0, 0, 0};
        if (transmit(s, ack, 9) < 0) die("write");
      }
      if (s->head[3] == 0 && s->left > 0) be_ready(s);
      if (s->left == 0) s->have = 0;
      continue;
    }
    size_t part = n < s->left ? n : s->left;
    if (s->head[3] == 0) scan(s, (const char *)p, part);
    if (s->head[3] == 6 && !(s->head[4] & 1) && part == 8) {
      unsigned char pong[17] = {0, 0, 8, 6, 1, 0, 0, 0, 0};
      memcpy(pong + 9, p, 8);
      if (transmit(s, pong, 17) < 0) die("write");
    }
    p += part;
    n -= part;
    s->left -= (uint32_t)part;
    if (s->left == 0) s->have = 0;
  }
}

static void read_stream(struct stream *s) {
  for (;;) {
    ssize_t n = receive(s, buffer, sizeof buffer, protocol == BYTES ? MSG_TRUNC : 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      fprintf(stderr, "load: a stream ended (%s) after %llu markers, %d of %d streams answered: %.200s\n",
              n < 0 ? strerror(errno) : "closed", (unsigned long long)s->markers, ready_count, total, s->ready ? "" : buffer);
      exit(1);
    }
    bytes_read += (uint64_t)n;
    s->bytes += (uint64_t)n;
    if (protocol == BYTES) {
      if (s->bytes >= (uint64_t)ready_bytes) be_ready(s);
    } else if (protocol == GRPC) frames(s, (unsigned char *)buffer, (size_t)n);
    else if (protocol == NATS) messages(s, buffer, (size_t)n);
    else {
      if (!s->ready) look_for_ready(s, buffer, (size_t)n);
      /* An answer that is no stream says why. */
      if (!s->ready && n > 12 && !strncmp(buffer, "HTTP/1.1 ", 9) && buffer[9] != '2') {
        fprintf(stderr, "load: refused, %d of %d streams answered: %.*s\n", ready_count, total, n < 400 ? (int)n : 400, buffer);
        exit(1);
      }
      if (protocol == GATEWAY) scan_base64(s, buffer, (size_t)n);
      else scan(s, buffer, (size_t)n);
    }
    reach(s);
    if ((size_t)n < sizeof buffer) return;
  }
}

/* Whether the stream is ready for its request: at once without TLS, after the handshake with it. */
static int is_secured(struct stream *s, int index) {
  if (!tls || s->secured) return 1;
  if (!s->ssl) {
    if (protocol == NATS && !s->greeted) {
      struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
      epoll_ctl(epoll_fd, EPOLL_CTL_MOD, s->fd, &e);
      ssize_t n = recv(s->fd, buffer, sizeof buffer, 0);
      if (n < 0 && errno == EAGAIN) return 0;
      if (n <= 0) die("greeting");
      if (!memchr(buffer, '\n', (size_t)n)) return 0;
      s->greeted = 1;
    }
    start_tls(s);
  }
  int n = SSL_do_handshake(s->ssl);
  if (n == 1) {
    s->secured = 1;
    resumed_count += SSL_session_reused(s->ssl);
    return 1;
  }
  int why = SSL_get_error(s->ssl, n);
  if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) die("handshake");
  struct epoll_event e = {.events = why == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)index};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, s->fd, &e);
  return 0;
}

static void send_request(int index) {
  struct stream *s = &streams[index];
  if (!s->sent && is_secured(s, index)) {
    char number[9];
    snprintf(number, sizeof number, "%08d", index);
    for (int i = 0; i < numbered_count; i++) memcpy(numbered[i], number, 8);
    ssize_t n = transmit(s, request, request_size);
    if (n < 0 && errno == EAGAIN) return;
    if (n != (ssize_t)request_size) die("send");
    s->sent = 1;
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, s->fd, &e);
  }
}

static void expect(uint64_t more) {
  waiting_for = 0;
  for (int i = 0; i < total; i++) {
    struct stream *s = &streams[i];
    s->reached = 0;
    s->target = 0;
    if (s->stalled) continue;
    s->target = s->markers + more;
    waiting_for++;
  }
}

static void tell_reached(void) {
  uint64_t *times = malloc(sizeof *times * (size_t)total);
  int n = 0;
  for (int i = 0; i < total; i++)
    if (streams[i].reached) times[n++] = streams[i].reached;
  qsort(times, (size_t)n, sizeof *times, ascending);
  printf("reached %llu %llu %llu %llu\n", (unsigned long long)times[0], (unsigned long long)times[n / 2],
         (unsigned long long)times[(int)(n * 0.99)], (unsigned long long)times[n - 1]);
  fflush(stdout);
  free(times);
}

static void tell_lag(void) {
  qsort(lags, (size_t)lag_count, sizeof *lags, ascending);
  uint64_t p50 = lag_count ? lags[lag_count / 2] : 0, p99 = lag_count ? lags[(int)(lag_count * 0.99)] : 0;
  printf("lag %d %llu %llu %llu\n", lag_count, (unsigned long long)p50, (unsigned long long)p99,
         (unsigned long long)(lag_count ? lags[lag_count - 1] : 0));
  fflush(stdout);
  lag_count = 0;
}

static void command(char *line, int *expecting) {
  unsigned long long number = 0;
  if (sscanf(line, "expect %llu", &number) == 1) {
    expect(number);
    *expecting = 1;
    printf("expecting\n");
    fflush(stdout);
  } else if (!strncmp(line, "count", 5)) {
    printf("count %llu %llu %llu\n", (unsigned long long)markers, (unsigned long long)bytes_read, (unsigned long long)now());
    fflush(stdout);
  } else if (!strncmp(line, "lag", 3)) tell_lag();
  else if (sscanf(line, "stall %llu", &number) == 1) {
    for (int i = 0; i < (int)number && i < total; i++) {
      streams[i].stalled = 1;
      epoll_ctl(epoll_fd, EPOLL_CTL_DEL, streams[i].fd, NULL);
    }
    printf("stalled\n");
    fflush(stdout);
  } else if (sscanf(line, "awake %d", &awake) == 1) {
    printf("awake %d\n", awake);
    fflush(stdout);
  } else if (!strncmp(line, "quit", 4)) exit(0);
}

static void read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) die(path);
  request = malloc(1 << 16);
  request_size = fread(request, 1, 1 << 16, f);
  fclose(f);
  for (char *at = request; numbered_count < 16; at += 8) {
    at = memmem(at, request_size - (size_t)(at - request), "########", 8);
    if (!at) break;
    numbered[numbered_count++] = at;
  }
}

int main(int argc, char **argv) {
  if (argc < 6) return fprintf(stderr, "usage: load [tls+|resume+]http|nats|grpc|gateway|bytes HOST PORT STREAMS REQUEST-FILE [READY-TEXT]\n"), 2;
  signal(SIGPIPE, SIG_IGN);
  static const char *const names[] = {"http", "nats", "grpc", "gateway", "bytes"};
  const char *plus = strchr(argv[1], '+');
  resumes = !strncmp(argv[1], "resume+", 7);
  if (plus) set_up_tls();
  for (int i = 0; i < 5; i++)
    if (!strcmp(plus ? plus + 1 : argv[1], names[i])) protocol = (enum protocol)i;
  to.sin_family = AF_INET;
  to.sin_port = htons((uint16_t)atoi(argv[3]));
  inet_pton(AF_INET, argv[2], &to.sin_addr);
  total = atoi(argv[4]);
  read_file(argv[5]);
  ready_text = argc > 6 ? argv[6] : "";
  ready_size = strlen(ready_text);
  ready_bytes = atoll(ready_text);
  streams = calloc((size_t)total, sizeof *streams);
  lags = malloc(sizeof *lags * LAGS);
  epoll_fd = epoll_create1(0);
  struct epoll_event in = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, 0, &in);
  fcntl(0, F_SETFL, O_NONBLOCK);

  uint64_t began = now();
  int told = 0, expecting = 0;
  char line[256];
  size_t have = 0;
  for (;;) {
    /* At most so many that are connected and not yet answered. */
    /* A session comes with the first answer: those that resume it wait for that. */
    int together = resumes && !session ? 1 : 512;
    while (open_count < total && open_count - ready_count < together) open_stream(open_count);
    if (!told && ready_count == total) {
      told = 1;
      printf("ready %llu %d\n", (unsigned long long)(now() - began), resumed_count);
      fflush(stdout);
    }
    struct epoll_event events[1024];
    int n = epoll_wait(epoll_fd, events, 1024, awake ? 0 : -1);
    for (int i = 0; i < n; i++) {
      uint32_t index = events[i].data.u32;
      if (index != UINT32_MAX) {
        struct stream *s = &streams[index];
        if ((events[i].events & EPOLLOUT) || (tls && !s->sent)) send_request((int)index);
        if (s->sent && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) read_stream(s);
        continue;
      }
      ssize_t got = read(0, line + have, sizeof line - have - 1);
      if (got == 0) exit(0);
      if (got < 0) continue;
      have += (size_t)got;
      line[have] = 0;
      for (char *end; (end = strchr(line, '\n'));) {
        *end = 0;
        command(line, &expecting);
        have -= (size_t)(end + 1 - line);
        memmove(line, end + 1, have + 1);
      }
    }
    if (expecting && waiting_for == 0) {
      expecting = 0;
      tell_reached();
    }
  }
}
