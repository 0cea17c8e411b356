/** Owns the helper that carries bytes between a pipe and the kernel's netlink sockets: some lines of Perl, without any module. */

/**
 * A frame is the length of its bytes (four bytes, little endian), the number of a socket (one byte), and the bytes. The lower five bits of the
 * number are its protocol of netlink; the others tell sockets of one protocol apart. Frames of the input go to their socket in one write; what a
 * socket gives at a time comes out as one frame: a thousand short answers are not worth a thousand wake-ups. Most answers are there when the
 * write returns, so they are looked for at once. A listing comes out part by part, as the kernel gives it, and other sockets have their turn in
 * between. It understands nothing of what it carries, ends with its input, and dies with a sentence where a call fails.
 *
 * 16 and 3 are AF_NETLINK and SOCK_RAW; 64 is MSG_DONTWAIT, 11 EAGAIN; 1 and 33, SO_RCVBUFFORCE, so that answers to many requests find room; 270 and 10,
 * NETLINK_CAP_ACK, so that they do not repeat the requests.
 */
export const helperScript = String.raw`
use strict;
my ($input, $watched, $more, %sockets) = ('', '', '');
vec($watched, 0, 1) = 1;
sub opened {
  my $number = shift;
  return $sockets{$number} //= do {
    socket(my $socket, 16, 3, $number & 31) or die "no netlink socket $number: $!\n";
    setsockopt($socket, 1, 33, pack('i', 4 << 20));
    setsockopt($socket, 270, 10, pack('i', 1));
    vec($watched, fileno($socket), 1) = 1;
    $socket;
  };
}
sub put {
  my ($bytes, $at) = (shift, 0);
  while ($at < length $bytes) { $at += syswrite(STDOUT, $bytes, length($bytes) - $at, $at) || exit 0; }
}
sub pass_on {
  my ($number, $bytes) = (shift, '');
  while (length $bytes < 1 << 14) {
    if (defined recv($sockets{$number}, $more, 1 << 20, 64)) { $bytes .= $more; next; }
    $! == 11 ? last : die "netlink cannot be read: $!\n";
  }
  put(pack('VC', length $bytes, $number) . $bytes) if length $bytes;
}
while (1) {
  my $ready = $watched;
  next if select($ready, undef, undef, undef) < 0;
  for my $number (keys %sockets) { pass_on($number) if vec($ready, fileno($sockets{$number}), 1); }
  next unless vec($ready, 0, 1);
  sysread(STDIN, $input, 1 << 20, length $input) or exit 0;
  while (length $input >= 5) {
    my ($length, $number) = unpack('VC', $input);
    last if length $input < 5 + $length;
    my $bytes = substr($input, 5, $length);
    substr($input, 0, 5 + $length) = '';
    defined syswrite(opened($number), $bytes) or die "netlink cannot be written: $!\n";
    pass_on($number);
  }
}
`;

/** The command line that starts it. Perl's base package is on every Debian. */
export const helperArgv: readonly string[] = ['perl', '-e', helperScript];
