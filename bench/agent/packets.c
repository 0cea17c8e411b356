/*
 * Sends TCP openings on an interface, each of another flow, and tells what they took: nanoseconds of the processor per packet, sending
 * and receiving together, because the far end of a virtual cable is served by whoever sends. A fifth as many go before, uncounted, so that
 * caches are as full as they get. Prints two figures: of slices of 250 packets the one that a tenth of them stays below, which is what a
 * packet costs while nobody else uses the processor's core, and the mean of all.
 * With a seventh argument it sends segments of connections that exist already, one from each range, instead of openings.
 * Arguments: interface, hardware address of the far end, packets, ranges, ports, first port.
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint16_t sum(const void *data, int length) {
  uint32_t total = 0;
  for (int i = 0; i < length / 2; i++) {
    /* Copied: read through a pointer of another type, the compiler takes what was written before for unread, and the sum is wrong. */
    uint16_t word;
    memcpy(&word, (const char *)data + 2 * i, sizeof word);
    total += word;
  }
  while (total >> 16) total = (total & 0xffff) + (total >> 16);
  return ~total;
}

#define SLICE 250

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return at.tv_sec * 1e9 + at.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc < 7) return 2;
  const long packets = atol(argv[3]), ranges = atol(argv[4]), ports = atol(argv[5]), first = atol(argv[6]);
  const int established = argc > 7;
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
  struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(argv[1]), .sll_halen = 6};
  unsigned char frame[54] = {0};
  unsigned int mac[6];
  if (sscanf(argv[2], "%x:%x:%x:%x:%x:%x", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) != 6) return 2;
  for (int i = 0; i < 6; i++) frame[i] = to.sll_addr[i] = mac[i];
  frame[6] = 2;
  frame[12] = 8;
  struct iphdr *ip = (void *)(frame + 14);
  struct tcphdr *tcp = (void *)(frame + 34);
  *ip = (struct iphdr){.ihl = 5, .version = 4, .ttl = 64, .protocol = IPPROTO_TCP, .tot_len = htons(40)};
  ip->daddr = inet_addr("100.64.0.1");
  tcp->doff = 5;
  tcp->syn = !established;
  tcp->ack = established;
  tcp->window = htons(1000);
  uint64_t state = 88172645463325252ull;
  double *slices = calloc(packets / SLICE + 1, sizeof *slices), total = 0, from = 0;
  long sliced = 0;
  const long warm = packets / 5;
  for (long n = -warm; n < packets; n++) {
    if (n >= 0 && n % SLICE == 0) {
      double at = now();
      if (n > 0) total += slices[sliced++] = (at - from) / SLICE;
      from = at;
    }
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    long range = ranges > 0 ? (long)(state % (uint64_t)ranges) : (long)(state % 10000);
    long used = ranges > 0 && ranges < ports ? ranges : ports;
    ip->saddr = htonl((10u << 24) + range * 64 + (established ? 0 : (state >> 40) & 31));
    ip->check = 0;
    ip->check = sum(ip, 20);
    tcp->source = htons(established ? 1024 : 1024 + (n + warm) % 60000);
    tcp->dest = htons(first + range % used);
    tcp->seq = htonl(n);
    tcp->check = 0;
    struct { uint32_t s, d; uint8_t z, p; uint16_t l; struct tcphdr t; } pseudo = {ip->saddr, ip->daddr, 0, IPPROTO_TCP, htons(20), *tcp};
    tcp->check = sum(&pseudo, sizeof pseudo);
    while (sendto(fd, frame, sizeof frame, 0, (void *)&to, sizeof to) < 0) usleep(10);
  }
  if (sliced == 0) return 2;
  qsort(slices, sliced, sizeof *slices, ascending);
  printf("%.1f %.1f\n", slices[sliced / 10], total / sliced);
  return 0;
}
