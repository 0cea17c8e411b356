/** Owns the helper that carries bytes between a pipe and the kernel's netlink sockets: some lines of Perl, without any module. */

/**
 * A frame is the length of its bytes (four bytes, little endian), a protocol of netlink (one byte), and the bytes. Frames of the
 * input go to the socket of their protocol in one write; what a socket gives comes out as a frame. It understands nothing of
 * what it carries, ends with its input, and dies with a sentence where a call fails.
 *
 * 16 and 3 are AF_NETLINK and SOCK_RAW; 1 and 33, SO_RCVBUFFORCE, so that answers to many requests find room; 270 and 10,
 * NETLINK_CAP_ACK, so that they do not repeat the requests.
 */
export const helperScript = String.raw`
use strict;
$| = 1;
my ($input, $watched, %sockets) = ('', '');
vec($watched, 0, 1) = 1;
sub opened {
  my $protocol = shift;
  return $sockets{$protocol} //= do {
    socket(my $socket, 16, 3, $protocol) or die "no netlink socket of protocol $protocol: $!\n";
    setsockopt($socket, 1, 33, pack('i', 4 << 20));
    setsockopt($socket, 270, 10, pack('i', 1));
    vec($watched, fileno($socket), 1) = 1;
    $socket;
  };
}
while (1) {
  my $ready = $watched;
  next if select($ready, undef, undef, undef) < 0;
  for my $protocol (keys %sockets) {
    my $socket = $sockets{$protocol};
    next unless vec($ready, fileno($socket), 1);
    defined sysread($socket, my $bytes, 1 << 20) or die "netlink cannot be read: $!\n";
    print pack('VC', length $bytes, $protocol), $bytes or exit 0;
  }
  next unless vec($ready, 0, 1);
  sysread(STDIN, $input, 1 << 20, length $input) or exit 0;
  while (length $input >= 5) {
    my ($length, $protocol) = unpack('VC', $input);
    last if length $input < 5 + $length;
    my $bytes = substr($input, 5, $length);
    substr($input, 0, 5 + $length) = '';
    defined syswrite(opened($protocol), $bytes) or die "netlink cannot be written: $!\n";
  }
}
`;

/** The command line that starts it. Perl's base package is on every Debian. */
export const helperArgv: readonly string[] = ['perl', '-e', helperScript];
