/*
 * Owns the floor: the least that a program must do to send the same bytes to N sockets.
 *
 *   floor PORT STREAMS [write | tls CERTIFICATE KEY]
 *
 * With `tls` it speaks TLS through OpenSSL: the least that a program must do to send the same bytes to N sockets, encrypted.
 * With `write` it calls write(2), which looks at the file and its inode too, as programs must that know no send(2): libuv, and so Node.
 * It accepts that many connections, answers each request with one line, and then takes commands on standard input:
 *   send K SIZE   K documents of SIZE bytes to every socket, in one write each: "sent BEGAN ENDED", absolute nanoseconds
 *   stamped SIZE STAMP…   the same with documents that were written then: "sent BEGAN ENDED"
 *   run SECONDS K SIZE   the same again and again: "ran WRITES NANOSECONDS"
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* A document as our server frames it: an HTTP chunk with one line, which holds the marker. */
static size_t document(char *out, int size, uint64_t stamp) {
  char *p = out + sprintf(out, "%x\r\n{\"type\":\"change\",\"value\":\"@@%016llx", size, (unsigned long long)stamp);
  char *end = out + 5 + size;
  while (p < end - 3) *p++ = 'x';
  p += sprintf(p, "\"}\n\r\n");
  return (size_t)(p - out);
}

static size_t batch(char **out, int count, int size) {
  *out = realloc(*out, (size_t)count * (size_t)(size + 64));
  size_t used = 0;
  for (int i = 0; i < count; i++) used += document(*out + used, size, now());
  return used;
}

/* Documents of the moments that are named, in hexadecimal digits. */
static size_t stamped(char **out, int size, char *moments) {
  size_t count = 1, used = 0;
  for (char *at = moments; (at = strchr(at, ' ')); at++) count++;
  *out = realloc(*out, count * (size_t)(size + 64));
  for (char *word = strtok(moments, " \n"); word; word = strtok(NULL, " \n")) {
    used += document(*out + used, size, strtoull(word, NULL, 16));
  }
  return used;
}

static int by_write;
/* Of each socket, with TLS. */
static SSL **ssls;

static void send_all(const int *fds, int n, const char *bytes, size_t size) {
  for (int i = 0; i < n; i++) {
    for (size_t done = 0; done < size;) {
      const char *rest = bytes + done;
      ssize_t part = ssls       ? SSL_write(ssls[i], rest, (int)(size - done))
                     : by_write ? write(fds[i], rest, size - done) : send(fds[i], rest, size - done, MSG_NOSIGNAL);
      if (part < 0 || (ssls && part == 0)) {
        perror("floor: send");
        exit(1);
      }
      done += (size_t)part;
    }
  }
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  signal(SIGPIPE, SIG_IGN);
  by_write = argc > 3 && strcmp(argv[3], "write") == 0;
  SSL_CTX *tls = NULL;
  if (argc > 5 && strcmp(argv[3], "tls") == 0) {
    tls = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_use_certificate_chain_file(tls, argv[4]) != 1 || SSL_CTX_use_PrivateKey_file(tls, argv[5], SSL_FILETYPE_PEM) != 1)
      return fprintf(stderr, "floor: no certificate\n"), 1;
  }
  int n = atoi(argv[2]), one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 4096) < 0) return perror("floor"), 1;
  printf("listening\n");
  fflush(stdout);
  int *fds = malloc(sizeof *fds * (size_t)n);
  if (tls) ssls = calloc((size_t)n, sizeof *ssls);
  static char in[4096];
  static const char head[] = "HTTP/1.1 200 OK\r\n\r\n\"tail\"\n";
  for (int i = 0; i < n; i++) {
    fds[i] = accept(listener, NULL, NULL);
    if (fds[i] < 0) return perror("floor: accept"), 1;
    setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (tls) {
      ssls[i] = SSL_new(tls);
      SSL_set_fd(ssls[i], fds[i]);
      if (SSL_accept(ssls[i]) != 1 || SSL_read(ssls[i], in, sizeof in) <= 0) return fprintf(stderr, "floor: handshake\n"), 1;
      SSL_write(ssls[i], head, sizeof head - 1);
      continue;
    }
    if (recv(fds[i], in, sizeof in, 0) <= 0) return perror("floor: recv"), 1;
    send(fds[i], head, sizeof head - 1, MSG_NOSIGNAL);
  }
  static char line[1 << 18];
  char *bytes = NULL;
  int count, size, seconds, at_stamps;
  while (fgets(line, sizeof line, stdin)) {
    int stamps = sscanf(line, "stamped %d %n", &size, &at_stamps) == 1;
    if (stamps || sscanf(line, "send %d %d", &count, &size) == 2) {
      size_t used = stamps ? stamped(&bytes, size, line + at_stamps) : batch(&bytes, count, size);
      uint64_t began = now();
      send_all(fds, n, bytes, used);
      printf("sent %llu %llu\n", (unsigned long long)began, (unsigned long long)now());
    } else if (sscanf(line, "run %d %d %d", &seconds, &count, &size) == 3) {
      uint64_t began = now(), writes = 0;
      while (now() - began < (uint64_t)seconds * 1000000000ull) {
        size_t used = batch(&bytes, count, size);
        send_all(fds, n, bytes, used);
        writes += (uint64_t)n;
      }
      printf("ran %llu %llu\n", (unsigned long long)writes, (unsigned long long)(now() - began));
    }
    fflush(stdout);
  }
}
