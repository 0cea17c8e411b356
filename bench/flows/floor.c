/*
 * The least that ending the tracked connections of one address can take: one filtered listing over netlink, which the kernel walks its whole
 * table for, and one delete by tuple for each connection that it lists. Nothing is judged, no socket is ended. Prints milliseconds by the clock of
 * the listing and of the deletes, then how many connections were listed. With a second argument it only lists.
 * Arguments: the address.
 */
#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 4096
#define TOGETHER 256

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1e3 + at.tv_nsec / 1e6;
}

static char out[TOGETHER * 128], in[1 << 16], tuples[MOST][96];
static int sizes[MOST];

static struct nlattr *put(struct nlmsghdr *message, int type, const void *data, int size) {
  struct nlattr *attribute = (void *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));
  attribute->nla_type = type;
  attribute->nla_len = NLA_HDRLEN + size;
  if (data) memcpy((char *)attribute + NLA_HDRLEN, data, size);
  message->nlmsg_len = NLMSG_ALIGN(message->nlmsg_len) + NLA_ALIGN(attribute->nla_len);
  return attribute;
}

static void end(struct nlmsghdr *message, struct nlattr *outer) {
  outer->nla_len = (char *)message + message->nlmsg_len - (char *)outer;
}

static struct nlmsghdr *begin(char *at, int type, int flags) {
  struct nlmsghdr *message = (void *)at;
  memset(message, 0, NLMSG_LENGTH(sizeof(struct nfgenmsg)));
  message->nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg));
  message->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | type;
  message->nlmsg_flags = NLM_F_REQUEST | flags;
  ((struct nfgenmsg *)NLMSG_DATA(message))->nfgen_family = AF_INET;
  return message;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  const uint32_t address = inet_addr(argv[1]), by_source = 1, by_nothing = 0;
  const int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER), room = 4 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  const double from = now();
  struct nlmsghdr *message = begin(out, IPCTNL_MSG_CT_GET, NLM_F_DUMP);
  struct nlattr *tuple = put(message, CTA_TUPLE_ORIG | NLA_F_NESTED, 0, 0), *ip = put(message, CTA_TUPLE_IP | NLA_F_NESTED, 0, 0);
  put(message, CTA_IP_V4_SRC, &address, 4);
  end(message, ip);
  end(message, tuple);
  struct nlattr *filter = put(message, CTA_FILTER | NLA_F_NESTED, 0, 0);
  put(message, CTA_FILTER_ORIG_FLAGS, &by_source, 4);
  put(message, CTA_FILTER_REPLY_FLAGS, &by_nothing, 4);
  end(message, filter);
  if (send(fd, out, message->nlmsg_len, 0) < 0) return 1;
  int count = 0;
  for (int done = 0; !done;) {
    int length = recv(fd, in, sizeof in, 0);
    if (length < 0) return 1;
    for (message = (void *)in; NLMSG_OK(message, length); message = NLMSG_NEXT(message, length)) {
      if (message->nlmsg_type == NLMSG_ERROR) return 1;
      if (message->nlmsg_type == NLMSG_DONE) done = 1;
      struct nlattr *each = (void *)((char *)message + NLMSG_LENGTH(sizeof(struct nfgenmsg)));
      /* The original tuple is the first attribute of a connection. */
      if (done || count == MOST || (each->nla_type & NLA_TYPE_MASK) != CTA_TUPLE_ORIG || each->nla_len > sizeof tuples[0]) continue;
      memcpy(tuples[count], each, each->nla_len);
      sizes[count++] = NLA_ALIGN(each->nla_len);
    }
  }
  const double listed = now();
  for (int at = 0; at < count && argc < 3;) {
    char *to = out;
    for (int n = 0; n < TOGETHER && at < count; n++, at++) {
      message = begin(to, IPCTNL_MSG_CT_DELETE, n == TOGETHER - 1 || at == count - 1 ? NLM_F_ACK : 0);
      memcpy((char *)message + message->nlmsg_len, tuples[at], sizes[at]);
      ((struct nlattr *)((char *)message + message->nlmsg_len))->nla_type |= NLA_F_NESTED;
      message->nlmsg_len += sizes[at];
      to += NLMSG_ALIGN(message->nlmsg_len);
    }
    if (send(fd, out, to - out, 0) < 0 || recv(fd, in, sizeof in, 0) < 0) return 1;
  }
  printf("%.2f %.2f %d\n", listed - from, now() - listed, count);
  return 0;
}
