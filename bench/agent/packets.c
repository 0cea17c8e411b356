/*
 * Sends TCP openings on an interface, each of another flow, and tells what they took: nanoseconds of the processor per packet, sending
 * and receiving together, because the far end of a virtual cable is served by whoever sends.
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
  const uint16_t *words = data;
  uint32_t total = 0;
  for (int i = 0; i < length / 2; i++) total += words[i];
  while (total >> 16) total = (total & 0xffff) + (total >> 16);
  return ~total;
}

int main(int argc, char **argv) {
  if (argc < 7) return 2;
  const long packets = atol(argv[3]), ranges = atol(argv[4]), ports = atol(argv[5]), first = atol(argv[6]);
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
  tcp->syn = 1;
  tcp->window = htons(1000);
  uint64_t state = 88172645463325252ull;
  struct timespec from, until;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  for (long n = 0; n < packets; n++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    long range = ranges > 0 ? (long)(state % (uint64_t)ranges) : (long)(state % 10000);
    long used = ranges > 0 && ranges < ports ? ranges : ports;
    ip->saddr = htonl((10u << 24) + range * 64 + ((state >> 40) & 31));
    ip->check = 0;
    ip->check = sum(ip, 20);
    tcp->source = htons(1024 + (n % 60000));
    tcp->dest = htons(first + range % used);
    tcp->seq = htonl(n);
    tcp->check = 0;
    struct { uint32_t s, d; uint8_t z, p; uint16_t l; struct tcphdr t; } pseudo = {ip->saddr, ip->daddr, 0, IPPROTO_TCP, htons(20), *tcp};
    tcp->check = sum(&pseudo, sizeof pseudo);
    while (sendto(fd, frame, sizeof frame, 0, (void *)&to, sizeof to) < 0) usleep(10);
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &until);
  printf("%.1f\n", ((until.tv_sec - from.tv_sec) * 1e9 + (until.tv_nsec - from.tv_nsec)) / packets);
  return 0;
}
