/* Copies lines from stdin to stdout, each with the time at which it came: nanoseconds of the monotonic clock. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(void) {
  static char in[65536];
  int fresh = 1;
  for (ssize_t got; (got = read(0, in, sizeof in)) > 0; fflush(stdout)) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (ssize_t i = 0; i < got; i++) {
      if (fresh) printf("%lld%09ld ", (long long)now.tv_sec, now.tv_nsec);
      fresh = in[i] == '\n';
      putchar(in[i]);
    }
  }
  return 0;
}
